"""The exporters: one writer per tool."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pencil.data import as_text
from pencil.data import shown as row_shown
from pencil.errors import ConfigError, DataError, PencilError
from pencil.export import cleanlab, datasets, fiftyone, label_studio
from pencil.export.label_studio import Shown
from pencil.kinds import DataSection, TableData, kind_of
from pencil.results import LabelRow, label_rows, writing
from pencil.run import ChangedDataError, RunDirectory, check_apart, judged_labels, rows_to_show
from pencil.run.provenance import source_of, write_source


@dataclass(frozen=True)
class ExportOptions:
    """Options of an export; each tool supports some of them.

    Attributes:
        verdicts: Export rows with these verdicts only; empty for all rows.
        prefix: Text before each id that makes it the address of the image; None for the tool's default.
        texts: A .csv with the columns id and text, to show texts instead of images; None for the run's own texts.
        distribution: Whether to write the probability of every class.
        max_false_relabels: Replaces the share of the run's verdict rule.
        entry: The last entry of the review to use; None for all.
    """

    verdicts: Collection[str] = ()
    prefix: str | None = None
    texts: Path | None = None
    distribution: bool = False
    max_false_relabels: float | None = None
    entry: int | None = None


@dataclass(frozen=True)
class Exported:
    """The result of an export: number of rows and files written."""

    rows: int
    files: tuple[Path, ...]


def export(directory: RunDirectory, tool: str, out: Path, options: ExportOptions) -> Exported:
    """Write a finished run's labels for a tool, one of ``TOOLS``."""
    write, takes = TOOLS[tool]
    for name in ("verdicts", "prefix", "texts", "distribution"):
        if getattr(options, name) not in (None, False, ()) and name not in takes:
            option = name.removesuffix("s") if name == "verdicts" else name
            raise ConfigError(f"--{option}: not supported for {tool}; leave it out")
    check_apart("--out", out, directory.data)
    directory.require_finished()
    source = source_of(directory)
    exported = write(directory, out, replace(options, entry=source["entry"]))
    write_source(exported.files[0], source)
    return exported


def _label_studio(directory: RunDirectory, out: Path, options: ExportOptions) -> Exported:
    if options.texts is not None and options.prefix is not None:
        raise ConfigError(
            "--prefix and --texts: a row is shown as an image or as a text; leave out the other"
        )
    shown, show = _shown(directory, options)
    rows, names = _rows(directory, options)
    config = out.with_suffix(".xml")
    with writing(out, ".json") as partial:
        count = write_json_list(partial, (label_studio.task(row, shown, show) for row in rows))
    with writing(config, ".xml") as partial:
        partial.write_text(label_studio.labeling_config(names, shown), encoding="utf-8")
    return Exported(count, (out, config))


def _fiftyone(directory: RunDirectory, out: Path, options: ExportOptions) -> Exported:
    data = directory.data
    if options.prefix is None and _has_texts(data):
        raise ConfigError(
            f"--to fiftyone: it shows images, but the rows of {directory.path} are texts; use --to label-studio, "
            "or name the images of the rows with --prefix"
        )
    prefix = kind_of(data).folder(data.path) if options.prefix is None else options.prefix
    rows, names = _rows(directory, options)
    metadata, samples = out / "metadata.json", out / "samples.json"
    with writing(samples, ".json") as partial:
        written = (fiftyone.sample(row, prefix) for row in rows)
        count = write_json_list(partial, written, before='{"samples": [', after="]}")
    with writing(metadata, ".json") as partial:
        partial.write_text(json.dumps(fiftyone.metadata(names)) + "\n", encoding="ascii")
    return Exported(count, (metadata, samples))


def _datasets(directory: RunDirectory, out: Path, options: ExportOptions) -> Exported:
    chunks, names = judged_labels(directory, options.max_false_relabels, options.entry)
    with writing(out, ".parquet") as partial:
        count = datasets.write_parquet(partial, chunks, names, distribution=options.distribution)
    return Exported(count, (out,))


def _cleanlab(directory: RunDirectory, out: Path, options: ExportOptions) -> Exported:
    arrays = cleanlab.arrays(*judged_labels(directory, options.max_false_relabels, options.entry))
    with writing(out, ".npz") as partial, partial.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # the stub mistakes arrays for allow_pickle
    return Exported(len(arrays["labels"]), (out,))


Writer = Callable[[RunDirectory, Path, ExportOptions], Exported]
TOOLS: Mapping[str, tuple[Writer, frozenset[str]]] = {
    "label-studio": (_label_studio, frozenset({"verdicts", "prefix", "texts"})),
    "fiftyone": (_fiftyone, frozenset({"verdicts", "prefix"})),
    "datasets": (_datasets, frozenset({"distribution"})),
    "cleanlab": (_cleanlab, frozenset()),
}
"""The writer of each tool, and the options it supports."""


def _rows(directory: RunDirectory, options: ExportOptions) -> tuple[Iterator[LabelRow], tuple[str, ...]]:
    chunks, names = judged_labels(directory, options.max_false_relabels, options.entry)
    rows = label_rows(chunks, names)
    return (row for row in rows if not options.verdicts or row.verdict in options.verdicts), names


def write_json_list(path: Path, items: Iterable[Any], before: str = "[", after: str = "]") -> int:
    """Write a JSON list, one item per line, between ``before`` and ``after``; return the number of items."""
    count = 0
    with path.open("w", encoding="ascii") as file:
        file.write(before)
        for count, item in enumerate(items, start=1):
            file.write(",\n" if count > 1 else "\n")
            file.write(json.dumps(item))
        file.write(f"\n{after}\n")
    return count


def _shown(directory: RunDirectory, options: ExportOptions) -> tuple[Shown, Callable[[str], str]]:
    """What a task shows, and the function that returns it for an id."""
    if options.texts is not None:
        return "text", _texts(options.texts)
    if options.prefix is None and _has_texts(directory.data):
        return "text", _own_texts(directory)
    return "image", _addresses(options.prefix or "")


def _has_texts(data: DataSection) -> bool:
    """Whether the rows of the data are texts or records."""
    try:
        return isinstance(data, TableData) or kind_of(data).embeds(Path(data.path).expanduser()) == "texts"
    except PencilError:  # shards whose index is gone
        return False


def _own_texts(directory: RunDirectory) -> Callable[[str], str]:
    """The texts of a run's own data by id."""
    try:
        rows = rows_to_show(directory).train
    except PencilError as error:
        why = "its data has changed" if isinstance(error, ChangedDataError) else error
        raise DataError(
            f"--texts: missing, and the texts of {directory.path} cannot be read ({why}); give a CSV with the columns "
            "id and text"
        ) from error
    places = {name: row for row, name in enumerate(rows.ids)}
    if len(places) < len(rows):
        raise DataError(
            f"{len(rows) - len(places):,} rows of {directory.path} have the id of another row, but answers come "
            "back by id; make ids unique and train again"
        )
    return lambda name: as_text(row_shown(rows.inputs, places[name])) or ""


def _addresses(prefix: str) -> Callable[[str], str]:
    return lambda name: f"{prefix}{name}"


def _texts(path: Path) -> Callable[[str], str]:
    try:
        with path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
            texts = {row["id"]: row["text"] for row in csv.DictReader(file, strict=True)}
    except (OSError, KeyError, csv.Error) as error:
        raise DataError(
            f"--texts {path}: cannot be read ({error}); give a CSV with the columns id and text"
        ) from error

    def text_of(name: str) -> str:
        if name not in texts:
            raise DataError(f"--texts {path}: no text for the id {name!r}; add it")
        return texts[name]

    return text_of
