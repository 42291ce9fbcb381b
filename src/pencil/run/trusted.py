"""Verified labels: they replace given labels, and stay fixed.

They come from a table, or from the decisions on an earlier run and the verified labels that it was itself trained
with. A run keeps those that it was trained with in its folder (``trusted.json``), so it needs no earlier run again.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from pencil.config import RunConfig
from pencil.data import NEW, Examples, has_own_ids, known_keys, match_rows, read_trusted_file
from pencil.errors import DataError, RunError, did_you_mean
from pencil.identity import run_id
from pencil.kinds import TrustedLabels
from pencil.reading import MB, parse_json, read_bytes
from pencil.results import SavedLabels, last_entry, read_card, read_decisions, was_reviewed
from pencil.results.decisions import reading
from pencil.results.files import check_whole, damaged, read_json, write_record
from pencil.stores import GivenLabels, rows_at_once
from pencil.stores.given import UNKNOWN

TRUSTED = "trusted.json"
DATA = "data.json"
TRUSTED_BYTES = 4096 * MB
FREE, DROPPED, GONE = -1, -2, -3
HISTORY = "SELECT entry, round, row, id, version, action, label, undoes FROM history WHERE entry <= ? ORDER BY entry"


class VerifiedLabel(NamedTuple):
    """What a row is: the class by name, None for a row to leave out; ``key`` identifies the content that people saw."""

    id: str
    label: str | None
    key: int | None = None


@dataclass(frozen=True)
class Verified:
    """Verified labels of some rows.

    Attributes:
        labels: One for each row.
        own_ids: Whether their ids are the data's own, not row numbers.
        is_table: Whether a user wrote them, so that a class that does not exist is a mistake.
        seen: The keys of all rows of the run that they are from, if they are known.
    """

    labels: Sequence[VerifiedLabel]
    own_ids: bool = True
    is_table: bool = False
    seen: Tensor | None = None


def with_trusted(train: Examples, trusted: TrustedLabels) -> tuple[Examples, Verified]:
    """The examples with verified labels in place of theirs, locked, and without the rows that were dropped.

    Also returns the verified labels as the next run may use them.
    """
    found, keys = verified_labels(trusted), known_keys(train.inputs)
    places = _places(train, keys, found, trusted)
    codes = _codes(train, found, places, trusted.path)
    kept, rows = codes != DROPPED, (codes >= 0).nonzero()[:, 0]
    if not bool(kept.any()):
        raise DataError(f"data.trusted: {trusted.path} drops every row; there is nothing left to train on")
    sure = replace(train, labels=locked(train.labels, rows, codes[rows]))
    return sure if bool(kept.all()) else sure.subset(kept.nonzero()[:, 0]), _carried(
        train, keys, found, places
    )


def _codes(train: Examples, found: Verified, places: Tensor, path: str) -> Tensor:
    """What each row (N,) is: its verified class, ``DROPPED``, or ``FREE``, also where the data lacks the class now."""
    numbers: dict[str | None, int] = {name: number for number, name in enumerate(train.class_names)}
    known = [numbers.get(each.label, DROPPED if each.label is None else GONE) for each in found.labels]
    codes = torch.tensor([*known, FREE])[places]  # NEW is the last place
    gone = (codes == GONE).nonzero()[:, 0].tolist()
    labels = sorted({str(found.labels[int(places[row])].label) for row in gone})
    if gone and found.is_table:
        raise DataError(
            f"data.trusted: {path} labels {train.ids[gone[0]]!r} as {labels[0]!r}, which is no class of the data"
            f"{did_you_mean(labels[0], train.class_names)}"
        )
    if gone:
        _warn(
            f"{len(gone):,} decisions on {path} are left out: the data has no class {', '.join(labels)} any more"
        )
    return codes.masked_fill(codes == GONE, FREE)


def locked(given: GivenLabels, indices: Tensor, labels: Tensor) -> GivenLabels:
    """The given labels with others (M,) at some indices (M,), which are trusted from now on."""
    values = given.values.clone()
    values[indices] = (
        labels if values.dim() == 1 else torch.nn.functional.one_hot(labels, values.shape[1]).to(values.dtype)
    )
    trusted = torch.zeros(len(given), dtype=torch.bool) if given.trusted is None else given.trusted.clone()
    free = indices[~trusted[indices]]
    before = torch.full((len(given),), UNKNOWN) if given.before is None else given.before.clone()
    before[free] = given.hard[free]
    trusted[indices] = True
    return GivenLabels(values, given.num_classes, trusted, before)


def _places(train: Examples, keys: Tensor | None, found: Verified, trusted: TrustedLabels) -> Tensor:
    """The verified label (N,) of each row; ``NEW`` for the others. Warns of labels that belong to no row."""
    _check_unique(train.ids, found, trusted.path)
    own = found.is_table or (has_own_ids(train.ids) and found.own_ids)
    if found.is_table and not has_own_ids(train.ids):
        _warn(
            f"the data has no ids, so those of {trusted.path} are taken for row numbers from 0; if it has changed "
            "since they were written, give it an id column"
        )
    if keys is None and Path(trusted.path).name == TRUSTED:
        own = True  # a run that resumes has the same rows: its fingerprint is checked
    places = torch.full((len(train),), NEW)
    for has_key in (False, True):
        chosen = [place for place, each in enumerate(found.labels) if (each.key is not None) == has_key]
        names = [found.labels[place].id for place in chosen]
        known = torch.tensor([found.labels[place].key for place in chosen]) if has_key else None
        if chosen:
            at = match_rows(train.ids, names, keys=keys, known_keys=known, own=own, seen=found.seen)
            places = torch.where(at == NEW, places, torch.tensor(chosen)[at])
    _report_unmatched(train, found, int((places != NEW).sum()), own, trusted.path)
    return places


def _check_unique(ids: Sequence[str], found: Verified, path: str) -> None:
    named = {each.id for each in found.labels}
    twice = next((name for name, count in Counter(ids).items() if count > 1 and name in named), None)
    if twice is not None:
        raise DataError(f"data.trusted: {path} labels {twice!r}, but two rows have that id; make ids unique")


def _report_unmatched(train: Examples, found: Verified, matched: int, own: bool, path: str) -> None:
    if matched == len(found.labels):
        return
    here = set(train.ids)
    known = sum(each.id in here for each in found.labels)
    if own and not known:
        raise DataError(
            f"data.trusted: no id of {path} (such as {found.labels[0].id!r}) is among the rows to train on "
            f"(such as {train.ids[0]!r}); use labels for this data"
        )
    if own and known < len(found.labels):
        _warn(
            f"{len(found.labels) - known:,} of the {len(found.labels):,} rows of {path} are not among those to train on"
        )
    changed = (known if own else len(found.labels)) - matched
    if changed:
        _warn(
            f"{changed:,} of the {len(found.labels):,} decisions on {path} are left out, because no row to train on "
            "has the id and the content that people saw; decide these rows again, or, if the data has no ids, give it "
            "an id column that stays when rows are added or removed"
        )


def _carried(train: Examples, keys: Tensor | None, found: Verified, places: Tensor) -> Verified:
    """The verified labels under the ids and keys that their rows have now; those without a row stay as they were."""
    matched, own = set(places.tolist()), has_own_ids(train.ids)
    carried = [
        found.labels[place]._replace(id=train.ids[row], key=None if keys is None else int(keys[row]))
        for row, place in enumerate(places.tolist())
        if place != NEW
    ]
    # A row number of before may be another row's now, so only the content says which row it was.
    left = [
        each if own else each._replace(id="")
        for place, each in enumerate(found.labels)
        if place not in matched
    ]
    return Verified([*carried, *left], own)


def verified_labels(trusted: TrustedLabels) -> Verified:
    """The verified labels of a table, of an earlier run, or of the run itself."""
    path = Path(trusted.path).expanduser()
    if path.name == TRUSTED:
        return _kept(path)
    if path.is_dir():
        _check_same_run(path, trusted)
        return _of_run(path, trusted.entry)
    return Verified([VerifiedLabel(*each) for each in read_trusted_file(path).items()], is_table=True)


def _check_same_run(path: Path, trusted: TrustedLabels) -> None:
    remedy = "restore it, or name the run to use now: pencil train DATA --trusted RUN"
    if trusted.run_id not in (None, run_id(path)):
        raise DataError(
            f"data.trusted: {path} is another run than the one whose decisions were used; {remedy}"
        )
    if trusted.digest not in (None, history_digest(path, trusted.entry)):
        raise DataError(f"data.trusted: the decisions on {path} are not those that were used; {remedy}")


def _of_run(path: Path, entry: int | None, later: tuple[Path, ...] = ()) -> Verified:
    """The decisions on a run, after the verified labels that it was trained with; ``later`` runs lead to this one."""
    if path.resolve() in later:
        raise DataError(f"data.trusted: {path} was trained with its own decisions; restore its config.toml")
    if not has_decisions(path):
        raise DataError(f"data.trusted: {path} has no review; review it with: pencil review {path}")
    before, names = earlier_labels(path, later), read_card(path).class_names
    seen, own = _rows_of(path, len(names))
    made = {
        each.id: VerifiedLabel(
            each.id,
            None if each.label is None else names[each.label],
            None if seen is None else int(seen[each.row]),
        )
        for each in (read_decisions(path, entry, num_classes=len(names)) if was_reviewed(path) else ())
    }
    return Verified(
        [*(each for each in before.labels if each.id not in made), *made.values()], own, seen=seen
    )


def earlier_labels(path: Path, later: tuple[Path, ...] = ()) -> Verified:
    """The verified labels that a run was trained with: those it keeps; of a run from before, those it names."""
    if (path / TRUSTED).exists():
        return _kept(path / TRUSTED)
    named = _named_by(path)
    if named is None:
        return Verified([])
    place = _from_run(Path(named.path).expanduser(), path)
    if place.is_dir():
        return _of_run(place, named.entry, (*later, path.resolve()))
    return Verified([VerifiedLabel(*each) for each in read_trusted_file(place).items()])


def _from_run(place: Path, run: Path) -> Path:
    """A path as a run from before wrote it, which may be relative to the folder it was begun in: that is above it."""
    parents = run.absolute().parents
    return next((parent / place for parent in parents if (parent / place).exists()), place)


def _rows_of(path: Path, num_classes: int) -> tuple[Tensor | None, bool]:
    """The keys (N,) of the content of a run's rows, if they were saved; and whether its ids are the data's own."""
    parts, numbered = [], True
    for chunk in SavedLabels(path, num_classes, {}).chunks(rows_at_once(1)):
        numbered = numbered and chunk.ids == [str(chunk.first + row) for row in range(len(chunk.ids))]
        parts += [] if chunk.content is None else [chunk.content]
    return torch.cat(parts) if parts else None, own_ids_of(path, guess=not numbered)


def own_ids_of(path: Path, *, guess: bool) -> bool:
    """Whether the ids of a run are the data's own; ``guess`` for a run from before this was stored."""
    mark = read_json(path / DATA).get("train") if (path / DATA).is_file() else None
    return not mark["numbered"] if isinstance(mark, dict) and "numbered" in mark else guess


