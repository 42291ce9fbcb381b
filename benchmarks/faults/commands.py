"""Every command of ``pencil``, called with a file or folder of somebody else's; found in the command line itself."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import click

from pencil.cli.main import cli

Words = list[str]
SIZES = {"rows": "100", "classes": "3"}  # what commands that take no file want to know
NOISE = "symmetric:0.2"
ENDINGS = {  # of what is written, by command or by tool
    **{"index": "", "train": "", "run": "", "report": ".html"},
    **{"label-studio": ".json", "fiftyone": "", "datasets": ".parquet", "cleanlab": ".npz"},
}
QUICK = ["--epochs", "1,1,1"]


def leaves(
    command: click.Command = cli, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """The words of every command and subcommand, and the command."""
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from leaves(inner, (*words, name))
    else:
        yield words, command


def calls(planted: str, run: Path, data: Path, out: Path) -> Iterator[Words]:
    """The words of all calls that give ``planted`` to a command, as each of its arguments and options that takes one.

    Args:
        planted: The file or folder.
        run: A harmless run, for commands that take one besides.
        data: Harmless data, likewise.
        out: A folder for what commands write.
    """
    number = itertools.count()
    for words, command in leaves():
        for place in filter(_takes_a_place, command.params):
            for rest in itertools.product(*_words(command, place, planted, run, data)):
                chosen = [*words, *itertools.chain(*rest), *(QUICK if command.name == "train" else [])]
                yield chosen + _out(command, chosen, out / str(next(number)))


def _takes_a_place(param: click.Parameter) -> bool:
    """Whether it may be a path that is read: an argument, or an option for a path other than what is written."""
    if isinstance(param, click.Argument):
        return param.name != "name"
    written = ("out", "figures", "markdown")
    return param.name in ("trusted", "noise") or (
        isinstance(param.type, click.Path) and param.name not in written
    )


def _words(
    command: click.Command, place: click.Parameter, planted: str, run: Path, data: Path
) -> Iterator[list[Words]]:
    """For each parameter that must be given, the words to give it by."""
    for param in command.params:
        if param is place:
            yield [[planted] if isinstance(param, click.Argument) else [param.opts[0], planted]]
        elif isinstance(param, click.Argument):
            if param.required or place.name in ("trusted", "noise"):
                yield [[str(run if param.name == "run" else data)]]
        elif param.required and param.name != "out":
            yield _values(param)


def _out(command: click.Command, words: Words, path: Path) -> Words:
    """Where to write, for commands that do."""
    if all(param.name != "out" for param in command.params):
        return []
    ending = next((ENDINGS[word] for word in (*words, str(command.name)) if word in ENDINGS), ".csv")
    return ["--out", f"{path}{ending}"]


def _values(param: click.Parameter) -> list[Words]:
    name = str(param.name)
    if isinstance(param.type, click.Choice):
        return [[param.opts[0], str(choice)] for choice in param.type.choices]
    if name in SIZES:
        return [[param.opts[0], SIZES[name]]]
    if name == "noise":
        return [[param.opts[0], NOISE]]
    raise LookupError(f"{param.opts[0]}: say in benchmarks/faults/commands.py what to call it with")
