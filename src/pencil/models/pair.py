"""Two networks as one, for methods in which they teach each other."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn


class Pair(nn.Module):
    """In training the logits of both, (B, 2, C); otherwise one prediction (B, C): log of their mean probabilities.

    Within ``apart`` the logits of both in any mode.
    """

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second
        self.apart = False

    def forward(self, inputs: Tensor) -> Tensor:
        """Inputs (B, ...) to logits."""
        logits = torch.stack([self.first(inputs), self.second(inputs)], dim=1)
        return logits if self.training or self.apart else mean_prediction(logits)


@contextlib.contextmanager
def apart(model: nn.Module) -> Iterator[None]:
    """Pairs in the model return the logits of both networks, also in evaluation mode."""
    pairs = [module for module in model.modules() if isinstance(module, Pair)]
    try:
        for pair in pairs:
            pair.apart = True
        yield
    finally:
        for pair in pairs:
            pair.apart = False


def mean_prediction(logits: Tensor) -> Tensor:
    """Log of the mean probabilities (B, C) of several networks' logits (B, N, C)."""
    return logits.log_softmax(dim=2).logsumexp(dim=1) - math.log(logits.shape[1])
