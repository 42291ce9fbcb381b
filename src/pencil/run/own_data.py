"""Read the data of a run again, if its code is trusted and the data has not changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pencil.data import Beside, attach
from pencil.data.checking import Progress
from pencil.data.fingerprint import differences, fingerprint, labels_mark
from pencil.errors import RunError
from pencil.kinds import DataSection
from pencil.run.code import Trust, check_code, code_of_data, code_of_rows
from pencil.run.directory import RunDirectory
from pencil.run.sources import Prepared, prepare_examples
from pencil.run.trusted import DATA

SPLITS = ("train", "validation", "test")
LABELS = "labels_to_learn"
ENCODER = "encoder"


def data_fingerprint(prepared: Prepared, *, sampled: bool = False) -> dict[str, Any]:
    """The fingerprint of a run's data: every split of the source, and the labels that were trained on."""
    source = ((name, getattr(prepared.source, name)) for name in SPLITS)
    marks = {name: fingerprint(part, sampled=sampled) for name, part in source if part is not None}
    encoder = {} if prepared.encoder is None else {ENCODER: prepared.encoder}
    return {**marks, LABELS: labels_mark(prepared.train.labels), **encoder}


def own_examples(
    directory: RunDirectory,
    *,
    trust_code: Trust = False,
    changed_data: bool = False,
    to_encode: bool = True,
    progress: Progress = lambda *_: None,
) -> Prepared:
    """Read the examples that a run was trained on.

    Args:
        directory: The run.
        trust_code: Whether code that the run names may be imported to read them: True, or the import paths.
        changed_data: Continue even if the data has changed.
        to_encode: Whether the encoder of the run is to be opened afterwards, so that it must be trusted too.
        progress: Called with the progress if every row is checked first.

    Raises:
        RunError: The code is not trusted, or the data has changed.
    """
    config, data = directory.config, directory.data
    named = code_of_data(data) if to_encode else code_of_rows(data)
    check_code(named, trust_code, source=directory.path)
    prepared = prepare_examples(data, config.seed, progress)
    if not changed_data:
        check_unchanged(directory, prepared)
    return prepared


def rows_to_show(
    directory: RunDirectory, *, changed_data: bool = False, beside: Beside | None = None
) -> Prepared:
    """Read the examples of a run for display. Code that the run names is never imported.

    Args:
        directory: The run.
        changed_data: Continue even if the data has changed.
        beside: Images or texts to show for the training rows, instead of what the data has.
    """
    config, data = directory.config, directory.data
    check_code(code_of_rows(data), False, source=directory.path)
    prepared = prepare_examples(_without_noise(data), config.seed)
    if not changed_data:
        check_unchanged(directory, prepared, labels=data.noise is None)
    return with_originals(prepared, beside)


def with_originals(prepared: Prepared, beside: Beside | None) -> Prepared:
    """The same examples; the training rows are shown as the images or texts beside them, if any."""
    if beside is None:
        return prepared
    return replace(prepared, train=attach(prepared.train, prepared.source.train.ids, beside))


def check_unchanged(directory: RunDirectory, prepared: Prepared, *, labels: bool = True) -> None:
    """Check that the data has not changed since the run began; runs without a fingerprint pass.

    Raises:
        ChangedDataError: The data has changed.
    """
    before = directory.fingerprint
    if before is None:
        return
    if not _is_fingerprint(before):
        raise RunError(
            f"{directory.path / DATA} has changed since training; restore it, or continue without it: --changed-data"
        )
    now = data_fingerprint(prepared, sampled="numbered" not in before["train"])
    found = list(_differences(before, now, labels=labels))
    if found:
        raise ChangedDataError(
            f"the data of {directory.path} is not what the run was trained on: {'; '.join(found)}; restore it, or "
            "continue with the changed data: --changed-data"
        )


def check_same_encoder(directory: RunDirectory, mark: str | None, name: str | None) -> None:
    """Check that the encoder with this mark and name made the features that the run was trained on.

    Raises:
        ChangedDataError: The encoder has other weights or another preprocessing.
    """
    before = (directory.fingerprint or {}).get(ENCODER)
    if before is not None and before != mark:
        raise ChangedDataError(
            f"data.embed: {name!r} is not the encoder that {directory.path} was trained with; "
            "restore its weights and preprocessing, or train anew"
        )


def _is_fingerprint(value: Mapping[str, Any]) -> bool:
    """Whether the contents of a possibly untrusted file have the form of a fingerprint."""
    marks = [value[name] for name in SPLITS if name in value]
    return "train" in value and all(
        isinstance(mark, dict) and isinstance(mark.get("rows"), int) for mark in marks
    )


class ChangedDataError(RunError):
    """The data of a run has changed."""


def _differences(before: Mapping[str, Any], now: Mapping[str, Any], *, labels: bool) -> Iterator[str]:
    for name in SPLITS:
        if (name in before) != (name in now):
            yield f"the {name} split {'is gone' if name in before else 'is new'}"
        elif name in before:
            yield from (f"{name}: {what}" for what in differences(before[name], now[name]))
    if labels and before["train"] == now["train"] and before.get(LABELS) != now[LABELS]:
        yield "train: the labels from data.noise or data.trusted differ"


def _without_noise(data: DataSection) -> DataSection:
    """Remove noise, which is not needed to show rows, unless it determines the selected rows."""
    if data.per_class is None and data.ceiling is None:
        return data.model_copy(update={"noise": None})
    return data
