"""What several methods do with rows that hold a belief."""

from __future__ import annotations

import torch
from torch import Tensor


def normalized_or(values: Tensor, otherwise: Tensor) -> Tensor:
    """Rows (B, C) of non-negative values divided by their sums; where a row is all zero, ``otherwise``'s row."""
    sums = values.sum(dim=1, keepdim=True)
    return torch.where(
        sums > 0, values / sums.clamp_min(torch.finfo(values.dtype).tiny), otherwise.to(values.dtype)
    )
