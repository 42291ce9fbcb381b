"""Where training runs: device, ranks, precision. One process is world size 1 and runs the same code."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from pencil.engine.parallel import Parallel, replicate, shard
from pencil.engine.probes import probed
from pencil.errors import ConfigError, DeviceError

Precision = Literal["auto", "fp32", "bf16"]
Group = dist.ProcessGroup | None
"""The connections that ranks use; None for those of training, and for one process."""
T = TypeVar("T")
# A group that only DDP still holds would be deleted with it, under the interpreter's lock, and wait for its threads
# while one of them waits for that lock. So groups that were left are kept until the process ends.
_left_groups: list[dist.ProcessGroup | None] = []


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """Device, ranks and precision, and what ranks do together.

    Attributes:
        device: Where the network lives.
        rank: This process among ``world_size``.
        world_size: How many processes train together.
        precision: ``bf16`` runs the network under autocast; weights, losses and labels stay float32. ``start`` takes
            ``auto`` too: bf16 where the device computes it in hardware.
        channels_last: Keep images and convolutions in that memory format (faster on most hardware).
        parallel: How several ranks share the network: whole on each (``ddp``) or in shards (``fsdp``).
        timeout_seconds: How long another host may be unreachable before it counts as lost.
    """

    device: torch.device
    rank: int = 0
    world_size: int = 1
    precision: Precision = "fp32"
    channels_last: bool = False
    parallel: Parallel = "ddp"
    timeout_seconds: float = 120.0

    @classmethod
    def start(
        cls,
        device: str = "auto",
        precision: Precision = "fp32",
        *,
        channels_last: bool = False,
        parallel: Parallel = "ddp",
        timeout_seconds: float = 120.0,
    ) -> Runtime:
        """Join the process group that torchrun describes in the environment, if there is one."""
        world_size, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
        chosen = _device(device)
        if chosen.type == "cuda":
            torch.cuda.set_device(chosen)  # torch.distributed.checkpoint gathers on the current device
        if world_size > 1 and not dist.is_initialized():
            with probed(timeout_seconds):
                dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
        return cls(
            device=chosen,
            rank=rank,
            world_size=world_size,
            precision=_precision(precision, chosen),
            channels_last=channels_last,
            parallel=parallel,
            timeout_seconds=timeout_seconds,
        )

    @classmethod
    def alone(cls, device: str = "auto") -> Runtime:
        """This process by itself, even under torchrun."""
        return cls(device=_device(device))

    @property
    def is_main(self) -> bool:
        """Whether this process prints and writes for all."""
        return self.rank == 0

    def stop(self) -> None:
        """Leave the process group."""
        if self.world_size > 1 and dist.is_initialized():
            _left_groups.append(dist.group.WORLD)
            dist.destroy_process_group()

    def autocast(self) -> AbstractContextManager[object]:
        """The context the network's forward pass runs in."""
        if self.precision == "bf16":
            return torch.autocast(self.device.type, dtype=torch.bfloat16)
        return nullcontext()

    def place(self, model: nn.Module) -> nn.Module:
        """The network on the device, in its memory format."""
        model = model.to(self.device)
        if self.channels_last and not self._shards:  # FSDP flattens weights in their plain order only
            # The stub of Module.to knows only tensors' memory_format overloads.
            model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return model

    def network(self, model: nn.Module) -> nn.Module:
        """The placed model as all ranks train it together; call this before making the optimiser."""
        if self.world_size == 1:
            return model
        return shard(model, self.device, self.world_size) if self._shards else replicate(model)

    @property
    def _shards(self) -> bool:
        return self.world_size > 1 and self.parallel == "fsdp"

    def total(self, values: Tensor) -> Tensor:
        """The sum of ``values`` over all ranks, on the CPU; NCCL sums on the device only."""
        if self.world_size == 1:
            return values
        moved = values.to(self.device)
        dist.all_reduce(moved)
        return moved.cpu()

    def any_of(self, *flags: bool) -> list[bool]:
        """Which of the flags are set on any rank; with one process it costs nothing, as it is called in every step."""
        if self.world_size == 1:
            return list(flags)
        return [bool(count > 0) for count in self.total(torch.tensor(flags, dtype=torch.float32))]

    def agree_on_buffers(self, model: nn.Module) -> None:
        """Rank 0's buffers everywhere: batch norm's averages follow each rank's own batches."""
        if self.world_size > 1:
            for buffer in model.buffers():
                dist.broadcast(buffer, src=0)

    def new_group(self) -> Group:
        """Separate connections for use beside training, on the CPU."""
        if self.world_size == 1:
            return None
        with probed(self.timeout_seconds):
            group: Group = dist.new_group(backend="gloo")
        return group

    def gathered(self, value: T, group: Group = None) -> list[T]:
        """The values of all ranks, in their order."""
        if self.world_size == 1:
            return [value]
        values: list[Any] = [None] * self.world_size
        dist.all_gather_object(values, value, group=group)
        return values

    def barrier(self, group: Group = None) -> None:
        """Wait for every rank."""
        if self.world_size > 1:
            dist.barrier(group=group)


def is_lost_rank(error: RuntimeError) -> bool:
    """Whether ranks failed to connect or to communicate because one is gone; gloo says so only in its message."""
    return isinstance(error, dist.DistError) or "gloo/" in str(error)


def _device(wanted: str) -> torch.device:
    local = int(os.environ.get("LOCAL_RANK", 0))
    if wanted == "auto":
        return torch.device("cuda", local) if torch.cuda.is_available() else torch.device("cpu")
    try:
        device = torch.device(wanted)
    except RuntimeError as error:
        raise ConfigError(
            f"train.device: {wanted!r} is not a device; use auto, cpu, cuda or cuda:0"
        ) from error
    if device.type != "cuda":
        return device
    if not torch.cuda.is_available():
        raise DeviceError(f"train.device: {wanted!r} asked for, but this torch sees no GPU; use auto or cpu")
    number, count = local if device.index is None else device.index, torch.cuda.device_count()
    if number >= count:
        raise DeviceError(
            f"train.device: {wanted!r} would be GPU {number}, but this torch sees {count}, numbered from 0; name one "
            "of them, and start no more processes than there are GPUs"
        )
    return torch.device("cuda", number)


def _precision(wanted: Precision, device: torch.device) -> Precision:
    """``auto``: bf16 where the hardware multiplies it; a processor that only emulates it takes twice as long."""
    if wanted != "auto":
        return wanted
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"
    # get_capabilities is newer than the oldest torch supported.
    known: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return "bf16" if known.get("amx_bf16") or known.get("avx512_bf16") else "fp32"
