"""``pencil index``: write the index of a sharded data set, or check its shards against it."""

from __future__ import annotations

import shlex
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pencil.cli.options import as_json
from pencil.cli.output import is_terminal, print_json, print_pairs, say
from pencil.errors import ConfigError, DataError
from pencil.places import common_place

if TYPE_CHECKING:
    from pencil.data.shards import ShardIndex

LINE_SECONDS = 1.0  # between two lines of progress without a terminal
SHOWN = 10


@click.command()
@click.argument("shards", nargs=-1, required=True)
@click.option("--out", type=click.Path(path_type=Path), help="The folder to write.")
@click.option("--test", multiple=True, metavar="SHARDS", help="Shards of the test split. May be repeated.")
@click.option(
    "--label-field",
    metavar="NAME",
    help="Column, extension or .json field of the labels. [default: label, .cls]",
)
@click.option("--input-field", metavar="NAME", help="Column or extension of the inputs. [default: detected]")
@click.option("--id-field", metavar="NAME", help="Column of the row ids. [default: id, if it exists]")
@click.option(
    "--ignore",
    multiple=True,
    metavar="EXT",
    help="Skip files in tar shards with this extension. May be repeated.",
)
@click.option("--workers", type=click.IntRange(1), default=4, show_default=True, help="Shards read at once.")
@click.option("--check", is_flag=True, help="SHARDS is an index: read all its shards and compare checksums.")
@as_json
@click.option("--quiet", is_flag=True, help="Show no progress.")
def index(
    shards: tuple[str, ...],
    out: Path | None,
    test: tuple[str, ...],
    label_field: str | None,
    input_field: str | None,
    id_field: str | None,
    ignore: tuple[str, ...],
    workers: int,
    check: bool,
    json_: bool,
    quiet: bool,
) -> None:
    """Index SHARDS, so that pencil can train on them.

    SHARDS are .tar files in the WebDataset layout or .parquet files: paths, folders, patterns, ranges such as
    train-{0000..0999}.tar, http://, s3:// or gs:// addresses, or a .txt file that lists them. Train with: pencil train
    OUT.
    """
    from pencil.data.shards import Fields, write_index

    progress = (lambda *_: None) if quiet else Steps()
    if check:
        named = {"--label-field": label_field, "--input-field": input_field, "--id-field": id_field}
        _check_alone({"--out": out, "--test": test, **named, "--ignore": ignore})
        _check(shards, progress, json_)
        return
    if out is None:
        raise ConfigError("--out: missing; give the folder to write the index to")
    ignored = frozenset(extension.lower().removeprefix(".") for extension in ignore)
    fields = Fields(label_field, input_field, id_field, ignored)
    splits = {"train": shards, **({"test": test} if test else {})}
    begun = time.monotonic()
    written = write_index(splits, out, fields, workers=workers, progress=progress)
    _report(written, round(time.monotonic() - begun, 3), json_)


def _report(written: ShardIndex, seconds: float, json_: bool) -> None:
    counts = {
        "shards": len(written.shards),
        "rows": {name: len(split) for name, split in written.splits.items()},
        "classes": len(written.classes),
        "bytes": sum(shard.bytes for shard in written.shards),
    }
    if json_:
        print_json({"out": str(written.folder), **counts, "seconds": seconds})
        return
    rows = ", ".join(f"{count:,} {name}" for name, count in counts["rows"].items())  # type: ignore[attr-defined]
    print_pairs({"index": written.folder, **counts, "rows": rows, "seconds": seconds})
    outside = written.outside()
    allow = f"--allow {shlex.quote(common_place(outside))} " if outside else ""
    say(f"next: pencil {allow}train {shlex.quote(str(written.folder))}")


def _check_alone(options: Mapping[str, object]) -> None:
    """Refuse options that only writing an index uses."""
    given = next((name for name, value in options.items() if value), None)
    if given is not None:
        raise ConfigError(
            f"--check: reads an index and cannot be combined with {given}; leave one of them out"
        )


def _check(words: tuple[str, ...], progress: Callable[[int, int, int], None], json_: bool) -> None:
    from pencil.data.shards import ShardIndex, damaged_shards

    if len(words) != 1:
        raise ConfigError("--check: give one index folder")
    written = ShardIndex.open(Path(words[0]))
    written.check_places()
    with tempfile.TemporaryDirectory(prefix="pencil-check-") as folder:
        problems = damaged_shards(written, Path(folder), progress)
    if problems:
        listed = [f"{shard.name}: {problem}" for shard, problem in problems.items()]
        more = [f"and {len(listed) - SHOWN} more"] if len(listed) > SHOWN else []
        lines = "\n  ".join([*listed[:SHOWN], *more])
        raise DataError(f"{len(problems)} shards are missing or damaged; restore them:\n  {lines}")
    result = {"index": str(written.folder), "shards": len(written.shards), "damaged": 0}
    print_json(result) if json_ else say(
        f"{written.folder}: all {len(written.shards):,} shards match the index"
    )


class Steps:
    """Shows progress: an updating line on a terminal, otherwise at most one line per second."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._spoken = 0.0

    def __call__(self, done: int, total: int, rows: int) -> None:
        """Show the progress after a shard."""
        now = time.monotonic()
        if now - self._spoken < LINE_SECONDS and done < total:
            return
        self._spoken = now
        left = round((now - self._begun) / done * (total - done))
        text = f"{done:,} of {total:,} shards, {rows:,} rows, {left // 60}:{left % 60:02} left"
        if is_terminal():
            click.echo(f"\r\x1b[K{text}", err=True, nl=done == total)
        else:
            say(text)
