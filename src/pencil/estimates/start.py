"""Labels to start training from: the rounds of ``structure``, as many as held-out labels confirm.

Without structure in the noise the rounds have uniform rates r, and they raise the labels by self-training: prototypes
of better labels give better labels. How many rounds help depends on the data. With few rows of a class and much noise
it is six and more; with little noise the first is the best, because labels that the prototypes are unsure of blur them.
So a tenth of the rows, chosen by their content, is left out, and the number of rounds is the one by which the given
labels of these rows are most likely:

    Σ_i log Σ_c softmax(b z_i)_c P(given_i | c),    z_i = cos(u_i, S_c).

The noise comes from one of three estimates. The likelihood of the given labels gives one rate for all classes. Anchors
give it too; they are the better ones with much noise, but need prototypes that are right about the most distinct rows.
With few rows of a class they are not, and the rate would come out too high. With many rows of each class, the whole
matrix can be estimated (``matrix``). In this order, each is used instead of the one before if it explains the left-out
labels better by one standard error. Then the rounds are made with all rows, and y of the last one is what training
starts from.

The prototypes before the last round and its b are a classifier of new rows, softmax(b z).

Legend: N rows of all ranks, B rows, R dimensions, C classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from pencil.errors import DataError
from pencil.estimates.matrix import ENOUGH, with_whole_matrix
from pencil.estimates.rows import DataRows, Sample, content, in_parts, mean_and_error
from pencil.estimates.structure import Round, chained, next_round
from pencil.estimates.whitening import Passes, Total, Whitening, fit_whitening

MOST_ROUNDS, PATIENCE = 8, 2
FEW_ROUNDS = 3
"""At most, if not all rows fit into the sample: every round then repeats those before it, row by row."""
ERRORS = 1.0
"""Standard errors by which an estimate of the noise must explain the left-out labels better than the one before it."""
LEFT_OUT = 10
"""One of so many rows is left out to choose the number of rounds."""
Noise = Literal["likelihood", "anchors", "matrix"]
"""How the noise is estimated."""


@dataclass(frozen=True)
class Start:
    """The fitted rounds, equal on all ranks.

    Attributes:
        whitening: From features to directions.
        rounds: In order, at least one.
        likelihoods: The mean log-likelihood of the left-out labels after each round that was tried.
    """

    whitening: Whitening
    rounds: tuple[Round, ...]
    likelihoods: tuple[float, ...]

    def posterior(self, features: Tensor, given: Tensor) -> Tensor:
        """The probability y (B, C) of each class for rows that were fitted."""
        classes = len(self.rounds[0].tilt)
        pieces = zip(in_parts(features, classes), in_parts(given, classes), strict=True)
        found = [chained(self.rounds, self.whitening(some), labels, classes) for some, labels in pieces]
        return torch.cat(found) if found else torch.zeros(0, classes)

    @property
    def classifier(self) -> dict[str, Tensor]:
        """The classifier of new rows x as plain tensors.

        With a = normalise(x ``weight`` − ``offset``), its logits are ``sharpness`` · cos(a − ``centre``,
        ``prototypes``).
        """
        white, last = self.whitening, self.rounds[-1]
        root = white.root.double()
        weight = root if white.projection is None else white.projection @ root
        return {
            "weight": weight.float(),
            "offset": (white.mean @ root).float(),
            "centre": last.prototypes.centre,
            "prototypes": normalize(last.prototypes.sums, dim=1),
            "sharpness": torch.tensor(last.sharpness),
        }


def fit_start(
    passes: Passes,
    given: Tensor,
    num_classes: int,
    *,
    total: Total = lambda values: values,
) -> Start:
    """Fit on all rows.

    Args:
        passes: Makes one pass over this rank's rows.
        given: (N,) their given classes.
        num_classes: C.
        total: The sum of a tensor over all ranks.
    """
    whitening, _, rows = fit_whitening(passes, total)
    data = DataRows(passes, given, num_classes, whitening, rows, total)
    held = _left_out(data)
    chosen = _tried(data, held, "likelihood")
    for noise in _further(data):
        other = _tried(data, held, noise)
        gain, error = mean_and_error(other.best - chosen.best, total)
        chosen = other if gain > ERRORS * error else chosen
    tried = chosen.likelihoods
    rounds = _rounds(data, tried.index(max(tried)) + 1, chosen.noise)
    return Start(whitening, tuple(rounds), tried)


def prototype_start(features: Tensor, labels: Tensor, num_classes: int | None = None) -> Tensor:
    """Probabilities (N, C) to start from, for features and labels in memory.

        learner = LabelLearner(method, labels, phases, start=prototype_start(features, labels))

    Args:
        features: (N, D), inputs that are features or those of a pretrained network.
        labels: (N,) the given classes.
        num_classes: C, if it is not the largest class plus 1.
    """
    values, given = torch.as_tensor(features).float(), torch.as_tensor(labels).long()
    if values.dim() != 2 or given.shape != values.shape[:1]:
        raise DataError(
            f"prototype_start: features {tuple(values.shape)} and labels {tuple(given.shape)} must be (N, D) and (N,)"
        )
    classes = num_classes or (int(given.max()) + 1 if len(given) else 1)
    low, high = (int(given.min()), int(given.max())) if len(given) else (0, 0)
    if low < 0 or high >= classes:
        raise DataError(
            f"prototype_start: the labels are from {low} to {high}, and must be classes from 0 to {classes - 1}"
        )
    start = fit_start(lambda: iter([(torch.arange(len(given)), values)]), given, classes)
    return start.posterior(values, given)


def _further(data: DataRows) -> tuple[Noise, ...]:
    """The estimates of the noise to try after the likelihood's."""
    sampled = data.rows // data.stride
    return ("anchors", "matrix") if sampled >= ENOUGH * data.classes**2 else ("anchors",)


