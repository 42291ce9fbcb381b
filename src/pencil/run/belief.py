"""One belief about all rows of a training whose inputs are vectors: found by the main rank, and shared with all.

N: rows of all ranks. D: features. C: classes.
"""

from __future__ import annotations

from dataclasses import astuple, replace
from typing import NamedTuple

import torch
from torch import Tensor

from pencil.belief import Checks, believe, noise_of
from pencil.engine import Training
from pencil.estimates import NoiseEstimate
from pencil.run.passes import passes_over_inputs
from pencil.stores.given import UNKNOWN

MOST_NUMBERS = 100_000_000
"""Features and probabilities of all rows that are gathered; with more of them, passes over the rows are made."""


def can_gather(training: Training) -> bool:
    """Whether all rows fit; every rank answers alike."""
    return training.sampler.num_rows * (_width(training) + training.learner.num_classes) <= MOST_NUMBERS


class Believed(NamedTuple):
    """What is believed about the rows of this rank.

    Attributes:
        posterior: (n, C) the probability of each class.
        likeliest: (n,) the class that is right most often.
        noise: The noise of all rows.
        checks: What may be claimed of it.
    """

    posterior: Tensor
    likeliest: Tensor
    noise: NoiseEstimate
    checks: Checks


def believed(training: Training) -> Believed:
    """The belief of this rank's rows. Every rank takes part."""
    job, given = training, training.learner.given
    features = torch.zeros(job.sampler.num_rows, _width(training))
    for places, some in passes_over_inputs(job)():
        features[job.indices[places]] = some.float()
    features = job.runtime.total(features)
    labels, sure = _of_all(training, given.hard), _of_all(training, ~given.unverified).bool()
    mine = torch.full_like(given.hard, UNKNOWN) if given.before is None else given.before
    before = _of_all(training, mine)
    posterior, likeliest, flags = _found(training, features, labels, sure, before)
    *passed, doubt = flags.tolist()
    checks = replace(Checks(*map(bool, passed)), doubt=doubt)
    mine, answered = posterior[job.indices, :-1], before != UNKNOWN
    posterior[answered] = torch.nn.functional.one_hot(labels[answered], posterior.shape[1]).float()
    return Believed(mine, likeliest[job.indices], noise_of(posterior, labels, checks), checks)


def _found(
    training: Training, features: Tensor, given: Tensor, sure: Tensor, before: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The posterior (N, C + 1), the likeliest class (N,) and the checks, which the main rank finds for all."""
    classes, runtime = training.learner.num_classes, training.runtime
    posterior, flags = torch.zeros(len(given), classes + 1), torch.zeros(5, dtype=torch.float64)
    likeliest = torch.zeros(len(given), dtype=torch.float64)
    if runtime.is_main:
        with torch.no_grad():
            belief = believe(features, given, classes, sure, before)
        posterior, likeliest = belief.posterior, belief.likeliest.double()
        flags = torch.tensor(astuple(belief.checks), dtype=torch.float64)
    return runtime.total(posterior), runtime.total(likeliest).long(), runtime.total(flags)


def _of_all(training: Training, mine: Tensor) -> Tensor:
    """Whole numbers (N,) of all rows, from those of this rank's."""
    whole = torch.zeros(training.sampler.num_rows, dtype=torch.float64)
    whole[training.indices] = mine.double()
    return training.runtime.total(whole).long()


def _width(training: Training) -> int:
    """D; a rank may have no rows."""
    inputs, has = training.train.inputs, len(training.train) > 0
    mine = [inputs.fetch(torch.tensor([0])).shape[1], 1] if has else [0, 0]
    width, ranks = training.runtime.total(torch.tensor(mine, dtype=torch.float64)).tolist()
    return int(width / max(ranks, 1))
