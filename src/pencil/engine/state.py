"""What makes a run exactly what it is, as a flat dictionary of tensors, and back, for any number of ranks.

What every rank has alike (weights, optimiser, progress) is saved once; under FSDP each rank saves its shard. Label rows
are saved in pieces named by their position in the fixed order of all rows (``data.ownership``), so a rank of another
number of ranks finds those it owns. A rank's random state carries its number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from pencil.engine.checkpoint import Checkpoints, State, from_bytes, tensors_in, to_bytes
from pencil.stores import RowStore

PIECE = 1 << 20  # rows saved under one name


def snapshot(
    model: nn.Module,
    optimizer: Optimizer,
    store: RowStore[Any],
    owned: range,
    progress: Mapping[str, Any],
    rank: int = 0,
) -> State:
    """Weights, optimiser, label rows, random state and progress, under names that say which."""
    return {
        **_weights(model),
        **_optimizer_tensors(model, optimizer),
        **_row_pieces(store, owned),
        **{f"random/{rank}/{name}": value for name, value in _random().items()},
        "progress": to_bytes(progress),
    }


def restore(
    checkpoints: Checkpoints,
    path: Path,
    model: nn.Module,
    optimizer: Optimizer,
    store: RowStore[Any],
    owned: range,
    rank: int = 0,
) -> dict[str, Any]:
    """Put a snapshot back, in place; answers with its progress."""
    weights, moments = _weights(model), _empty_optimizer_tensors(model, tensors_in(path, "optimizer/"))
    rows, edges = _row_targets(store, owned, tensors_in(path, "rows/"))
    random = tensors_in(path, f"random/{rank}/")
    state = {**weights, **moments, **rows, **random, **tensors_in(path, "progress")}
    checkpoints.load(path, state)
    for edge in edges:
        edge.copy()
    _set_optimizer_tensors(model, optimizer, moments)
    _set_random({name.rsplit("/", 1)[1]: value for name, value in random.items()})
    return from_bytes(state["progress"])


def _weights(model: nn.Module) -> State:
    return {f"model/{name}": value for name, value in model.state_dict().items() if isinstance(value, Tensor)}


def _row_pieces(store: RowStore[Any], owned: range) -> State:
    return {
        f"rows/{name}/{owned.start + first:012d}": value[first : first + PIECE]
        for name, value in store.state().items()
        for first in range(0, len(value), PIECE)
    }


@dataclass(frozen=True)
class _Edge:
    """A piece of which only a part is ours: loaded aside, then copied."""

    piece: Tensor
    part: slice
    target: Tensor

    def copy(self) -> None:
        self.target.copy_(self.piece[self.part])


def _row_targets(store: RowStore[Any], owned: range, pieces: State) -> tuple[State, list[_Edge]]:
    """Where to load the saved pieces that hold rows of ours: straight into the store, or aside and then copied."""
    targets, edges = {}, []
    mine = store.state()
    for key, piece in pieces.items():
        _, name, position = key.split("/")
        saved = range(int(position), int(position) + len(piece))
        first, last = max(saved.start, owned.start), min(saved.stop, owned.stop)
        if first >= last:
            continue
        target = mine[name][first - owned.start : last - owned.start]
        whole = len(target) == len(piece)
        targets[key] = target if whole else piece
        if not whole:
            edges.append(_Edge(piece, slice(first - saved.start, last - saved.start), target))
    return targets, edges


def _optimizer_tensors(model: nn.Module, optimizer: Optimizer) -> State:
    """Per-parameter tensors (momentum, ...). Rates are the schedules', so groups need no saving."""
    return {
        f"optimizer/{name}/{key}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def _empty_optimizer_tensors(model: nn.Module, saved: State) -> State:
    """Tensors to load into, each laid out (and under FSDP sharded) like its parameter; Adam's step count is plain."""
    parameters = dict(model.named_parameters())
    return {
        entry: value if entry.endswith("/step") else torch.zeros_like(parameters[entry.split("/")[1]])
        for entry, value in saved.items()
    }


def _set_optimizer_tensors(model: nn.Module, optimizer: Optimizer, state: State) -> None:
    parameters = dict(model.named_parameters())
    for entry, value in state.items():
        _, name, key = entry.split("/")
        optimizer.state[parameters[name]][key] = value.detach()


def _random() -> State:
    """Torch's own generators, which dropout in a user's module draws from; everything of ours is a pure function."""
    state = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def _set_random(state: State) -> None:
    """Empty for a rank that the saving run did not have: it keeps the seed it was built with."""
    if "cpu" in state:
        torch.set_rng_state(state["cpu"])
    if torch.cuda.is_available() and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"])
