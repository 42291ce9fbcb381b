"""The state of a run as a flat dictionary of tensors, and back, for any number of ranks.

What is the same on every rank (weights, optimiser, what a method learned from all examples together, progress) is
saved once; under FSDP each rank saves its shard. A rank's random state is saved under its number. Label rows are saved
separately, see ``row_files``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from pencil.engine.checkpoint import Checkpoints, State, from_bytes, tensors_in, to_bytes


def snapshot(
    model: nn.Module,
    optimizer: Optimizer,
    progress: Mapping[str, Any],
    rank: int = 0,
    *,
    shared: Mapping[str, Tensor] | None = None,
) -> State:
    """Weights, optimiser, what a method shares, random state and progress, under names that say which."""
    return {
        **_weights(model),
        **_optimizer_tensors(model, optimizer),
        **_shared(shared),
        **{f"random/{rank}/{name}": value for name, value in _random().items()},
        "progress": to_bytes(progress),
    }


def restore(
    checkpoints: Checkpoints,
    path: Path,
    model: nn.Module,
    optimizer: Optimizer,
    rank: int = 0,
    *,
    shared: Mapping[str, Tensor] | None = None,
) -> dict[str, Any]:
    """Put a snapshot back, in place; returns its progress."""
    weights, moments = _weights(model), _empty_optimizer_tensors(model, tensors_in(path, "optimizer/"))
    random = tensors_in(path, f"random/{rank}/")
    state = {**weights, **moments, **_shared(shared), **random, **tensors_in(path, "progress")}
    checkpoints.load(path, state)
    _set_optimizer_tensors(model, optimizer, moments)
    _set_random({name.rsplit("/", 1)[1]: value for name, value in random.items()})
    return from_bytes(state["progress"])


def _weights(model: nn.Module) -> State:
    return {f"model/{name}": value for name, value in model.state_dict().items() if isinstance(value, Tensor)}


def _shared(tensors: Mapping[str, Tensor] | None) -> State:
    return {f"shared/{name}": value for name, value in (tensors or {}).items()}


def _optimizer_tensors(model: nn.Module, optimizer: Optimizer) -> State:
    """Per-parameter tensors (momentum, ...). Learning rates follow from the schedules and are not saved."""
    return {
        f"optimizer/{name}/{key}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def _empty_optimizer_tensors(model: nn.Module, saved: State) -> State:
    """Tensors to load into, each with the layout (and under FSDP the shards) of its parameter; Adam's step has none."""
    parameters = dict(model.named_parameters())
    return {
        entry: value if entry.endswith("/step") else torch.zeros_like(parameters[_named(entry)[0]])
        for entry, value in saved.items()
    }


def _set_optimizer_tensors(model: nn.Module, optimizer: Optimizer, state: State) -> None:
    """Tensors that the checkpoint lacks go: the optimiser had not made them yet."""
    parameters = dict(model.named_parameters())
    for parameter in parameters.values():
        made = optimizer.state.get(parameter, {})
        for key in [key for key, value in made.items() if isinstance(value, Tensor)]:
            del made[key]
    for entry, value in state.items():
        name, key = _named(entry)
        optimizer.state[parameters[name]][key] = value.detach()


def _named(entry: str) -> tuple[str, str]:
    """The parameter, whose name may have a slash of its own, and the optimiser's name of the tensor."""
    name, _, key = entry.removeprefix("optimizer/").rpartition("/")
    return name, key


def _random() -> State:
    """Torch's own generators, which dropout in a user's module uses; this package draws from none of them."""
    state = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def _set_random(state: State) -> None:
    """Empty for a rank that the saving run did not have: it keeps its own state."""
    if "cpu" in state:
        torch.set_rng_state(state["cpu"])
    if torch.cuda.is_available() and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"])