def write_trusted(folder: Path, verified: Verified) -> None:
    """Keep the verified labels of a run in its folder."""
    labels = [list(each) for each in verified.labels]
    write_record(folder / TRUSTED, {"own_ids": verified.own_ids, "labels": labels})


def _kept(path: Path) -> Verified:
    remedy = "restore it from a backup"
    content = read_bytes(path, limit=TRUSTED_BYTES, error=RunError)
    values = parse_json(content, source=path, error=RunError)  # ids may be any bytes, which pydantic refuses
    check_whole(path, run_id(path.parent), remedy)
    try:
        return Verified([VerifiedLabel(*each) for each in values["labels"]], bool(values["own_ids"]))
    except (LookupError, TypeError) as error:
        raise damaged(path, f"not a list of verified labels: {error}", remedy) from error


def history_digest(path: Path, entry: int | None) -> str:
    """A digest of the history of a review up to an entry."""
    digest = blake2b(digest_size=16)
    if was_reviewed(path):
        with reading(path) as history:
            for row in history.execute(HISTORY, (last_entry(path) if entry is None else entry,)):
                digest.update(repr(row).encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def has_decisions(path: Path) -> bool:
    """Whether a run was reviewed, or trained with verified labels."""
    return was_reviewed(path) or (path / TRUSTED).exists() or _named_by(path) is not None


def _named_by(path: Path) -> TrustedLabels | None:
    """The verified labels that the settings of a run name."""
    file = path / "config.toml"
    return RunConfig.read(file).data.trusted if file.is_file() else None


def is_run(trusted: TrustedLabels) -> bool:
    """Whether the labels come from a run, whose review may continue."""
    return Path(trusted.path).expanduser().is_dir()


def resolved_trusted(trusted: TrustedLabels, entry: int | None = None) -> TrustedLabels:
    """The section with what identifies the decisions of a run as they are now, up to an entry."""
    path = Path(trusted.path).expanduser()
    known = {"run_id": run_id(path), "digest": history_digest(path, entry), "entry": entry}
    return trusted.model_copy(update=known)


def newest_entry(trusted: TrustedLabels) -> int:
    """The last entry of a reviewed run."""
    path = Path(trusted.path).expanduser()
    return last_entry(path) if was_reviewed(path) else 0


def _warn(words: str) -> None:
    warnings.warn(f"data.trusted: {words}", stacklevel=3)
