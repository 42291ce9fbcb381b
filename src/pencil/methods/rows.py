"""What several methods do with rows that hold a belief."""

from __future__ import annotations

import torch
from torch import Tensor


def normalized_or(values: Tensor, otherwise: Tensor) -> Tensor:
    """Rows (B, C) of non-negative values divided by their sums; where one is (nearly) zero, ``otherwise``'s row."""
    sums = values.sum(dim=1, keepdim=True)
    tiny = torch.finfo(values.dtype).tiny  # below it numbers lose their digits
    return torch.where(sums >= tiny, values / sums.clamp_min(tiny), otherwise.to(values.dtype))
