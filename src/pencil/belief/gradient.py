"""The likelihood of labels with its gradient in closed form, because a fit asks for it some hundred times.

With f the read-out, q the posterior, r the posterior of no class, σ = P(none | x), and weights v:

    ∂ / ∂ logit_c = v (q_c − (1 − r) f_c)        ∂ / ∂ log P(g | t) = Σ v q_t over rows given g
    ∂ / ∂ (g₀ + g₁ s) = v (r − σ)

Legend: N rows, M features of a class, C classes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from pencil.belief.model import Model, Said, heard_of, unheard


class SummedLikelihood:
    """Σ v log P(g | x) over some rows.

    Args:
        said: The rows.
        share: (C,) shares of the given classes.
    """

    def __init__(self, said: Said, share: Tensor) -> None:
        self.said, self.label = said, said.given.clamp_min(0)
        self.log_share = share.log()[self.label].masked_fill(said.given < 0, 0.0)
        self.fixed, self.of_fixed = unheard(said, len(share))

    def __call__(self, model: Model) -> Tensor:
        """By a model; its parameters get a gradient."""
        nothing = model.offsets[:0]
        gate = nothing if model.gate is None else model.gate
        found: Tensor = _Summed.apply(model.slopes, model.offsets, model.log_rates(), gate, self)  # type: ignore[no-untyped-call]
        return found

    def of(
        self, slopes: Tensor, offsets: Tensor, noise: Tensor, gate: Tensor
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The sum, and its gradient by each parameter."""
        said, weight = self.said, self.said.weight
        logits = torch.tensordot(slopes, said.phi, dims=1) + offsets
        log_f = logits.log_softmax(1)
        both = heard_of(noise, self.label, len(offsets)).index_copy_(0, self.fixed, self.of_fixed).add_(log_f)
        total, has_class, by_gate = both.logsumexp(1), torch.ones_like(weight), gate
        posterior = both.sub_(total[:, None]).exp_()
        if len(gate):
            chance = gate[0] + gate[1] * said.strange
            total, none = total - softplus(chance), logsigmoid(chance) + self.log_share
            none = none.masked_fill(said.sure, -torch.inf)
            total = torch.logaddexp(total, none)
            missing = (none - total).exp()
            has_class = 1 - missing
            slope = weight * (missing - chance.sigmoid())
            by_gate = torch.stack([slope.sum(), slope @ said.strange])
        posterior.mul_((has_class * weight)[:, None])
        by_noise = self._by_noise(posterior, noise)
        by_logits = posterior.sub_(log_f.exp_().mul_((has_class * weight)[:, None]))
        by_slopes = said.phi.flatten(1) @ by_logits.flatten()
        value = (total.double() * weight).sum()
        return value, (by_slopes, by_logits.sum(0), by_noise, by_gate)

    def _by_noise(self, posterior: Tensor, noise: Tensor) -> Tensor:
        """The gradient by log P(g | t), like ``noise``."""
        counts = posterior.index_fill(0, self.fixed, 0.0)
        if noise.dim() == 2:
            return torch.zeros_like(noise).index_add_(0, self.label, counts).T
        right = counts.gather(1, self.label[:, None]).sum()
        return torch.stack([right, counts.sum() - right])


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, slopes: Tensor, offsets: Tensor, noise: Tensor, gate: Tensor, rows: SummedLikelihood
    ) -> Tensor:
        value, ctx.slopes = rows.of(slopes, offsets, noise, gate)
        return value

    @staticmethod
    def backward(ctx: Any, *above: Tensor) -> tuple[Tensor | None, ...]:
        return (*(above[0].float() * slope for slope in ctx.slopes), None)
