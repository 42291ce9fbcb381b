"""Random numbers as pure functions: the same numbers give the same draws, on every rank and after every resume."""

from __future__ import annotations

import torch
from torch import Tensor

_GOLDEN = (
    0x9E3779B97F4A7C15  # splitmix64: the step between the states of successive draws, 2^64 / golden ratio
)
_MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_LAST_SHIFT = 31


def mixed_seed(*parts: int) -> int:
    """One seed from several numbers, by a splitmix64 hash over them: no two short lists are likely to share one."""
    mixed = 0
    for part in parts:
        mixed = _mix_int((mixed + part) % 2**64)
    return mixed >> 1  # a torch.Generator takes 63 bits


def row_random(seed: int, epoch: int, indices: Tensor, draws: int) -> Tensor:
    """Uniform random numbers (B, draws), float32 in [0, 1), that depend on seed, epoch, row and draw alone.

    Each is a splitmix64 hash: seed and epoch make a key, key and row a state, and the draws are the
    successive outputs of splitmix64 from that state.

    Args:
        seed: Any whole number.
        epoch: Any whole number.
        indices: (B,) row numbers.
        draws: How many numbers each row gets.
    """
    key = _mix_int(_mix_int(seed) + epoch)
    state = _mix(indices.long() + _signed(key))
    steps = torch.tensor([_signed((draw + 1) * _GOLDEN) for draw in range(draws)], device=indices.device)
    bits = _mix(state[:, None] + steps)
    return _shift(bits, 40).to(torch.float32) * 2.0**-24  # 24 bits fill a float32 and stay below 1


def _mix(state: Tensor) -> Tensor:
    """splitmix64's output function on int64, whose products wrap around as unsigned ones do."""
    for shift, factor in _MIX:
        state = (state ^ _shift(state, shift)) * _signed(factor)
    return state ^ _shift(state, _LAST_SHIFT)


def _mix_int(state: int) -> int:
    """The same on a Python int, modulo 2^64, for what is one number per batch."""
    state = (state + _GOLDEN) % 2**64
    for shift, factor in _MIX:
        state = (state ^ (state >> shift)) * factor % 2**64
    return state ^ (state >> _LAST_SHIFT)


def _shift(bits: Tensor, places: int) -> Tensor:
    """Logical right shift: int64 shifts its sign in, so the bits that came in are masked out."""
    return (bits >> places) & ((1 << (64 - places)) - 1)


def _signed(bits: int) -> int:
    """The int64 with these 64 bits."""
    bits %= 2**64
    return bits - 2**64 if bits >= 2**63 else bits
