"""Alarms: signs that correction does harm, found in the metrics of a run without true labels.

    collapse     the suggested labels, or the predictions for held-out examples, leave most classes empty
    drift        agreement with the held-out given labels falls while labels are corrected
    worse_labels by the noise estimate, fewer labels are right than before
    changes      more labels are changed than the noise estimate allows
    not_finite   a loss, gradient or label row is not finite

Every function here is pure: metrics in, an alarm or None out. ``watch`` turns alarms into decisions of a policy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from pencil.algorithm import Rows, TopRows
from pencil.estimates import Alarm
from pencil.results.summary import too_many_changes
from pencil.stores import rows_at_once

Action = Literal["finish", "stop", "report"]
Metrics = Mapping[str, Any]

LEFT = 0.1  # a class that keeps less than this share of its labels counts as lost
FEWEST = 5  # classes with fewer given labels are not judged
LOST = 0.5  # more lost classes than this share are a collapse
PATIENCE = 3  # evaluated epochs in a row that must all lie below the peak: a single one may be an accident
FALL = 0.03  # smaller falls of the corrected accuracy do not matter
REMEDY = (
    "use better features: for images or texts, train with --embed on the embeddings of a pretrained network; if the "
    "features are good, use fewer correction epochs or a smaller method.label_rate"
)
NOT_FINITE = "is not finite"
ERRORS = 3.0  # standard errors of a fall that is not chance


@dataclass(frozen=True, kw_only=True)
class AlarmActions:
    """What each alarm does: ``finish``, ``stop`` or ``report``.

    ``finish`` ends correction, restores labels and network of the best epoch, and continues with the next phase. The
    best epoch agrees best with the held-out labels; without any, it is the last before correction. If ``worse_labels``
    is ``finish``, it is the epoch with the most right labels by the noise estimate. ``stop`` ends the run with an
    error. ``report`` lets the run continue. Summary and report list every alarm.

    Attributes:
        collapse: The suggested labels or the predictions leave half of the classes almost empty.
        drift: Agreement with held-out given labels falls during correction, by more than chance.
        worse_labels: By the noise estimate, fewer labels are right than before, by more than chance.
        changes: More labels are changed than the noise estimate of the run allows.
        not_finite: A loss, gradient or label row is not finite. ``finish`` or ``stop``.
    """

    collapse: Action = "finish"
    drift: Action = "finish"
    worse_labels: Action = "report"
    changes: Action = "report"
    not_finite: Literal["finish", "stop"] = "stop"

    def __post_init__(self) -> None:
        for name in ("collapse", "drift", "worse_labels", "changes", "not_finite"):
            known = [each for each in get_args(Action) if name != "not_finite" or each != "report"]
            if getattr(self, name) not in known:
                raise ValueError(f"{name}: {getattr(self, name)!r} is unknown; use one of {', '.join(known)}")

    @property
    def restores(self) -> bool:
        """Whether any alarm may restore labels."""
        return "finish" in (self.collapse, self.drift, self.worse_labels, self.changes, self.not_finite)


def lost_share(given: Tensor, found: Tensor) -> float:
    """The share of classes that lost nearly all their labels: counts (C,) of given and found labels in, 0 to 1 out."""
    judged = given >= FEWEST
    if int(judged.sum()) < 2:
        return 0.0
    # Fewer found labels than given ones, as with trusted rows left out, must not look like a loss.
    share = found / found.sum().clamp_min(1) / (given / given.sum().clamp_min(1)).clamp_min(1e-12)
    return float((share[judged] < LEFT).double().mean())


def counts(classes: Tensor, num_classes: int) -> Tensor:
    """How many rows (C,) have each class, as float64."""
    return torch.bincount(classes, minlength=num_classes).double()


def gain(posterior: Callable[[Tensor], Rows], given: Tensor, suggested: Tensor, num_classes: int) -> Tensor:
    """How many more labels are right than were given, as expected value and variance (2,) float64.

    Args:
        posterior: The probability (B, C) that each class is the true one, for indices (B,).
        given: (N,) given classes.
        suggested: (N,) suggested classes.
        num_classes: C.
    """
    sums = torch.zeros(2, dtype=torch.float64)
    for indices in (given != suggested).nonzero().flatten().split(rows_at_once(num_classes)):
        rows, both = posterior(indices), torch.stack([suggested[indices], given[indices]], dim=1)
        found = rows.at(both) if isinstance(rows, TopRows) else rows.gather(1, both)
        new, old = found.double().unbind(dim=1)
        sums += torch.stack([(new - old).sum(), (new + old - (new - old).square()).sum()])
    return sums


def found(epochs: Sequence[Metrics], held_out: int) -> list[Alarm]:
    """The alarms after the last of these epochs; only epochs of the correction phase raise any."""
    if epochs[-1]["phase"] != "correction":
        return []
    alarms = (collapse(epochs), drift(epochs, held_out), worse_labels(epochs), changes(epochs[-1]))
    return [alarm for alarm in alarms if alarm is not None]


def collapse(epochs: Sequence[Metrics]) -> Alarm | None:
    """Whether half of the classes are lost among the suggested labels, or among the predictions for held-out examples.

    Predictions count only if they once had most classes and have lost them for ``PATIENCE`` evaluated epochs: a network
    that has just begun predicts few classes too.
    """
    predicted = [each["predicted_classes_lost"] for each in epochs if "predicted_classes_lost" in each]
    labels = epochs[-1].get("label_classes_lost", 0.0)
    if labels >= LOST:
        which, share = "the suggested labels", labels
    elif predicted and min(predicted) < LOST / 2 and min(predicted[-PATIENCE:]) >= LOST:
        which, share = "the predictions for held-out examples", predicted[-1]
    else:
        return None
    return Alarm(
        "collapse",
        f"{which} collapsed to few classes: {100 * share:.0f} % of the classes lost more than {100 * (1 - LEFT):.0f} % "
        "of their share",
        "lower the label rate (method.label_rate) or the learning rate of the correction phase, or keep the classes "
        "balanced (method.balance)",
    )


def worse_labels(epochs: Sequence[Metrics]) -> Alarm | None:
    """Whether the posterior expects fewer right labels than at the best epoch, or than among the given labels.

    It is compared with the best of the last ``PATIENCE`` epochs. A loss counts if it exceeds three standard errors and
    three points.
    """
    scored = [each for each in epochs if each["phase"] == "correction" and "labels_gain" in each]
    if len(scored) < PATIENCE:
        return None
    best = max(scored, key=lambda each: float(each["labels_gain"]))
    peak, now = max(best["labels_gain"], 0.0), max(each["labels_gain"] for each in scored[-PATIENCE:])
    if peak - now <= max(FALL, ERRORS * scored[-1]["labels_gain_error"]):
        return None
    when = f"in epoch {best['epoch']}" if best["labels_gain"] > 0 else "among the given labels"
    return Alarm(
        "worse_labels",
        f"by the estimate, the share of right labels is {100 * (peak - now):.1f} points lower than {when}: the network "
        "knows less than the labels",
        REMEDY,
    )


def drift(epochs: Sequence[Metrics], held_out: int) -> Alarm | None:
    """Whether agreement with held-out given labels has fallen from its peak within correction, by more than chance.

    The peak is compared with the best of the last ``PATIENCE`` evaluated epochs. A fall counts if it exceeds three
    standard errors, and three points of accuracy after correcting both for the estimated noise of the held-out labels.
    """
    scored = [
        each
        for each in epochs
        if each["phase"] == "correction" and each.get("validation_accuracy") is not None
    ]
    if len(scored) <= PATIENCE or scored[-1] is not epochs[-1]:
        return None
    best = max(scored, key=_agreement)
    peak, now = _agreement(best), max(map(_agreement, scored[-PATIENCE:]))
    scale = noise_scale(scored[-1].get("noise_rate", 0.0))
    if peak - now <= max(FALL * scale, ERRORS * standard_error(peak, now, held_out)):
        return None
    return Alarm(
        "drift",
        f"agreement with the held-out given labels fell from {100 * peak:.1f} % in epoch {best['epoch']} to "
        f"{100 * now:.1f} %: the labels drift towards the network's mistakes",
        REMEDY,
    )


def changes(metrics: Metrics) -> Alarm | None:
    """Whether more labels are changed than the upper bound of the estimated noise rate allows."""
    if "noise_rate_high" not in metrics:
        return None
    return too_many_changes(metrics["labels_changed"], metrics["examples"], metrics["noise_rate_high"])


def not_finite(words: str) -> Alarm:
    """From the words of a ``NotFiniteError``, which end with the remedy."""
    what, mark, remedy = words.partition(f"{NOT_FINITE}: ")
    return Alarm("not_finite", what + NOT_FINITE if mark else words, remedy or "lower the learning rate")


def noise_scale(rate: float) -> float:
    """How much smaller a fall of accuracy looks on labels of which the share ``rate`` is wrong."""
    return max(1.0 - rate, 0.0)


def standard_error(one: float, other: float, rows: int) -> float:
    """Of the difference of two accuracies on the same rows, as if they were independent, which is an upper bound.

    One right and one wrong row are added to each, so that a few rows that are all right do not seem certain.
    """
    shares = [(share * rows + 1) / (rows + 2) for share in (one, other)]
    return math.sqrt(sum(share * (1 - share) for share in shares) / max(rows, 1))


def _agreement(metrics: Metrics) -> float:
    return float(metrics["validation_accuracy"])
