"""The label update in closed form.

Legend: as in ``losses``; y = y^d = softmax(ỹ), f = softmax(logits).

With y = softmax(ỹ) and the per-example losses L_c = KL(f || y) and L_o,

    dL_c/dỹ = y - f                                    (times 1/c in Eq. 9)
    dL_o/dỹ = y - ŷ                                    printed
    dL_o/dỹ = y ⊙ (d - <y, d>),  d = softmax(y) - ŷ    reference

so the paper's step ỹ <- ỹ - λ dL/dỹ on a batch mean over B examples is

    ỹ <- ỹ - η [ (y - f) + κ dL_o/dỹ ],    η = λ / (B c),  κ = c α.

η (label rate) and κ (pull) have no units: they keep their meaning when batch size, class count, world size or
accumulation change. No automatic differentiation passes through the label table. Every term sums to zero over
the classes, so an update never moves the mean of a row.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from pencil.algorithm.losses import Direction, Form


def as_distribution(given: Tensor, num_classes: int) -> Tensor:
    """ŷ as distributions (B, C), from class indices (B,) or distributions (B, C)."""
    if given.dim() == 2:
        return given if given.is_floating_point() else given.float()
    return F.one_hot(given.long(), num_classes).float()


def normalized_or(values: Tensor, otherwise: Tensor) -> Tensor:
    """Non-negative values (B, C) divided by their sums; where a sum is (nearly) zero, that row of ``otherwise``."""
    sums = values.sum(dim=1, keepdim=True)
    tiny = torch.finfo(values.dtype).tiny  # below it numbers lose their digits
    return torch.where(sums >= tiny, values / sums.clamp_min(tiny), otherwise.to(values.dtype))


def start_label_logits(given: Tensor, num_classes: int, initial_gap: float = 10.0) -> Tensor:
    """Eq. 8, ỹ = K ŷ, for hard labels; for soft ones its exact continuation ỹ = log(1 + ŷ (e^K - 1)).

    Both give y^d = (ŷ (e^K - 1) + 1) / (e^K - 1 + c): ŷ mixed with a little of the uniform distribution.
    K ŷ itself would sharpen a soft label: votes of 6 to 4 would start as 88 to 12.
    """
    labels = as_distribution(given, num_classes)
    # log((1 - ŷ) + ŷ e^K), which stays finite for any K.
    return torch.logaddexp((1 - labels).clamp_min(0).log(), labels.log() + initial_gap)


def classification_gradient(
    probs: Tensor, labels: Tensor, direction: Direction, counts: Tensor | None = None
) -> Tensor:
    """dL_c/dỹ (B, C): y - f for KL(f || y); y ⊙ (g - <y, g>) with g = log y - log f for KL(y || f)."""
    if direction == "prediction_label":
        return labels - probs
    tiny = 1e-30  # KL(y || f) has no bound; where f underflows the step still must be finite
    ratio = labels.clamp_min(tiny).log() - probs.clamp_min(tiny).log()
    return labels * (ratio - _sum(labels * ratio, counts))


def compatibility_gradient(labels: Tensor, given: Tensor, form: Form, counts: Tensor | None = None) -> Tensor:
    """dL_o/dỹ (B, C): y - ŷ as printed; y ⊙ (d - <y, d>), d = softmax(y) - ŷ, in the reference form."""
    if form == "printed":
        return labels - given
    twice = labels.softmax(dim=1) if counts is None else labels.exp() / _sum(labels.exp(), counts)
    residual = twice - given
    return labels * (residual - _sum(labels * residual, counts))


def gradient_of_columns(
    labels: Tensor,
    probs: Tensor,
    given: Tensor,
    *,
    pull: float,
    form: Form,
    direction: Direction,
    counts: Tensor | None = None,
) -> Tensor:
    """dL_c/dỹ + κ dL_o/dỹ, from y, f and ŷ (B, M); a column represents ``counts`` (B, M) equal classes, or one."""
    gradient = classification_gradient(probs, labels, direction, counts)
    if not pull:
        return gradient
    return gradient + pull * compatibility_gradient(labels, given.to(labels.dtype), form, counts)


def updated_label_logits(
    label_logits: Tensor,
    probs: Tensor,
    given: Tensor,
    *,
    label_rate: float,
    pull: float,
    form: Form = "reference",
    direction: Direction = "prediction_label",
) -> Tensor:
    """One visit: ỹ - η [ dL_c/dỹ + κ dL_o/dỹ ], for a batch of rows.

    Args:
        label_logits: ỹ (B, C).
        probs: f (B, C), the network's prediction.
        given: ŷ as class indices (B,) or distributions (B, C).
        label_rate: η = λ / (B c).
        pull: κ = c α.
        form: Which compatibility loss, see ``compatibility_gradient``.
        direction: Which KL divergence, see ``classification_gradient``.

    Returns:
        The new ỹ (B, C). The arguments are left as they are.
    """
    labels = label_logits.softmax(dim=1)
    target = as_distribution(given, labels.shape[1]) if pull else given
    gradient = gradient_of_columns(labels, probs, target, pull=pull, form=form, direction=direction)
    return label_logits - label_rate * gradient


def _sum(values: Tensor, counts: Tensor | None) -> Tensor:
    """The sum over all classes (B, 1)."""
    return (values if counts is None else values * counts).sum(dim=1, keepdim=True)
