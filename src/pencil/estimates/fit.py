"""Fit the posterior over true classes: whitened prototypes, leave-one-out, and Bayes' rule.

1. Whitened directions of the rows (``whitening``), two passes.
2. Prototypes of the given classes, and each row's similarity to them without itself (``prototypes``), one pass.
3. The map from similarities to probabilities f and the noise rate, by the likelihood of the given labels on a sample of
   rows that does not grow with the data (``likelihood``).
4. q_c ∝ f_c P(given | c); p_wrong = 1 − q_given; the suggestion is argmax q and is right with probability q.
5. Sums of q over all rows are the estimates, with intervals (``noise``).

Legend: N rows of all ranks, B rows of a batch, D features, C classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from pencil.estimates.likelihood import CELLS, Evidence, Map, fit_map, log_noise, read_out
from pencil.estimates.noise import NoiseEstimate, Tally
from pencil.estimates.prototypes import Prototypes
from pencil.estimates.whitening import Passes, Total, Whitening, fit_whitening

SAMPLED = 10_000
"""Rows of all ranks that the likelihood is fitted on."""
SAMPLED_CELLS = 2**25
"""Most similarities (rows times classes) that are held."""


@dataclass(frozen=True)
class Fitted:
    """The fitted posterior, equal on all ranks.

    Attributes:
        whitening: From features to directions.
        prototypes: Of the classes.
        map: From similarities to probabilities, and the noise rate.
        noise: The estimated noise.
    """

    whitening: Whitening
    prototypes: Prototypes
    map: Map
    noise: NoiseEstimate

    def posterior(self, features: Tensor, given: Tensor) -> Tensor:
        """The probability (B, C) that each class is the true one of rows that were fitted, float32."""
        return _posterior(self.whitening, self.prototypes, self.map, features, given)


def fit(
    passes: Passes,
    given: Tensor,
    num_classes: int,
    *,
    trusted: Tensor | None = None,
    total: Total = lambda values: values,
) -> Fitted:
    """Fit on all rows in four passes.

    Args:
        passes: Makes one pass over this rank's rows.
        given: (N,) their given classes.
        num_classes: C.
        trusted: (N,) bool, rows whose given label was verified.
        total: The sum of a tensor over all ranks.
    """
    sure = torch.zeros(len(given), dtype=torch.bool) if trusted is None else trusted
    whitening, rows = fit_whitening(passes, total)
    prototypes, held = _prototypes(passes, given, num_classes, whitening, rows, total)
    places, directions = held
    evidence = Evidence(
        _similarities(prototypes, directions, given[places]), given[places], sure[places], prototypes.prior
    )
    found = fit_map(evidence, total, rows)
    tally = Tally(num_classes)
    for at, features in passes():
        for part, some in zip(_parts(at, num_classes), _parts(features, num_classes), strict=True):
            tally.add(_posterior(whitening, prototypes, found, some, given[part]), given[part], sure[part])
    return Fitted(whitening, prototypes, found, tally.noise(found, total))


def _prototypes(
    passes: Passes, given: Tensor, num_classes: int, whitening: Whitening, rows: int, total: Total
) -> tuple[Prototypes, tuple[Tensor, Tensor]]:
    """Prototypes of the given classes, and places (M,) and directions (M, R) of the sample."""
    sums = torch.zeros(num_classes, len(whitening.mean), dtype=torch.float64)
    stride = max(1, -(-rows // max(1, min(SAMPLED, SAMPLED_CELLS // num_classes))))
    held: list[tuple[Tensor, Tensor]] = [
        (torch.zeros(0, dtype=torch.long), torch.zeros(0, len(whitening.mean)))
    ]
    for places, features in passes():
        directions = whitening(features)
        sums.index_add_(0, given[places], directions.double())
        chosen = places % stride == 0
        held.append((places[chosen], directions[chosen]))
    counts = total(given.bincount(minlength=num_classes).double())
    places, directions = (torch.cat(each) for each in zip(*held, strict=True))
    return Prototypes.of(total(sums), counts), (places, directions)


def _posterior(
    whitening: Whitening, prototypes: Prototypes, found: Map, features: Tensor, given: Tensor
) -> Tensor:
    classes, rate = len(prototypes.prior), torch.tensor(found.rate)
    parts = []
    for some, labels in zip(_parts(features, classes), _parts(given, classes), strict=True):
        similar = _similarities(prototypes, whitening(some), labels)
        read = read_out(similar, prototypes.prior, torch.tensor(found.weights))
        parts.append((read + log_noise(labels, classes, rate, None)).softmax(1))
    return torch.cat(parts) if parts else torch.zeros(0, classes)


def _similarities(prototypes: Prototypes, directions: Tensor, given: Tensor) -> Tensor:
    own = torch.nn.functional.one_hot(given, len(prototypes.prior)).float()
    return prototypes.similarities(directions, own)


def _parts(values: Tensor, classes: int) -> Iterator[Tensor]:
    """Rows in parts whose probabilities take limited memory."""
    return iter(values.split(max(1, CELLS // classes)))
