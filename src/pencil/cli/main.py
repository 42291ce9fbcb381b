"""Commands, thin: parse, call ``pencil.run``, print."""

from __future__ import annotations

import io
import itertools
import os
import re
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import click

from pencil._version import __version__
from pencil.cli.bench import bench
from pencil.cli.export import export, trusted
from pencil.cli.index import index
from pencil.cli.options import (
    allow_current_folder,
    as_json,
    changed_data_option,
    for_spreadsheet,
    tell_code,
    trust_code_option,
)
from pencil.cli.output import human, percent, print_json, print_pairs, say, show_warnings_plainly
from pencil.cli.ranks import told, until_told
from pencil.cli.report import report
from pencil.cli.review import review
from pencil.errors import ConfigError, NotFiniteError, PencilError
from pencil.machine import fault_of
from pencil.places import allowing

run_argument = click.argument("run", type=click.Path(path_type=Path))
set_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="PATH=VALUE",
    help="Set one value, e.g. method.label_rate=0.5.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__)
@click.option(
    "--allow",
    multiple=True,
    metavar="PLACE",
    help="Let a manifest or an index name files in this folder, or at this address. May be given several times.",
)
@click.pass_context
def cli(context: click.Context, allow: tuple[str, ...]) -> None:
    """Learn from noisy labels: a robust model and corrected labels from one training run."""
    context.with_resource(allowing(allow))


@cli.command()
@click.argument("data", required=False)
@click.option("--config", type=click.Path(path_type=Path), help="A TOML file with the settings.")
@click.option("--preset", "preset_name", help="Named settings; see: pencil presets.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="The run's folder. [default: runs/<data>-<time>]"
)
@click.option("--method", help="pencil, cross_entropy or a peer; docs/methods.md has them all.")
@click.option("--noise", help="Corrupt the training labels: symmetric:0.4, circular:0.3, instance:0.4, ...")
@click.option("--trusted", help="Labels somebody made sure of: a reviewed run, or a .csv with id and label.")
@click.option("--epochs", help="Epochs of the phases backbone,correction,finetune: 2,28,20.")
@click.option("--seed", type=int, help="Decides everything random.")
@click.option(
    "--on-error",
    type=click.Choice(["error", "skip"]),
    help="skip: leave out rows that cannot be read, and tell which. [default: error]",
)
@set_option
@trust_code_option
@as_json
@click.option("--quiet", is_flag=True, help="No progress.")
def train(
    data: str | None,
    config: Path | None,
    preset_name: str | None,
    out: Path | None,
    trust_code: bool,
    json_: bool,
    quiet: bool,
    **flags: Any,
) -> None:
    """Train on DATA: features, images, a manifest or shards.

    DATA is an .npz or .npy of features, a folder with a folder of images per class, a .csv or .parquet manifest, the
    folder that pencil index wrote, a folder of CIFAR or IDX files, or your own function as package.module:function. Its
    kind is recognised and chooses the settings, unless --config or --preset names others.
    """
    from pencil import run
    from pencil.cli.progress import progress
    from pencil.cli.settings import train_config, words_of

    chosen = train_config(data, config, preset_name, **flags)
    _take_code(run.code_in(chosen), {data or "", *words_of(flags["settings"])}, trust_code, config)
    _report(run.train(chosen, out or _new_folder(chosen.data.path), [] if quiet else [progress()]), json_)


@cli.command()
@run_argument
@trust_code_option
@changed_data_option
@as_json
@click.option("--quiet", is_flag=True, help="No progress.")
@click.option(
    "--from-start", is_flag=True, help="Begin again at the first step, whatever checkpoints there are."
)
def resume(run: Path, json_: bool, quiet: bool, **allowed: bool) -> None:
    """Continue a stopped or killed RUN exactly where it stood."""
    from pencil.cli.progress import progress
    from pencil.run import RunDirectory, code_in
    from pencil.run import resume as continue_run

    directory = RunDirectory.open(run)
    if directory.is_finished:
        say(f"{run} is finished already")
    elif allowed["trust_code"]:
        tell_code(code_in(directory.config), run)
    _report(continue_run(run, [] if quiet else [progress()], **allowed), json_)


@cli.command()
@run_argument
@click.option(
    "--split", type=click.Choice(["test", "validation", "train"]), default="test", show_default=True
)
@trust_code_option
@changed_data_option
@as_json
def evaluate(run: Path, split: str, trust_code: bool, changed_data: bool, json_: bool) -> None:
    """Accuracy of RUN's model on its own data.

    It is measured against the labels as given: noisy ones on the train and validation splits.
    """
    from pencil.run import RunDirectory, code_of_data, code_of_run
    from pencil.run import evaluate as measure

    directory = RunDirectory.open(run)
    if trust_code:
        tell_code(code_of_data(directory.config.data) | code_of_run(directory), run)
    result = measure(directory, split, trust_code=trust_code, changed_data=changed_data)
    if json_:
        print_json(result)
    else:
        print_pairs({**result, "accuracy": percent(result["accuracy"])})


