"""Verified labels: they replace given labels by id and stay fixed."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from pencil.config import RunConfig
from pencil.data import Examples, known_keys, read_trusted_file
from pencil.errors import DataError, did_you_mean
from pencil.kinds import TrustedLabels
from pencil.results import Decision, SavedLabels, last_entry, read_card, read_decisions, was_reviewed
from pencil.stores import GivenLabels, rows_at_once

Keys = Mapping[str, int]
"""The key of the content of each id, see ``known_keys``."""


def with_trusted(train: Examples, trusted: TrustedLabels) -> Examples:
    """The examples with the trusted labels in place of theirs, locked, and without the rows that were dropped."""
    labels = _class_numbers(trusted_labels(trusted, _keys(train)), train.class_names, trusted.path)
    places = _places(train.ids, labels, trusted.path)
    chosen = {row: label for name, row in places.items() if (label := labels[name]) is not None}
    indices = torch.tensor(list(chosen), dtype=torch.int64)
    given = locked(train.labels, indices, torch.tensor(list(chosen.values()), dtype=torch.int64))
    kept = torch.ones(len(train), dtype=torch.bool)
    kept[[row for name, row in places.items() if labels[name] is None]] = False
    if not bool(kept.any()):
        raise DataError(f"data.trusted: {trusted.path} drops every row; there is nothing left to train on")
    sure = replace(train, labels=given)
    return sure if bool(kept.all()) else sure.subset(kept.nonzero()[:, 0])


def locked(given: GivenLabels, indices: Tensor, labels: Tensor) -> GivenLabels:
    """The given labels with others (M,) at some indices (M,), which are trusted from now on."""
    values = given.values.clone()
    values[indices] = (
        labels if values.dim() == 1 else torch.nn.functional.one_hot(labels, values.shape[1]).to(values.dtype)
    )
    trusted = torch.zeros(len(given), dtype=torch.bool) if given.trusted is None else given.trusted.clone()
    trusted[indices] = True
    return GivenLabels(values, given.num_classes, trusted)


def _keys(train: Examples) -> Keys:
    """The keys of the rows to train on; empty where every file would have to be read for them."""
    keys = known_keys(train.inputs)
    return {} if keys is None else dict(zip(train.ids, keys.tolist(), strict=True))


def trusted_labels(trusted: TrustedLabels, keys: Keys | None = None) -> dict[str, str | None]:
    """The class name of each id; None where the row was dropped.

    With the ``keys`` of the rows to train on, decisions on a run are left out where the content of the row differs.
    """
    path = Path(trusted.path).expanduser()
    return _labels_of_run(path, trusted.entry, keys or {}) if path.is_dir() else read_trusted_file(path)


def _labels_of_run(
    path: Path, entry: int | None, keys: Keys, later: tuple[Path, ...] = ()
) -> dict[str, str | None]:
    """The decisions on a run, after those that the run itself was trained with; ``later`` runs lead to this one."""
    if path.resolve() in later:
        raise DataError(f"data.trusted: {path} was trained with its own decisions; restore its config.toml")
    if not has_decisions(path):
        raise DataError(f"data.trusted: {path} has no review; review it with: pencil review {path}")
    earlier, labels = _trusted_by(path), {}
    if earlier is not None:
        before = Path(earlier.path).expanduser()
        labels = (
            _labels_of_run(before, earlier.entry, keys, (*later, path.resolve()))
            if before.is_dir()
            else read_trusted_file(before)
        )
    if was_reviewed(path):
        names = read_card(path).class_names
        decisions = list(read_decisions(path, entry, num_classes=len(names)))
        same = _on_same_content(decisions, path, keys, len(names))
        labels |= {made.id: None if made.label is None else names[made.label] for made in same}
    return labels


def _on_same_content(decisions: list[Decision], path: Path, keys: Keys, num_classes: int) -> list[Decision]:
    """The decisions on rows that are still what people saw; ids may be row numbers, which move when a file is edited.

    If no row has the content of a row of the run, the run had other inputs for the same ids, and the ids alone count.
    """
    seen = _content(path, num_classes) if decisions and keys else None
    if seen is None or not bool(torch.isin(seen, torch.tensor(list(keys.values()))).any()):
        return decisions
    known = dict(enumerate(seen.tolist()))
    same = [made for made in decisions if keys.get(made.id) in (None, known.get(made.row))]
    if len(same) < len(decisions):
        warnings.warn(
            f"data.trusted: {len(decisions) - len(same):,} of the {len(decisions):,} decisions on {path} are left out, "
            "because the rows with their ids have other content now; decide these rows again, or, if ids are row "
            "numbers, give the data an id column that stays when rows are added or removed",
            stacklevel=2,
        )
    return same


def _content(path: Path, num_classes: int) -> Tensor | None:
    """The keys (N,) of the content of a run's rows, if they were saved."""
    chunks = SavedLabels(path, num_classes, {}).chunks(rows_at_once(1))
    parts = [chunk.content for chunk in chunks if chunk.content is not None]
    return torch.cat(parts) if parts else None


def has_decisions(path: Path) -> bool:
    """Whether a run was reviewed, or trained with verified labels."""
    return was_reviewed(path) or _trusted_by(path) is not None


def _trusted_by(path: Path) -> TrustedLabels | None:
    """The verified labels that a run was trained with."""
    file = path / "config.toml"
    return RunConfig.read(file).data.trusted if file.is_file() else None


def is_run(trusted: TrustedLabels) -> bool:
    """Whether the labels come from a run, whose review may continue."""
    return Path(trusted.path).expanduser().is_dir()


def newest_entry(trusted: TrustedLabels) -> int:
    """The last entry of a reviewed run."""
    path = Path(trusted.path).expanduser()
    return last_entry(path) if was_reviewed(path) else 0


def _class_numbers(
    labels: Mapping[str, str | None], class_names: Sequence[str], path: str
) -> dict[str, int | None]:
    numbers: dict[str | None, int | None] = {name: number for number, name in enumerate(class_names)}
    numbers[None] = None
    for name, label in labels.items():
        if label not in numbers:
            raise DataError(
                f"data.trusted: {path} labels {name!r} as {label!r}, which is no class of the data"
                f"{did_you_mean(str(label), class_names)}"
            )
    return {name: numbers[label] for name, label in labels.items()}


def _places(ids: Sequence[str], labels: Mapping[str, int | None], path: str) -> dict[str, int]:
    """The row of each id among those to train on; warns of ids that are not there."""
    places: dict[str, int] = {}
    for row, name in enumerate(ids):
        if name in labels and places.setdefault(name, row) != row:
            raise DataError(
                f"data.trusted: {path} labels {name!r}, but two rows have that id; make ids unique"
            )
    if labels and not places:
        raise DataError(
            f"data.trusted: no id of {path} (such as {next(iter(labels))!r}) is among the rows to train on "
            f"(such as {ids[0]!r}); use labels for this data"
        )
    if len(places) < len(labels):
        warnings.warn(
            f"data.trusted: {len(labels) - len(places):,} of the {len(labels):,} rows of {path} are not among those "
            "to train on",
            stacklevel=2,
        )
    return places
