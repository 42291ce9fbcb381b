"""A run that continues another one on data that has grown: ``start.run``.

Rows that the earlier run knows start from the labels it learned, and the network starts from its weights. A row is
known by its id and, where the earlier run stored it, by its content.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

from pencil.config.methods import OwnMethod
from pencil.config.schema import Start
from pencil.data import NEW, Examples, has_own_ids, known_keys, match_rows
from pencil.embed.finetune import NAME as FINETUNED
from pencil.embed.finetune import Finetuned
from pencil.engine import LabelLearner
from pencil.errors import RunError
from pencil.identity import run_id
from pencil.results import ModelCard, SavedLabels, read_card
from pencil.results.files import read_tensors
from pencil.results.model import WEIGHTS
from pencil.run.directory import RunDirectory
from pencil.run.trusted import own_ids_of
from pencil.stores import rows_at_once


def earlier_run(start: Start) -> RunDirectory:
    """The finished run to start from."""
    directory = RunDirectory.open(Path(str(start.run)).expanduser())
    directory.require_finished()
    if start.run_id not in (None, run_id(directory.path)):
        raise RunError(
            f"start.run: {directory.path} is another run than the one to start from; restore it, or name the run to "
            "start from now: pencil train DATA --from RUN"
        )
    return directory


def start_network(model: nn.Module, earlier: RunDirectory, class_names: tuple[str, ...]) -> None:
    """Copy the weights of the earlier run into a new network; the outputs of classes that it lacks stay as they are.

    Of a network to finetune, the earlier run has trained the head.
    """
    card, state = read_card(earlier.path), model.state_dict()
    weights = read_tensors(earlier.path / WEIGHTS)
    if isinstance(model, Finetuned) and card.name != FINETUNED:
        weights = {f"head.{name}": value for name, value in weights.items()}
        if card.mean is not None and card.std is not None:
            weights |= {"center": torch.tensor(card.mean), "spread": torch.tensor(card.std)}
        state = {name: value for name, value in state.items() if not name.startswith("network.")}
    heads = _heads(model, len(class_names))
    fitting = {
        name: fitted
        for name, value in weights.items()
        if name in state
        and (fitted := _fitted(value, state[name], card, class_names, name.startswith(heads) or not heads))
        is not None
    }
    if len(fitting) < len(state):
        warnings.warn(
            f"start.run: {len(state) - len(fitting)} of {len(state)} tensors of the network do not fit {earlier.path}; "
            "they start anew",
            stacklevel=2,
        )
    model.load_state_dict(state | fitting, strict=False)


def _heads(model: nn.Module, num_classes: int) -> tuple[str, ...]:
    """How the names of the tensors of last layers begin: linear ones with an output for each class.

    Of several in a row only the last is one; the others are hidden layers that are as wide as there are classes.
    """
    modules = dict(model.named_modules())
    last = {}
    for name, module in modules.items():
        if isinstance(module, nn.Linear) and module.out_features == num_classes:
            parent = name.rpartition(".")[0]
            last[parent if isinstance(modules[parent], nn.Sequential) else name] = name
    return tuple(f"{name}.".lstrip(".") for name in last.values())


def _fitted(
    value: Tensor, like: Tensor, card: ModelCard, class_names: tuple[str, ...], is_head: bool
) -> Tensor | None:
    """A tensor of the earlier network in the shape of the new one; rows of a last layer follow their classes."""
    if value.shape == like.shape and (card.class_names == class_names or not is_head):
        return value
    by_class = len(value) == len(card.class_names) and len(like) == len(class_names) if value.dim() else False
    if not by_class or value.shape[1:] != like.shape[1:]:
        return value if value.shape == like.shape else None
    ours = torch.tensor([name in card.class_names for name in class_names])
    theirs = [card.class_names.index(name) for name in class_names if name in card.class_names]
    fitted = like.clone()
    fitted[ours] = value[theirs].to(like.dtype)
    return fitted


def start_labels(learner: LabelLearner, train: Examples, earlier: RunDirectory) -> int:
    """Copy the label rows of the earlier run for the rows that it knows; returns how many it knows.

    Trusted rows stay as they are. With another method or store nothing is copied: its rows have another form.
    """
    names, method = read_card(earlier.path).class_names, earlier.config.method
    saved = SavedLabels(earlier.path, len(names))
    known = _known_rows(train, earlier.path, saved)
    if isinstance(method, OwnMethod) or method.name != learner.method.name:
        return int((known != NEW).sum())
    free = known if learner.given.trusted is None else known.masked_fill(learner.given.trusted, NEW)
    places = torch.full((saved.num_rows,), NEW)
    places[free[free != NEW]] = (free != NEW).nonzero()[:, 0]
    state = learner.store.state()
    for chunk in saved.chunks(rows_at_once(learner.store.row_width)):
        ours = places[chunk.first : chunk.first + len(chunk.ids)]
        if learner.before_write is not None:  # a checkpoint may be under way
            learner.before_write(ours[ours != NEW])
        for key, value in state.items():
            theirs = chunk.rows.get(key)
            if theirs is not None:
                _copy(theirs[ours != NEW], value, ours[ours != NEW], names, train.class_names)
    return int((known != NEW).sum())


def _copy(
    theirs: Tensor, into: Tensor, places: Tensor, before: tuple[str, ...], now: tuple[str, ...]
) -> None:
    """Copy rows (B, W); columns follow their classes where the classes differ and a row has one column for each."""
    if before == now and theirs.shape[1:] == into.shape[1:]:
        into[places] = theirs
    elif theirs.is_floating_point() and theirs.shape[1] == len(before) and into.shape[1] == len(now):
        columns = [(now.index(name), column) for column, name in enumerate(before) if name in now]
        for ours, column in columns:
            into[places, ours] = theirs[:, column]


def _known_rows(train: Examples, earlier: Path, saved: SavedLabels) -> Tensor:
    """The row (N,) of the earlier run that each row is; ``NEW`` for others."""
    chunks = list(saved.chunks(rows_at_once(1)))
    ids = [name for chunk in chunks for name in chunk.ids]
    keys = [chunk.content for chunk in chunks if chunk.content is not None]
    numbered = all(name == str(row) for row, name in enumerate(ids))
    own = has_own_ids(train.ids) and own_ids_of(earlier, guess=not numbered)
    ours, theirs = known_keys(train.inputs) if keys else None, torch.cat(keys) if keys else None
    return match_rows(train.ids, ids, keys=ours, known_keys=theirs, own=own, seen=theirs)
