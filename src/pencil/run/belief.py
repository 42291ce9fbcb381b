"""The belief about all labels of a run: features of every rank are gathered, and the main rank finds it.

Of very many rows it is found from some of them, and every rank reads the rest of its own rows by it.

Legend: N rows of all ranks, n rows of this rank, D features, C classes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, replace
from typing import NamedTuple

import torch
from torch import Tensor

from pencil.belief import Belief, Checks, NoiseSums, Reader, alarms_of, believe_and_read, found_from
from pencil.engine import Training
from pencil.estimates import NoiseEstimate, Passes
from pencil.stores.given import UNKNOWN

Take = Callable[[Tensor, Tensor], None]
"""Receives the numbers (B,) of rows of this rank, and the probability (B, C) of each of their classes."""


class Believed(NamedTuple):
    """What is believed about the rows of this rank, besides the probabilities of their classes.

    Attributes:
        likeliest: (n,) the class that is right most often.
        noise: The noise of all rows.
        checks: What may be claimed of it.
    """

    likeliest: Tensor
    noise: NoiseEstimate
    checks: Checks


class _Labels(NamedTuple):
    """The labels of rows: given classes, which are verified, and the classes of before people said what rows are."""

    given: Tensor
    sure: Tensor
    before: Tensor

    def take(self, places: Tensor) -> _Labels:
        return _Labels(*(each[places] for each in self))


def believed(training: Training, passes: Passes, take: Take) -> Believed:
    """Find the belief from the features of this rank's rows. Every rank takes part."""
    job, given, classes = training, training.learner.given, training.learner.num_classes
    known = torch.full_like(given.hard, UNKNOWN) if given.before is None else given.before
    mine = _Labels(given.hard, ~given.unverified, known)
    all_ = _Labels(*(_of_all(training, each).long() for each in mine))
    all_ = all_._replace(sure=all_.sure.bool())
    width = _width(training, passes)
    some = found_from(len(all_.given), width, classes)
    place_of = torch.full((len(all_.given),), UNKNOWN).index_copy(0, some, torch.arange(len(some)))
    features = torch.zeros(len(some), width)
    for places, rows in passes():
        at = place_of[job.indices[places]]
        features[at[at != UNKNOWN]] = rows[at != UNKNOWN].float()
    features = job.runtime.total(features)
    found, reader = _found(training, features, all_.take(some), reads=len(some) < len(all_.given))
    sums, likeliest = NoiseSums(classes), torch.zeros_like(mine.given)
    for places, rows in passes():
        posterior, best = _read(found, reader, place_of[job.indices[places]], rows, mine.take(places))
        take(places, posterior[:, :-1])
        likeliest[places] = best
        answered = mine.before[places] != UNKNOWN
        labels = mine.given[places]
        posterior[answered] = torch.nn.functional.one_hot(labels[answered], classes + 1).float()
        sums.add(posterior[:, :-1], labels)
    wrong = _of_all(training, sums.wrong).float()  # passes yield rows in order
    noise = sums.of_all(all_.given, wrong, job.runtime.total).noise(found.checks)
    alarms = alarms_of(found.posterior, found.given, found.checks)
    return Believed(likeliest, replace(noise, alarms=alarms), found.checks)


def _read(
    found: Belief, reader: Reader | None, places: Tensor, features: Tensor, labels: _Labels
) -> tuple[Tensor, Tensor]:
    """The posterior (B, C + 1) and the likeliest class (B,) of rows, by their places (B,) among those of the belief."""
    inside = places.clamp_min(0)
    if reader is None:
        return found.posterior[inside], found.likeliest[inside]
    answered = labels.before != UNKNOWN
    given = torch.where(answered, labels.before, labels.given)
    other = reader(features.float(), given, labels.sure & ~answered)
    is_found = places != UNKNOWN
    posterior = torch.where(is_found[:, None], found.posterior[inside], other.posterior)
    likeliest = torch.where(is_found, found.likeliest[inside], other.likeliest)
    return posterior, torch.where(labels.sure, labels.given, likeliest)


def _found(
    training: Training, features: Tensor, labels: _Labels, *, reads: bool
) -> tuple[Belief, Reader | None]:
    """The belief about these rows as the main rank finds it, and what reads others, if there are others."""
    classes, runtime = training.learner.num_classes, training.runtime
    posterior, flags = torch.zeros(len(features), classes + 1), torch.zeros(5, dtype=torch.float64)
    likeliest, reader = torch.zeros(len(features), dtype=torch.float64), None
    if runtime.is_main or reads:
        with torch.no_grad():
            belief, reader = believe_and_read(features, labels.given, classes, labels.sure, labels.before)
        if runtime.is_main:
            posterior, likeliest = belief.posterior, belief.likeliest.double()
            flags = torch.tensor(astuple(belief.checks), dtype=torch.float64)
    posterior, likeliest = runtime.total(posterior), runtime.total(likeliest).long()
    *passed, doubt = runtime.total(flags).tolist()
    checks = replace(Checks(*map(bool, passed)), doubt=doubt)
    given = torch.where(labels.before != UNKNOWN, labels.before, labels.given)
    return Belief(given, posterior, likeliest, checks), reader if reads else None


def _of_all(training: Training, mine: Tensor) -> Tensor:
    """Numbers (N,) of all rows, from those of this rank's."""
    whole = torch.zeros(training.sampler.num_rows, dtype=torch.float64)
    whole[training.indices] = mine.double()
    return training.runtime.total(whole)


def _width(training: Training, passes: Passes) -> int:
    """D; a rank may have no rows."""
    mine = next((torch.tensor([rows.shape[1], 1.0]) for _, rows in passes()), torch.zeros(2)).double()
    width, ranks = training.runtime.total(mine).tolist()
    return int(width / max(ranks, 1))
