"""Noise between particular classes: a test for it, and labels that undo it.

**Test.** Anchors are the tenth of the rows with the largest lead of the best similarity over the second, but at least
500 rows or, if there are fewer than 1,000, half of them. A is the share of anchors whose given class is not the most
similar one. U is the share that noise without structure would explain. Wrong labels that fall on all other classes
alike are as often in the less similar half of the classes as in the other half; labels of similar classes are hardly
ever in the less similar half. So U is the share of anchors whose given class is in that half, divided by the size of
the half. Noise has structure if A − U > 0.01 + 3 standard errors.

A second test needs no similar classes: hard rows, too, are labelled with similar classes, so the share U of the half of
the rows with the largest lead is noise. If it exceeds the fitted rate by 0.005 + 3 standard errors, the likelihood took
noise for hard rows, as happens with labels by people, and U replaces the rate.

**Rounds.** From y = one-hot given classes, as often as ``start`` asks:

    z     similarities to the prototypes of y, without the row's own share
    d     agreement of the anchors with their given labels, within [.02, .98]
    J     counts of (believed, given): believed is argmax z in the first round, then y
    E     excess J_cj − λ_c where J_cj >= 2 + λ_c + 3 √λ_c, λ_c the mean of the other entries of the row; else 0
    r     (E_cj + (n_c − ΣE + 5) / (C − 1)) / (n_c + 5), n_c the sum of the row without its diagonal
    y     ∝ e^(b z_c) P(given | c), with b by likelihood, then rescaled to the given shares of the classes, unless
          the rows are a sample with fewer than 20 of each class

P(given | c) is d for c itself and (1 − d) r elsewhere.

Legend: B rows, M rows of the sample, R dimensions, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from pencil.estimates.likelihood import add_log_noise, log_noise
from pencil.estimates.prototypes import Prototypes
from pencil.estimates.sharpness import likeliest, sharpness_of, tilt_to
from pencil.estimates.whitening import Total

ANCHORS, FEWEST = 0.1, 500
MOST = 0.95
SLACK, ERRORS = 0.01, 3.0
MOST_CLASSES = 2000
"""With more classes the counts J are not kept, and structure is only tested for."""
_BINS = 4096
_PSEUDO = 5.0


@dataclass(frozen=True)
class Anchors:
    """The test for structure.

    Attributes:
        wrong: A.
        uniform: U.
        error: The standard error of A − U.
        disagreeing: The share of all rows whose given class is not the most similar one.
        floor: U of the half of the rows with the largest lead.
        floor_error: Its standard error.
    """

    wrong: float
    uniform: float
    error: float
    disagreeing: float
    floor: float
    floor_error: float

    @property
    def structured(self) -> bool:
        """Whether noise runs between particular classes."""
        return self.wrong - self.uniform > SLACK + ERRORS * self.error

    def exceeds(self, rate: float) -> bool:
        """Whether more labels are far from their features than a noise rate explains."""
        return self.floor - rate > SLACK / 2 + ERRORS * self.floor_error


def anchors(similarities: Tensor, given: Tensor, total: Total) -> Anchors:
    """Test the rows of all ranks: similarities (M, C) and given classes (M,)."""
    classes = similarities.shape[1]
    far = far_share(classes)
    own = similarities.gather(1, given[:, None])
    places = (similarities > own).sum(1)  # how many classes are more similar
    chosen, half = _is_anchor(similarities, total), _is_anchor(similarities, total, 0.5)
    is_far = places >= classes / 2
    marks = (chosen, chosen & (places > 0), chosen & is_far, half, half & is_far, places > 0)
    sums = total(torch.tensor([*(int(mark.sum()) for mark in marks), len(given)], dtype=torch.float64))
    count, wrong, distant, halves, far_halves, disagreeing, rows = sums.tolist()
    wrong, distant = wrong / max(count, 1), distant / max(count, 1)
    variance = wrong * (1 - wrong) + distant * (1 - distant) / far**2
    floor, smooth = (
        far_halves / max(halves, 1),
        (far_halves + 1) / (halves + 2),
    )  # smooth: no error of 0 with few rows
    return Anchors(
        wrong=wrong,
        uniform=distant / far,
        error=(variance / max(count, 1)) ** 0.5,
        disagreeing=disagreeing / max(rows, 1),
        floor=min(floor / far, MOST),
        floor_error=(smooth * (1 - smooth) / max(halves, 1)) ** 0.5 / far,
    )


def far_share(classes: int) -> float:
    """The share of the C − 1 other classes that are in the less similar half."""
    others = range(1, max(classes, 2))
    return sum(place >= classes / 2 for place in others) / len(others)


def _is_anchor(similarities: Tensor, total: Total, share: float = ANCHORS) -> Tensor:
    """(M,) bool: the rows with the largest lead, of all ranks."""
    if similarities.shape[1] < 2:
        return torch.zeros(len(similarities), dtype=torch.bool)
    best = similarities.topk(2, dim=1).values
    bins = ((best[:, 0] - best[:, 1]) / 2 * _BINS).long().clamp(0, _BINS - 1)
    counts = total(bins.bincount(minlength=_BINS).double()).flip(0).cumsum(0)
    rows = float(counts[-1])
    wanted = max(share * rows, min(rows / 2, FEWEST))
    least = _BINS - 1 - int((counts < wanted).sum())
    return bins >= least


@dataclass(frozen=True)
class Round:
    """What a round needs to give a row its label.

    Attributes:
        prototypes: Of the labels before the round.
        sharpness: b.
        rate: 1 − d, the share of wrong labels, () or of each class (C,).
        spread: (C, C) log r; None for all classes alike.
        prior: (C,) logarithm of the classes' factors in f ∝ e^(prior + b z); 0 but for a whole matrix.
        tilt: (C,) logarithm of the factors of y that restore the given shares; 0 if there are too few rows for it.
    """

    prototypes: Prototypes
    sharpness: float
    rate: Tensor
    spread: Tensor | None
    prior: Tensor
    tilt: Tensor

    def labels(self, directions: Tensor, own: Tensor, given: Tensor) -> Tensor:
        """Return y (B, C) after the round, from y before it."""
        scores = self._scores(directions, own, self.prior + self.tilt)
        return add_log_noise(scores, given, self.rate, self.spread).softmax(1)

    def read(self, directions: Tensor, own: Tensor) -> Tensor:
        """Return log f (B, C) of rows whose labels before the round are y (B, C)."""
        return self._scores(directions, own, self.prior).log_softmax(1)

    def _scores(self, directions: Tensor, own: Tensor, prior: Tensor) -> Tensor:
        return self.prototypes.similarities(directions, own).mul_(self.sharpness).add_(prior)

    def log_noise(self, given: Tensor) -> Tensor:
        """Return log P(given | c) (B, C)."""
        return log_noise(given, len(self.tilt), self.rate, self.spread)


def chained(rounds: tuple[Round, ...], directions: Tensor, given: Tensor, classes: int) -> Tensor:
    """Return y (B, C) after these rounds."""
    own = one_hot(given, classes).float()
    for each in rounds:
        own = each.labels(directions, own, given)
    return own


def next_round(
    rounds: tuple[Round, ...],
    prototypes: Prototypes,
    directions: Tensor,
    own: Tensor,
    given: Tensor,
    shares: Tensor | None,
    total: Total,
    *,
    by_likelihood: bool = False,
) -> tuple[Round, float]:
    """Return the round after ``rounds``, and the share of structure that it found.

    Args:
        rounds: Those before it.
        prototypes: Of the labels after them.
        directions: (M, R) of the sample.
        own: (M, C) its labels after them.
        given: (M,) its given classes.
        shares: (C,) logarithm of the given shares of the classes, to which labels are rescaled; None to leave them.
        total: The sum over ranks.
        by_likelihood: Take 1 − d from the likelihood of the given labels instead of the anchors.
    """
    classes = len(prototypes.prior)
    similar = prototypes.similarities(directions, own)
    rate = 1 - _agreement(similar, given, total)
    believed = own if rounds else one_hot(similar.argmax(1), classes).float()
    spread, share = _spread(believed, given, total) if classes <= MOST_CLASSES else (None, 0.0)
    sharpness = rounds[-1].sharpness if rounds else 20.0
    if by_likelihood:
        before = float(rounds[-1].rate) if rounds else rate
        sharpness, rate = likeliest(similar, given, spread, sharpness, before, total)
    noise = log_noise(given, classes, torch.tensor(rate), spread)
    sharpness = sharpness_of(similar, noise, sharpness, total)
    none = torch.zeros(classes)
    tilt = none if shares is None else tilt_to(sharpness * similar + noise, shares, total)
    return Round(prototypes, sharpness, torch.tensor(rate), spread, none, tilt), share


def _spread(believed: Tensor, given: Tensor, total: Total) -> tuple[Tensor, float]:
    """As ``spreading``, from beliefs (M, C) about rows with given classes (M,)."""
    counts = torch.zeros(believed.shape[1], believed.shape[1])
    return spreading(total(counts.index_add_(1, given, believed.T).double()))


def spreading(counts: Tensor) -> tuple[Tensor, float]:
    """Return log r (C, C) float32 and the share of structure, from J (C, C)."""
    classes = len(counts)
    other = counts.clone().fill_diagonal_(0)
    rows = other.sum(1, keepdim=True)
    usual = rows / max(classes - 1, 1)
    excess = torch.where(other >= 2 + usual + 3 * usual.sqrt(), other - usual, 0.0)
    rest = (rows - excess.sum(1, keepdim=True) + _PSEUDO) / max(classes - 1, 1)
    spread = (excess + rest).fill_diagonal_(0)
    spread = spread / spread.sum(1, keepdim=True).clamp_min(1e-12)
    return spread.clamp_min(1e-12).log().float(), float(excess.sum() / other.sum().clamp_min(1))


def _agreement(similarities: Tensor, given: Tensor, total: Total) -> float:
    chosen = _is_anchor(similarities, total)
    agree = (similarities.argmax(1) == given) & chosen
    same, count = total(torch.stack([agree.sum(), chosen.sum()]).double()).tolist()
    return float(min(max(same / max(count, 1), 0.02), 0.98))