def _rounds(data: DataRows, most: int, noise: Noise) -> Iterator[Round]:
    """Make rounds one after another."""
    prototypes, sample = data.first_pass()
    rounds: tuple[Round, ...] = ()
    own, shares = one_hot(sample.given, data.classes).float(), data.shares(prototypes)
    while len(rounds) < most:
        if rounds:
            own = rounds[-1].labels(sample.directions, own, sample.given)
            prototypes = data.prototypes(rounds, sample, own)
        at = (rounds, prototypes, sample.directions, own, sample.given, shares, data.total)
        last, _ = next_round(*at, by_likelihood=noise == "likelihood")
        if noise == "matrix":
            similar = prototypes.similarities(sample.directions, own)
            last = with_whole_matrix(last, similar, sample.given, data.total)
        rounds = (*rounds, last)
        yield last


@dataclass(frozen=True)
class _Trial:
    """Rounds without the left-out rows.

    Attributes:
        noise: How they estimate the noise.
        likelihoods: The mean log-likelihood of the left-out labels after each round.
        best: (M,) the log-likelihood of each after the round that has the largest.
    """

    noise: Noise
    likelihoods: tuple[float, ...]
    best: Tensor


def _tried(data: DataRows, held: Sample, noise: Noise) -> _Trial:
    """Try rounds until the likelihood of the left-out labels has not risen in two of them."""
    others = replace(data, passes=lambda: _chosen(data.passes, left_out=False))
    found: list[float] = []
    best = torch.zeros(len(held.given), dtype=torch.float64)
    most = MOST_ROUNDS if data.stride == 1 else FEW_ROUNDS
    for each in _rounds(others, most, noise):
        values = _likelihoods(each, held)
        found.append(mean_and_error(values, data.total)[0])
        if found[-1] == max(found):
            best = values
        if len(found) - found.index(max(found)) > PATIENCE:
            break
    return _Trial(noise, tuple(found), best)


def _likelihoods(last: Round, held: Sample) -> Tensor:
    """The log-likelihood (M,) of each left-out label after a round."""
    classes, found = len(last.tilt), [torch.zeros(0, dtype=torch.float64)]
    for directions, given in zip(
        in_parts(held.directions, classes), in_parts(held.given, classes), strict=True
    ):
        nothing = torch.zeros(len(given), classes)  # no row of these is in the prototypes
        joint = last.read(directions, nothing) + last.log_noise(given)
        found.append(joint.logsumexp(1).double())
    return torch.cat(found)


def _left_out(data: DataRows) -> Sample:
    """The left-out rows of the sample."""
    return replace(data, passes=lambda: _chosen(data.passes, left_out=True)).first_pass()[1]


def _chosen(passes: Passes, *, left_out: bool) -> Iterator[tuple[Tensor, Tensor]]:
    for places, features in passes():
        chosen = _is_left_out(features) == left_out
        yield places[chosen], features[chosen]


def _is_left_out(features: Tensor) -> Tensor:
    """(B,) bool for about one of ten rows, by their content: the same rows on any number of ranks."""
    numbers = features.float().contiguous().view(torch.int32).long()
    return content(numbers) % LEFT_OUT == 0