@cli.command()
@run_argument
@click.argument("data")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="A .csv or .parquet file.")
@click.option(
    "--split",
    type=click.Choice(["train", "test"]),
    default="train",
    show_default=True,
    help="Which split of DATA.",
)
@click.option("--distribution", is_flag=True, help="Write the probability of every class too.")
@for_spreadsheet
@set_option
@trust_code_option
@as_json
def predict(
    run: Path,
    data: str,
    out: Path,
    split: str,
    distribution: bool,
    spreadsheet: bool,
    settings: tuple[str, ...],
    trust_code: bool,
    json_: bool,
) -> None:
    """Predict every example of DATA with RUN's model.

    DATA is read like the run's own data. It may have labels, which are then written beside the predictions, or none: an
    .npy or .npz of features, images in one folder, or a table of their paths. --set changes how it is read.
    """
    from pencil.cli.settings import data_section
    from pencil.results import write_labels
    from pencil.run import RunDirectory, code_of_data, code_of_run
    from pencil.run import predict as predictions

    _keep_apart(out, data)
    directory = RunDirectory.open(run)
    directory.require_finished()
    section = data_section(data, settings, like=directory.config)
    allow_current_folder(code_of_data(section), {data})
    if trust_code:
        tell_code(code_of_run(directory), run)
    chunks, names = predictions(directory, section, split, trust_code=trust_code)
    count = write_labels(out, chunks, names, distribution=distribution, spreadsheet=spreadsheet)
    _wrote(out, count, json_)


@cli.command()
@run_argument
@click.option("--out", type=click.Path(path_type=Path), required=True, help="A .csv or .parquet file.")
@click.option("--distribution", is_flag=True, help="Write the probability of every class too.")
@for_spreadsheet
@as_json
def labels(run: Path, out: Path, distribution: bool, spreadsheet: bool, json_: bool) -> None:
    """Write RUN's labels: given, suggested, confidence, verdict.

    If RUN was reviewed, what reviewers decided replaces what was learned, and the column decision shows it.
    """
    from pencil.results import write_labels
    from pencil.run import RunDirectory, learned_labels

    directory = RunDirectory.open(run)
    chunks, names = learned_labels(directory)
    _keep_apart(out, directory.config.data.path)
    count = write_labels(out, chunks, names, distribution=distribution, spreadsheet=spreadsheet)
    _wrote(out, count, json_)


