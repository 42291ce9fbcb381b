"""Two networks as one, for methods in which they teach each other."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class Pair(nn.Module):
    """In training the logits of both, (B, 2, C); otherwise one prediction (B, C): log of their mean probabilities."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, inputs: Tensor) -> Tensor:
        """Inputs (B, ...) to logits."""
        logits = torch.stack([self.first(inputs), self.second(inputs)], dim=1)
        return logits if self.training else mean_prediction(logits)


def mean_prediction(logits: Tensor) -> Tensor:
    """Log of the mean probabilities (B, C) of several networks' logits (B, N, C)."""
    return logits.log_softmax(dim=2).logsumexp(dim=1) - math.log(logits.shape[1])
