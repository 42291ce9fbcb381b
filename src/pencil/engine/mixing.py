"""A pass over a batch for methods that guess targets from several views and learn from mixed examples (MixUp)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pencil.data.randomness import mixed_seed
from pencil.engine.learner import LabelLearner
from pencil.methods import Guess


@dataclass(frozen=True)
class Blend:
    """How examples are mixed in pairs: ``share`` of an example, and the rest of the one that ``order`` gives for it."""

    share: float
    order: Tensor

    @classmethod
    def drawn(cls, alpha: float, count: int, *key: int) -> Blend:
        """λ ~ Beta(α, α), at least 1/2, and a permutation of ``count``: a pure function of the key's numbers."""
        seed = mixed_seed(*key)
        share = float(np.random.default_rng(seed).beta(alpha, alpha))
        order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
        return cls(max(share, 1 - share), order)

    def __call__(self, values: Tensor) -> Tensor:
        """λ a + (1 - λ) b, of values (count, ...)."""
        return self.share * values + (1 - self.share) * values[self.order.to(values.device)]


def mixed_losses(
    learner: LabelLearner,
    forward: Callable[[Tensor], Tensor],
    views: Sequence[Tensor],
    indices: Tensor,
    key: tuple[int, ...],
) -> tuple[Tensor, Tensor]:
    """Losses (B,) of a batch's mixed views, and the logits (B, ...) of its first view.

    Two passes: one without gradient for all views to guess the targets, one for the mixed inputs. A view is mixed with
    any view of any example of this batch.

    Args:
        learner: Of a method that mixes now.
        forward: The network.
        views: Inputs (B, ...), one for each view that the method wants.
        indices: (B,) which rows these are.
        key: Numbers that decide the mixture.
    """
    method = learner.mixing
    assert method is not None
    inputs = torch.cat(tuple(views))
    with torch.no_grad():
        logits = forward(inputs).unflatten(0, (len(views), len(indices)))
        guess = learner.guess(logits, indices)
    blend = Blend.drawn(method.alpha, len(inputs), *key)
    targets = guess.targets.repeat(len(views), 1, 1)
    labelled = guess.labelled.repeat(len(views), 1)
    mixed = Guess(blend(targets), labelled)
    losses = method.mixed_loss(forward(blend(inputs)).float(), mixed, learner.moment)
    return losses.unflatten(0, (len(views), len(indices))).mean(dim=0), logits[0]
