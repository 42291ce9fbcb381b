"""One network trained by many ranks: DDP keeps it whole on each, FSDP2 leaves each a shard. Both average gradients.

A network is made parallel once, before its optimiser is: under FSDP the optimiser must hold the shards. FSDP is
imported where a network is sharded: its import takes half as long as all of torch, and few commands shard.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeGuard

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from pencil.errors import ConfigError

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule

Parallel = Literal["ddp", "fsdp"]
ENOUGH = 1 << 20  # parameters that are worth being gathered separately


def replicate(model: nn.Module) -> nn.Module:
    """The network whole on every rank (DDP)."""
    return DistributedDataParallel(model)


def shard(model: nn.Module, device: torch.device, world_size: int) -> nn.Module:
    """The network in shards (FSDP2), in place; each block is gathered for its own passes only.

    Parameters are cut along their first dimension, which need not be divisible by the number of ranks.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    for tensor in (*model.parameters(), *model.buffers()):
        dist.broadcast(tensor.detach(), src=0)  # as DDP does: shards of unlike networks make none
    mesh = init_device_mesh(device.type, (world_size,))
    try:
        for block in (*blocks(model, ENOUGH), model):
            fully_shard(block, mesh=mesh)
    except (ValueError, NotImplementedError) as error:
        raise ConfigError(f"train.parallel = 'fsdp' cannot shard this network: {error}; use 'ddp'") from error
    return model


def blocks(model: nn.Module, enough: int) -> list[nn.Module]:
    """The elements of sequences and lists of modules that hold enough parameters, inner ones first.

    What is in a sequence is surely called as a module, when FSDP gathers its parameters; an attribute may be asked for
    its weight alone. A network that shares parameters between modules is one block: a shard has one owner.
    """
    if _shares_parameters(model):
        return []
    found: list[nn.Module] = []
    taken: set[nn.Parameter] = set()
    for element in _elements(model):
        own = [parameter for parameter in element.parameters() if parameter not in taken]
        if sum(parameter.numel() for parameter in own) >= enough:
            found.append(element)
            taken.update(own)
    return found


def _shares_parameters(model: nn.Module) -> bool:
    every = [parameter for _, parameter in model.named_parameters(remove_duplicate=False)]
    return len(every) > len(set(every))


def _elements(module: nn.Module) -> Iterator[nn.Module]:
    for child in module.children():
        yield from _elements(child)
        if isinstance(module, nn.Sequential | nn.ModuleList) and not isinstance(child, nn.ModuleList):
            yield child


def backbone(network: nn.Module) -> nn.Module:
    """The module itself, without what makes it parallel; under FSDP its parameters are shards."""
    return network.module if isinstance(network, DistributedDataParallel) else network


def is_sharded(network: nn.Module) -> TypeGuard[FSDPModule]:
    """Whether FSDP has it; nothing is sharded where FSDP was never imported."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    return fsdp is not None and isinstance(network, fsdp.FSDPModule)


def is_parallel(network: nn.Module) -> bool:
    """Whether ranks that train this network agree on its gradients."""
    return isinstance(network, DistributedDataParallel) or is_sharded(network)


@contextlib.contextmanager
def synchronised(network: nn.Module, *, last: bool) -> Iterator[None]:
    """Around a backward pass: gradients are averaged over the ranks in the last one of a step only."""
    if isinstance(network, DistributedDataParallel) and not last:
        with network.no_sync():
            yield
    else:
        if is_sharded(network):
            network.set_requires_gradient_sync(last)
        yield


def release(network: nn.Module) -> None:
    """Free what a forward pass without a backward pass has gathered."""
    if is_sharded(network):
        network.reshard()


def whole_weights(network: nn.Module) -> dict[str, Tensor]:
    """The backbone's state on the CPU; where it is sharded every rank must call this, and the main one gets it."""
    sharded: bool = is_sharded(network)
    state = _gathered_state(network) if sharded else backbone(network).state_dict()
    return {name: value.cpu() for name, value in state.items() if isinstance(value, Tensor)}


def _gathered_state(network: nn.Module) -> dict[str, Any]:
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    return get_model_state_dict(network, options=options)
