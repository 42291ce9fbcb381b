"""The losses of PENCIL, one value per example.

Legend: B examples in the batch, C classes.
    logits        (B, C)  the network's output; f = softmax(logits)
    label_logits  (B, C)  ỹ, the unconstrained label variable; y^d = softmax(ỹ), Eq. 7
    given         (B,) class indices, or (B, C) distributions: ŷ, the labels that came with the examples

The caller takes the mean over the batch, so a per-example loss does not depend on batch size, partial batches,
gradient accumulation or ranks.
"""

from __future__ import annotations

from math import log
from typing import Literal

from torch import Tensor
from torch.nn import functional as F

Direction = Literal["prediction_label", "label_prediction"]
Form = Literal["printed", "reference"]
Shares = Literal["given", "uniform"]


def cross_entropy(logits: Tensor, given: Tensor) -> Tensor:
    """Eq. 1: -Σ_j ŷ_j log f_j, per example (B,). Hard and soft labels alike."""
    target = given.long() if given.dim() == 1 else given.to(logits.dtype)
    return F.cross_entropy(logits, target, reduction="none")


def kl_divergence(log_p: Tensor, log_q: Tensor) -> Tensor:
    """KL(p || q) = Σ_j p_j (log p_j - log q_j), per example (B,), from log-probabilities (B, C)."""
    return (log_p.exp() * (log_p - log_q)).sum(dim=1)


def classification_loss(
    logits: Tensor, label_logits: Tensor, direction: Direction = "prediction_label"
) -> Tensor:
    """L_c per example (B,): KL(f || y^d), Eq. 4-5, or DLDL's KL(y^d || f), Eq. 2-3."""
    log_probs, log_labels = F.log_softmax(logits, dim=1), F.log_softmax(label_logits, dim=1)
    if direction == "prediction_label":
        return kl_divergence(log_probs, log_labels)
    return kl_divergence(log_labels, log_probs)


def entropy_loss(logits: Tensor) -> Tensor:
    """L_e per example (B,): -Σ_j f_j log f_j, the entropy of the prediction (Sec. 3.5)."""
    log_probs = F.log_softmax(logits, dim=1)
    return -(log_probs.exp() * log_probs).sum(dim=1)


def compatibility_loss(label_logits: Tensor, given: Tensor, form: Form = "printed") -> Tensor:
    """L_o per example (B,): cross entropy of the label distribution against ŷ (Sec. 3.3).

    ``printed`` is the paper's -Σ_j ŷ_j log y^d_j. ``reference`` is what the authors' published program
    computes: it passes y^d, already a softmax, to a cross entropy that applies softmax once more.
    """
    if form == "printed":
        return cross_entropy(label_logits, given)
    return cross_entropy(label_logits.softmax(dim=1), given)


def balance_loss(logits: Tensor, given: Tensor, shares: Shares = "given") -> Tensor:
    """-Σ_j p_j log f̄_j per example (B,), f̄ the batch's mean prediction; not in the paper.

    With shares as given, p = ŷ: the batch's mean is least where f̄ is the mean of the given labels. Wrong as single
    labels are, their shares of the classes are often nearly right, and L_c + β L_e alone may let a class die out.
    With uniform shares, p = 1/c: for classes that are known to be alike in number, whatever the noise made of them.
    """
    log_mean = (F.log_softmax(logits, dim=1).logsumexp(dim=0) - log(len(logits))).expand_as(logits)
    if shares == "uniform":
        return -log_mean.mean(dim=1)
    if given.dim() == 1:
        return -log_mean.gather(1, given.long()[:, None])[:, 0]
    return -(given.to(logits.dtype) * log_mean).sum(dim=1)


def network_loss(
    logits: Tensor, label_logits: Tensor, entropy_weight: float, direction: Direction = "prediction_label"
) -> Tensor:
    """L_c + β L_e per example (B,): the part of Eq. 9 that reaches the network's weights, without 1/c.

    For KL(f || y^d) the two sums share their factor f and are taken in one pass:
    Σ_j f_j ((1 - β) log f_j - log y^d_j).
    """
    if direction != "prediction_label":
        return classification_loss(logits, label_logits, direction) + entropy_weight * entropy_loss(logits)
    log_probs, log_labels = F.log_softmax(logits, dim=1), F.log_softmax(label_logits, dim=1)
    return (log_probs.exp() * ((1 - entropy_weight) * log_probs - log_labels)).sum(dim=1)
