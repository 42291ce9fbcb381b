"""A second expert beside a network: class prototypes of whitened features, found in closed form before training.

Both are classifiers of the same inputs x. Together they predict

    log p_c = log f_c(x) + log softmax(b cos(a − ā, S))_c + const,    a = normalise(x W − o).

The tensors are those of ``pencil.estimates.Start.classifier``.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn
from torch.nn.functional import normalize


class PrototypeExpert(nn.Module):
    """Logits (B, C) of the prototypes for inputs (B, D).

    Args:
        tensors: ``weight`` (D, R), ``offset`` (R,), ``centre`` (R,), ``prototypes`` (C, R) and ``sharpness``.
        mean: (D,) what was subtracted from the inputs before they came here; None for nothing.
        std: (D,) what they were divided by then.
    """

    weight: Tensor
    offset: Tensor
    centre: Tensor
    prototypes: Tensor
    sharpness: Tensor

    def __init__(
        self, tensors: Mapping[str, Tensor], mean: Tensor | None = None, std: Tensor | None = None
    ) -> None:
        super().__init__()
        values = dict(tensors)
        if mean is not None and std is not None:  # x = std · input + mean
            weight = values["weight"].double()
            values["offset"] = (values["offset"].double() - mean.double() @ weight).float()
            values["weight"] = (std.double()[:, None] * weight).float()
        for name in ("weight", "offset", "centre", "prototypes", "sharpness"):
            self.register_buffer(name, values[name])

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (B, C)."""
        directions = normalize(inputs.float() @ self.weight - self.offset, dim=1) - self.centre
        return self.sharpness * (normalize(directions, dim=1) @ self.prototypes.T)


class WithExpert(nn.Module):
    """A network and a second expert; the logits are the sums of their log-probabilities."""

    def __init__(self, network: nn.Module, expert: PrototypeExpert) -> None:
        super().__init__()
        self.network, self.expert = network, expert

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (B, C)."""
        both: Tensor = self.network(inputs).float().log_softmax(1) + self.expert(inputs).log_softmax(1)
        return both