@cli.command()
@click.argument("data")
@click.option("--noise", required=True, help="symmetric:0.4, circular:0.3, cifar10:0.4, instance:0.4.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="A .csv or .npy file.")
@click.option("--seed", type=int, default=0, show_default=True)
@set_option
@as_json
def noise(data: str, noise: str, out: Path, seed: int, settings: tuple[str, ...], json_: bool) -> None:
    """Write noisy labels for DATA's training rows to a file.

    DATA itself is never touched. Train with the file by --noise FILE.
    """
    from pencil.cli.settings import data_section
    from pencil.data import write_label_file
    from pencil.results import writing
    from pencil.run import code_of_data, noisy_labels, read_splits

    _keep_apart(out, data)
    section = data_section(data, settings, noise=noise)
    allow_current_folder(code_of_data(section), {data})
    train_split = read_splits(section).train
    assert section.noise is not None
    noisy, clean = noisy_labels(train_split, section.noise, seed).hard, train_split.labels.hard
    with writing(out, ".csv", ".npy") as partial:
        write_label_file(partial, train_split.ids, noisy, train_split.class_names, clean=clean)
    share = float((noisy != clean).float().mean())
    result = {"out": str(out), "rows": len(noisy), "changed": share}
    print_json(result) if json_ else say(f"{out}: {len(noisy):,} labels, {percent(share)} of them changed")


@cli.command()
@click.option("--rows", type=int, required=True, help="Examples.")
@click.option("--classes", type=int, required=True)
@click.option("--ranks", type=int, default=1, show_default=True, help="Processes that train together.")
@click.option("--k", type=int, help="Entries of a label row to keep. [default: by memory]")
@click.option("--batch-size", type=int, default=1024, show_default=True, help="Of all ranks together.")
@click.option("--image-size", type=int, default=224, show_default=True, help="0 for features.")
@click.option("--features", type=int, default=2048, show_default=True, help="Inputs of the last layer.")
@click.option("--parameters", type=int, help="Weights before the last layer. [default: ResNet-50's]")
@click.option("--memory", type=float, default=24.0, show_default=True, help="GiB of one rank.")
@click.option("--parallel", type=click.Choice(["ddp", "fsdp"]), default="ddp", show_default=True)
@as_json
def plan(json_: bool, memory: float, image_size: int, parameters: int | None, **sizes: Any) -> None:
    """What a run of a given size needs: memory, wire, checkpoints.

    Bytes are counted; seconds are those of one rank on two slow cores and shrink with yours.
    """
    from pencil.run import Plan

    chosen: dict[str, Any] = {} if parameters is None else {"parameters": parameters}
    planned = Plan(memory=int(memory * 2**30), image_size=image_size or None, **chosen, **sizes)
    figures = planned.figures()
    if json_:
        print_json({**figures, "advice": planned.advice})
        return
    print_pairs({name.replace("_", " "): human(name, value) for name, value in figures.items()})
    say(planned.advice)


@cli.group(invoke_without_command=True)
@as_json
@click.pass_context
def presets(context: click.Context, json_: bool) -> None:
    """List ready settings, or show one as TOML."""
    if context.invoked_subcommand is None:
        from pencil.presets import GROUPS, PRESETS, describe

        if json_:
            print_json({name: describe(name) for name in PRESETS})
            return
        for number, (title, group) in enumerate(GROUPS.items()):
            click.echo(f"{chr(10) if number else ''}{title}")
            print_pairs({f"  {name}": describe(name) for name in group})


@presets.command()
@click.argument("name")
@as_json
@click.pass_context
def show(context: click.Context, name: str, json_: bool) -> None:
    """Print the settings of preset NAME as TOML, ready to edit and pass to --config.

    Comments say which experiment it is and where it had to choose.
    """
    from pencil.presets import choices, describe, preset

    config = preset(name, "PATH")
    if json_ or (context.parent and context.parent.params["json_"]):
        print_json(config.table())
        return
    for line in (describe(name), *choices(name)):
        click.echo(f"# {line}")
    click.echo(f"\n{config.toml()}", nl=False)


cli.add_command(bench)
cli.add_command(export)
cli.add_command(index)
cli.add_command(trusted)
cli.add_command(report)
cli.add_command(review)


def main() -> None:
    """Run the command; a user's mistake ends in one message and exit code 2, never in a traceback."""
    show_warnings_plainly()
    try:
        cli(prog_name="pencil", standalone_mode=False)
    except NotFiniteError as error:  # the same on every rank
        until_told()
        with told():
            _fail(str(error))
    except PencilError as error:
        _fail(str(error))
    except click.ClickException as error:
        usage = io.StringIO()
        error.show(usage)
        _fail(error.format_message(), usage.getvalue().rstrip("\n"))
    except (click.Abort, KeyboardInterrupt):
        say("interrupted")
        sys.exit(130)
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        words = _machine_fault(error)
        if words is None:
            raise
        _fail(words)


def _machine_fault(error: Exception) -> str | None:
    """What the machine lacked or refused; None for a defect of ours."""
    words = fault_of(error)
    if isinstance(error, OSError):
        return f"{error.filename or 'input or output'}: {words or error.strerror or error}"
    return words


def _fail(message: str, usage: str | None = None) -> None:
    rank = os.environ.get("RANK", "0")
    if rank != "0":  # its mistake is mostly everybody's
        say(f"error, rank {rank}: {message}")
        sys.exit(2)
    if "--json" in sys.argv:
        print_json({"error": message})
    say(usage or f"error: {message}")
    sys.exit(2)


def _take_code(named: dict[str, str], said: set[str], trust_code: bool, source: Path | None) -> None:
    """Code that the command line names is the user's own; what a file names must be trusted."""
    from pencil.run import check_code

    foreign = {field: code for field, code in named.items() if code not in said}
    check_code(foreign, trust_code, source=source)
    tell_code(foreign, source)
    allow_current_folder(named, said)


def _new_folder(data: str) -> Path:
    if "TORCHELASTIC_RUN_ID" in os.environ or os.environ.get("WORLD_SIZE", "1") != "1":
        raise ConfigError(
            "--out: several processes, and their restarts, must agree on the run's folder; name it"
        )
    name = re.sub(r"[^\w.-]+", "-", Path(data).expanduser().absolute().stem)
    folder = Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    others = (folder.with_name(f"{folder.name}-{number}") for number in itertools.count(2))
    return next(place for place in itertools.chain([folder], others) if not place.exists())


def _keep_apart(out: Path, data: str) -> None:
    if out.resolve() == Path(data).expanduser().resolve():
        raise ConfigError(f"--out {out}: that is the data itself; choose another file")


def _report(directory: Any, json_: bool) -> None:
    """A finished run's result, or how to continue one that was stopped; of several ranks one speaks."""
    speaks, finished = os.environ.get("RANK", "0") == "0", directory.is_finished
    if speaks and json_:
        summary = directory.summary if finished else {}
        print_json({"run": str(directory.path), "finished": finished, **summary})
    elif speaks and finished:
        _print_summary(directory)
    if not finished:
        if speaks:
            say(f"stopped with a checkpoint; continue with: {directory.resume_command}")
        sys.exit(3)


def _print_summary(directory: Any) -> None:
    summary = directory.summary
    last = {
        name.replace("_", " "): percent(value)
        for name, value in summary["last"].items()
        if name.endswith(("accuracy", "correct")) and value is not None
    }
    changed = f"{summary['labels_changed']:,} of {summary['examples']:,}"
    print_pairs({"run": directory.path, "labels changed": changed, **last, "seconds": summary["seconds"]})
    for alarm in summary["alarms"]:
        say(f"alarm: {alarm}")
    place = shlex.quote(str(directory.path))
    say(f"next: pencil report {place}, pencil review {place}, or pencil labels {place} --out labels.csv")


def _wrote(out: Path, count: int, json_: bool) -> None:
    print_json({"out": str(out), "rows": count}) if json_ else say(f"{out}: {count:,} rows")
