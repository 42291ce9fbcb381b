"""``pencil embed``: write the features of a pretrained network to files."""

from __future__ import annotations

import os
import shlex
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pencil.cli.options import allow_current_folder, as_json, set_option
from pencil.cli.output import LINE_SECONDS, duration, is_terminal, print_json, print_pairs, say
from pencil.errors import ConfigError

if TYPE_CHECKING:
    from pencil.embed.parts import Output, Rows
    from pencil.kinds import DataSection

WAITING_SECONDS = 60.0  # between two lines of rank 0 while it waits for the others


@click.command()
@click.argument("data")
@click.option("--model", help="The pretrained model. [default: as pencil train chooses it]")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="An .npz file, or a folder of Parquet shards.",
)
@click.option("--batch-size", type=click.IntRange(1), default=32, show_default=True, help="Rows at once.")
@click.option(
    "--part-rows",
    type=click.IntRange(1),
    default=8192,
    show_default=True,
    help="Rows of a part or shard. A run that was killed continues after its complete parts.",
)
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or cuda:0.")
@set_option
@as_json
@click.option("--quiet", is_flag=True, help="Show no progress.")
def embed(
    data: str,
    model: str | None,
    out: Path,
    batch_size: int,
    part_rows: int,
    device: str,
    settings: tuple[str, ...],
    json_: bool,
    quiet: bool,
) -> None:
    """Write features of DATA by a pretrained network.

    MODEL is transformers:NAME_OR_FOLDER, sentence-transformers:NAME_OR_FOLDER, timm:NAME, torchvision:NAME, onnx:FILE,
    efficientnet_lite0, minilm, ngrams (texts, not pretrained), or your own module:function. If the command is stopped,
    start it again: it continues. Under torchrun, ranks divide the rows.
    """
    from pencil.configure import check_reading, data_section
    from pencil.embed import named_code, open_encoder
    from pencil.embed.parts import embed_rows, join_parts
    from pencil.engine import Runtime
    from pencil.run import code_of_data

    check_reading(settings, "embed")
    begun = time.monotonic()
    rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    name = model or _default(data, settings, rank)
    section = data_section(data, settings)
    code = {"--model": found} if (found := named_code(name)) else {}
    allow_current_folder(code_of_data(section) | code, {data, name})
    where = str(Runtime.alone(device).device)
    output = _output(out)(out, _splits(section), open_encoder(name, where), part_rows)
    progress = Steps(world_size) if rank == 0 and not quiet else lambda *_: None
    count = embed_rows(output, rank=rank, world_size=world_size, batch=batch_size, progress=progress)
    if rank == 0:
        path = join_parts(output, Waiting())
        _report(output, path, count, time.monotonic() - begun, json_)


def _default(data: str, settings: tuple[str, ...], rank: int) -> str:
    """The model that suits the data among those installed."""
    from pencil.configure import choose_encoder

    name, line = choose_encoder(data, None, settings=settings)
    if name is None:
        raise ConfigError(f"--model: missing; {line or 'name one, see pencil embed --help'}")
    if rank == 0 and line:
        say(line)
    return name


def _output(out: Path) -> type[Output]:
    from pencil.embed.outputs import NpzOutput, ShardOutput

    if out.suffix.lower() == ".npz":
        return NpzOutput
    if out.suffix.lower() in (".npy", ".parquet", ".csv"):
        raise ConfigError(f"--out {out}: give an .npz file, or a folder for Parquet shards")
    return ShardOutput


def _splits(section: DataSection) -> Mapping[str, Rows]:
    """The rows to embed; those without labels are one split."""
    from pencil.run import read_splits
    from pencil.run.sources import read_unlabelled

    unlabelled = read_unlabelled(section)
    if unlabelled is not None:
        return {"train": unlabelled}
    found = read_splits(section)
    if found.validation is not None:
        warnings.warn(
            f"{len(found.validation):,} validation rows of {section.path} are left out", stacklevel=2
        )
    if found.train.labels.trusted is not None:
        warnings.warn("which labels are trusted is not written; give them again with --trusted", stacklevel=2)
    return {"train": found.train} | ({} if found.test is None else {"test": found.test})


def _report(output: Output, path: Path, count: int, seconds: float, json_: bool) -> None:
    values: dict[str, Any] = {
        "out": str(path),
        "model": output.encoder.name,
        "mark": output.encoder.mark,
        "features": output.encoder.size,
        "rows": {split: len(rows) for split, rows in output.splits.items()},
        "encoded": count,
        "seconds": round(seconds, 3),
    }
    if json_:
        print_json(values)
        return
    rows = ", ".join(f"{number:,} {split}" for split, number in values["rows"].items())
    print_pairs({**values, "rows": rows})
    say(f"next: pencil train {shlex.quote(str(path))}")


class Steps:
    """Shows progress: an updating line on a terminal, otherwise at most one line per second."""

    def __init__(self, world_size: int) -> None:
        self._of = "rows" if world_size == 1 else f"rows of this rank, one of {world_size}"
        self._begun = self._spoken = time.monotonic()
        self._first: int | None = None

    def __call__(self, done: int, total: int) -> None:
        """Show the progress after a batch; rows of an earlier run do not count for the speed."""
        now = time.monotonic()
        if self._first is None:
            self._first, self._begun = done, now
        if now - self._spoken < LINE_SECONDS and done < total:
            return
        self._spoken = now
        speed = (done - self._first) / max(now - self._begun, 1e-9)
        left = f", {speed:,.0f} a second, {duration((total - done) / speed)} left" if speed else ""
        text = f"{done:,} of {total:,} {self._of}{left}"
        if is_terminal():
            click.echo(f"\r\x1b[K{text}", err=True, nl=done == total)
        else:
            say(text)


class Waiting:
    """Says now and then that other ranks are not ready."""

    def __init__(self) -> None:
        self._spoken = time.monotonic()

    def __call__(self, missing: int) -> None:
        """Called while parts are missing."""
        if time.monotonic() - self._spoken >= WAITING_SECONDS:
            self._spoken = time.monotonic()
            say(f"waiting for {missing:,} parts of other ranks")
