"""The ``pencil`` command: registers all commands and reports errors as one message."""

from __future__ import annotations

import io
import os
import signal
import sys
from types import FrameType

import click

from pencil._version import __version__
from pencil.cli.audit import audit
from pencil.cli.bench import bench
from pencil.cli.embed import embed
from pencil.cli.example import example
from pencil.cli.export import export, trusted
from pencil.cli.index import index
from pencil.cli.output import print_json, say, show_warnings_plainly
from pencil.cli.planning import plan, presets
from pencil.cli.ranks import exit_after_main, printing_for_all
from pencil.cli.report import report
from pencil.cli.review import review
from pencil.cli.training import resume, train
from pencil.cli.using import evaluate, labels, noise, predict
from pencil.cli.verify import verify
from pencil.errors import NotFiniteError, PencilError
from pencil.machine import fault_of
from pencil.places import allowing


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__)
@click.option(
    "--allow",
    multiple=True,
    metavar="PLACE",
    help="Allow a manifest or an index to name files in this folder or at this address. May be repeated.",
)
@click.pass_context
def cli(context: click.Context, allow: tuple[str, ...]) -> None:
    """Learn from noisy labels: a robust model and corrected labels from one training run."""
    context.with_resource(allowing(allow))


for command in (
    *(train, resume, evaluate, predict, labels, report, review, audit, verify),
    *(embed, example, export, trusted, index, noise, plan, presets, bench),
):
    cli.add_command(command)


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a command as Ctrl-C does: what it has begun to write is removed."""


def main() -> None:
    """Run the command. A user's mistake prints one message, without a traceback, and exits with code 2."""
    show_warnings_plainly()
    _hear_sigterm()
    try:
        cli(prog_name="pencil", standalone_mode=False)
    except NotFiniteError as error:  # the same on every rank
        exit_after_main(2)
        with printing_for_all():
            _fail(str(error))
    except PencilError as error:
        _fail(str(error))
    except click.ClickException as error:
        usage = io.StringIO()
        error.show(usage)
        _fail(error.format_message(), usage.getvalue().rstrip("\n"))
    except (click.Abort, KeyboardInterrupt) as error:
        begun = ", or for a run that has begun: pencil resume RUN" if "train" in sys.argv else ""
        say(f"interrupted; to go on, run the same command again{begun}")
        sys.exit(143 if isinstance(error.__cause__ or error, Terminated) else 130)
    except BrokenPipeError:  # the reader of stdout, such as head, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        words = _machine_fault(error)
        if words is None:
            raise
        _fail(words)


def _hear_sigterm() -> None:
    def terminate(number: int, frame: FrameType | None) -> None:
        raise Terminated

    if os.environ.get("WORLD_SIZE", "1") == "1":  # ranks that wait in torch for others would not hear it
        signal.signal(signal.SIGTERM, terminate)


def _machine_fault(error: Exception) -> str | None:
    """The missing or failing resource of the machine; None for an internal error."""
    words = fault_of(error)
    if isinstance(error, OSError):
        return f"{error.filename or 'input or output'}: {words or error.strerror or error}"
    return words


def _fail(message: str, usage: str | None = None) -> None:
    rank = os.environ.get("RANK", "0")
    if rank != "0":  # usually all ranks fail with the same message
        say(f"error, rank {rank}: {message}")
        sys.exit(2)
    if "--json" in sys.argv:
        print_json({"error": message})
    say(usage or f"error: {message}")
    sys.exit(2)
