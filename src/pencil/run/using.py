"""Use a finished run: evaluate its model, predict with it, read its labels."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from pencil.data import Examples, Inputs, Preparation, Splits, Unlabelled
from pencil.data.shards.classes import is_number
from pencil.data.tables import listed
from pencil.embed import open_encoder
from pencil.engine import accuracy, predictions
from pencil.errors import ConfigError, DataError, PencilError
from pencil.kinds import DataSection
from pencil.results import Judged, ModelCard, judge
from pencil.run.build import runtime_anywhere
from pencil.run.code import Trust, check_code, code_of_data
from pencil.run.directory import RunDirectory
from pencil.run.embedding import rows_with_features, with_features
from pencil.run.label_table import LabelTable
from pencil.run.network import input_shape, trained_network
from pencil.run.own_data import check_same_encoder, own_examples
from pencil.run.sources import Prepared, read_splits, read_unlabelled


def evaluate(
    directory: RunDirectory,
    split: str = "test",
    *,
    trust_code: Trust = False,
    changed_data: bool = False,
    expert: bool = False,
) -> dict[str, Any]:
    """Measure the accuracy of the trained network on a split of the run's own data.

    ``expert``: together with the second expert of a run that started from prototypes. For ``trust_code`` and
    ``changed_data`` see ``resume``.
    """
    directory.require_finished()
    runtime = runtime_anywhere(directory.config)
    model, preparation, _ = trained_network(directory, runtime, trust_code=trust_code, expert=expert)
    prepared = own_examples(directory, trust_code=trust_code, changed_data=changed_data)
    prepared = with_features(prepared, directory.config.data, runtime)
    check_same_encoder(directory, prepared.encoder, directory.config.data.embed)
    examples = _split(prepared, split, f"the data of {directory.path}")
    return {
        "split": split,
        "examples": len(examples),
        "accuracy": accuracy(model, examples, preparation, runtime),
    }


def predict(
    directory: RunDirectory,
    data: DataSection,
    split: str = "train",
    *,
    trust_code: Trust = False,
    expert: bool = False,
) -> tuple[Iterator[Judged], tuple[str, ...]]:
    """Predict every row of a data source in order; return the predictions and the class names.

    The data may have no labels; it then has no splits either. Classes that only the data has follow the model's
    classes. For ``trust_code`` see ``resume``, for ``expert`` ``evaluate``.
    """
    directory.require_finished()
    check_code(_taken_from(directory, data), trust_code, source=directory.path)
    runtime = runtime_anywhere(directory.config)
    model, preparation, card = trained_network(directory, runtime, trust_code=trust_code, expert=expert)
    examples: Examples | Unlabelled | None = read_unlabelled(data)
    if examples is None:
        examples = _split(read_splits(data), split, data.path)
    elif split != "train":
        raise ConfigError(f"--split {split}: {data.path} has no labels, and so no splits; leave --split out")
    if data.embed is not None:
        encoder = open_encoder(data.embed, str(runtime.device))
        check_same_encoder(directory, encoder.mark, data.embed)
        examples = rows_with_features(examples, encoder, runtime)
    _check_inputs(examples.inputs, preparation, card, data.path)
    given, names = _numbered_like(examples, card.class_names, data.path)
    least = directory.config.verdict.row_threshold()

    def chunks() -> Iterator[Judged]:
        indices = torch.arange(len(examples))
        for batch, probs in predictions(model, examples.inputs, indices, preparation, runtime):
            ids = [examples.ids[index] for index in batch.tolist()]
            yield judge(probs, None if given is None else given[batch], least, ids=ids, first=int(batch[0]))

    return chunks(), names


def _taken_from(directory: RunDirectory, data: DataSection) -> dict[str, str]:
    """The code that reads the data and that the run names."""
    own = code_of_data(directory.config.data)
    return {field: code for field, code in code_of_data(data).items() if own.get(field) == code}


def judged_labels(
    directory: RunDirectory,
    max_false_relabels: float | None = None,
    entry: int | None = None,
    *,
    learned: bool = False,
) -> tuple[Iterator[Judged], tuple[str, ...]]:
    """Return the labels of all training rows of a finished run, in chunks, and the class names.

    Review decisions, up to ``entry``, replace estimated labels. ``max_false_relabels`` replaces the share of the run's
    verdict rule. With ``learned``, rows also have the class that the method learned.
    """
    table = LabelTable.open(directory, max_false_relabels, entry=entry)
    return table.chunks(learned=learned), table.class_names


def labels_since(
    directory: RunDirectory,
    earlier: RunDirectory,
    max_false_relabels: float | None = None,
    entry: int | None = None,
    *,
    learned: bool = False,
) -> tuple[Iterator[Judged], tuple[str, ...]]:
    """The rows of a run that an earlier run does not have, or whose label, verdict or decision has changed.

    Raises:
        ConfigError: The data has no ids of its own, and has changed: its rows may have other numbers now.
    """
    marks = [(each.fingerprint or {}).get("train", {}) for each in (directory, earlier)]
    if any(mark.get("numbered") for mark in marks) and marks[0].get("contents") != marks[1].get("contents"):
        raise ConfigError(
            f"--since {earlier.path}: the data has changed and has no ids of its own, so rows cannot be compared; "
            "leave the option out, or give the data an id column"
        )
    chunks, names = judged_labels(directory, max_false_relabels, entry, learned=learned)
    old, old_names = judged_labels(earlier, max_false_relabels)
    before = {name: answer for rows in old for name, answer in _answers(rows, old_names)}

    def changed() -> Iterator[Judged]:
        for rows in chunks:
            places = [
                place
                for place, (name, answer) in enumerate(_answers(rows, names))
                if before.get(name) != answer
            ]
            yield rows.take(torch.tensor(places, dtype=torch.int64))

    return changed(), names


def _answers(rows: Judged, names: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, int, bool]]]:
    """The id of each row with its suggested class, its verdict and whether a person decided it."""
    sure = (rows.is_decided | rows.trusted).tolist()
    answers = zip(rows.suggested.tolist(), rows.verdict.tolist(), sure, strict=True)
    for name, (label, verdict, decided) in zip(rows.ids, answers, strict=True):
        yield name, (names[label], verdict, decided)


def _split(splits: Splits | Prepared, split: str, what: str) -> Examples:
    examples: Examples | None = getattr(splits, split, None)
    if examples is None:
        present = [
            name for name in ("train", "validation", "test") if getattr(splits, name, None) is not None
        ]
        raise ConfigError(f"--split {split}: not in {what}; use {' or '.join(present)}")
    return examples


def _check_inputs(inputs: Inputs, preparation: Preparation, card: ModelCard, path: str) -> None:
    remedy = f"the model takes inputs {card.input_shape}; predict on data like the run's own"
    try:
        shape = input_shape(inputs, preparation)
    except PencilError as error:
        raise DataError(f"{path}: {remedy} ({error})") from error
    if shape != card.input_shape:
        raise DataError(f"{path}: one input is {shape}, but {remedy}")


def _numbered_like(
    examples: Examples | Unlabelled, known: tuple[str, ...], path: str
) -> tuple[Tensor | None, tuple[str, ...]]:
    """Return the given labels (N,) as the model's class numbers (None without labels), and names, new classes last."""
    if isinstance(examples, Unlabelled):
        return None, known
    own = _names_of_given(examples.class_names, known, path)
    names = (*known, *(name for name in own if name not in known))
    numbers = torch.tensor([names.index(name) for name in own])
    return numbers[examples.labels.hard], names


def _names_of_given(names: tuple[str, ...], known: tuple[str, ...], path: str) -> tuple[str, ...]:
    """The data's class names, or the model's if the data only numbers its classes, from 0.

    Numbers that may count from 0 or from 1 are refused: every label might be one class off.
    """
    if not all(map(is_number, names)):
        return names
    own, theirs = sorted(map(int, names)), [int(name) for name in known if is_number(name)]
    doubt = (
        f"{path}: its labels {own[0]} to {own[-1]} may be counted differently from the model's classes "
        f"{listed(known)}; write the names of the classes as labels, or predict rows without labels"
    )
    if set(names) <= set(known):
        if own[0] != min(theirs):
            warnings.warn(f"{doubt}; they are taken for the classes with these names", stacklevel=4)
        return names
    if own[0] == min(theirs, default=None):
        return names  # and new classes
    if theirs or own[0] != 0 or own[-1] >= len(known):
        raise DataError(doubt)
    return tuple(known[int(name)] for name in names)
