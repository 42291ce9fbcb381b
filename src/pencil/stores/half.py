"""Half precision by integer arithmetic: on a CPU several times faster than torch's own conversion of strided values.

A float32 times 2^-112 has its exponent where float16 has it, 13 bits further up. Values are finite and within float16's
range; from 2^-14 on they are rounded as torch rounds, below it to within half a step.
"""

from __future__ import annotations

import torch
from torch import Tensor

SCALE = 2.0**112
MAGNITUDE, SIGN = 0x7FFF, 0x8000


def to_half_bits(values: Tensor) -> Tensor:
    """The bits (int16) of float32 values in half precision, rounded to the nearest, ties to even."""
    bits = values.mul(1 / SCALE).view(torch.int32)
    odd = bits.bitwise_right_shift(13).bitwise_and_(1)
    rounded = odd.add_(bits).add_(0x0FFF).bitwise_right_shift_(13).bitwise_and_(MAGNITUDE)
    return rounded.bitwise_or_(bits.bitwise_right_shift_(16).bitwise_and_(SIGN)).to(torch.int16)


def from_half_bits(bits: Tensor) -> Tensor:
    """The float32 values of half-precision bits (int16), exactly."""
    wide = bits.int()
    values = wide.bitwise_and(MAGNITUDE).bitwise_left_shift_(13).view(torch.float32).mul_(SCALE)
    return values.view(torch.int32).bitwise_or_(wide.bitwise_and_(-(1 << 31))).view(torch.float32)
