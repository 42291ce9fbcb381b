"""Calibrated probabilities for every training row: which features they come from, and when they are computed.

Inputs that are vectors are features already: the posterior depends on data and given labels alone. It is computed
before training if alarms use it, otherwise when training ends. For other inputs, such as images, it is computed from
the network's features after a quarter of the backbone phase. Before that the features say little; later the network has
memorised the given labels, and its features would confirm them. If rows of the training data were held out, the
trained network's predictions, calibrated on them, replace it, unless the network has memorised its labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from pencil.algorithm import Phase, Rows, TopRows, backbone_epochs
from pencil.belief import Checks
from pencil.config import RunConfig
from pencil.engine import Training, held_out_scores
from pencil.estimates import Calibrated, NoiseEstimate, Passes, fit_held_out
from pencil.estimates.structure import MOST_CLASSES
from pencil.methods import Method
from pencil.results.estimates import Source
from pencil.run.belief import believed
from pencil.run.passes import (
    early_epoch,
    has_vectors,
    passes_over_features,
    passes_over_inputs,
    passes_over_scores,
)
from pencil.stores import RowStore, StoreChoice, rows_at_once
from pencil.stores.choice import USUAL_K

WHOLE = 1000  # classes up to which a method without rows gets whole rows of the posterior
ENOUGH = 200  # held-out rows that calibrate a network


@dataclass(frozen=True)
class Posterior:
    """The posterior of this rank's rows.

    Attributes:
        rows: (N, C) probabilities in a store, whole or cut.
        choice: The kind of store.
        noise: The noise of all rows, equal on all ranks.
        source: What the features were.
        checks: Whether labels may be replaced; None for a calibrated network. With them, trusted rows have the
            probabilities of before people said what they are.
        likeliest: (N,) the class that is right most often, which may not be the one with the largest probability; None
            if that is the one that the method learns.
    """

    rows: RowStore[Tensor] | RowStore[TopRows]
    choice: StoreChoice
    noise: NoiseEstimate
    source: Source
    checks: Checks | None = None
    likeliest: Tensor | None = None


class PosteriorOfTraining:
    """Computes the posterior of a training at the right moment. Every rank takes part.

    Args:
        training: The training, before its loop runs.
        choice: The store for the rows.
        folder: Where mapped files go; None for the system's folder of temporary files.
        take: Receives the posterior from the network's features; by default it is kept in memory.
        is_taken: Whether ``take`` has received one; every rank answers alike.
        phases: The plan that the run began with; by default the training's.
        held_out: Whether the validation rows were held out of the training data, so that their labels are as noisy.

    Attributes:
        epoch: The number of epochs after which the network's features are used.
        from_inputs: Whether the inputs are vectors, and the posterior comes from them.
        calibrates: Whether the trained network's predictions can be calibrated.
    """

    def __init__(
        self,
        training: Training,
        choice: StoreChoice,
        folder: Path | None = None,
        take: Callable[[Posterior], None] | None = None,
        is_taken: Callable[[], bool] | None = None,
        phases: Sequence[Phase] | None = None,
        *,
        held_out: bool = False,
    ) -> None:
        self._training, self._choice, self._folder = training, choice, folder
        self._take = take or self._keep
        self._is_taken = is_taken or (lambda: self._kept is not None)
        self._kept: Posterior | None = None
        self.epoch = early_epoch(training.learner.phases if phases is None else phases)
        self.from_inputs = has_vectors(training)
        self.calibrates = can_calibrate(training, held_out=held_out)
        if not self.from_inputs:
            training.after_epoch.append(self._after_epoch)

    def found(self) -> Posterior:
        """The posterior when training has ended."""
        if self.from_inputs:
            return posterior_of_inputs(self._training, self._choice, self._folder)
        return self._kept or self.of_network("last epoch")

    def of_network(self, source: Source) -> Posterior:
        """From the network's features as they are now."""
        return posterior_of_network(self._training, source, self._choice, self._folder)

    def calibrated(self) -> Posterior | None:
        """From the predictions of the trained network; None if that is not possible."""
        if not self.calibrates:
            return None
        job, given = self._training, self._training.learner.given
        passes = passes_over_scores(job, self._folder)
        fitted = fit_held_out(
            passes, given.hard, held_out_scores(job), trusted=given.trusted, total=job.runtime.total
        )
        if fitted.has_memorised:
            return None
        return _stored(job, passes, fitted, "held-out rows", self._choice, self._folder)

    def _after_epoch(self, epochs: int) -> None:
        # Correction after a restore may have this epoch too. Its features know other labels: an early posterior stays.
        in_backbone = epochs <= backbone_epochs(self._training.learner.phases)
        if epochs == self.epoch and (in_backbone or not self._is_taken()):
            self._take(self.of_network("early epoch"))

    def _keep(self, posterior: Posterior) -> None:
        self._kept = posterior


def can_calibrate(training: Training, *, held_out: bool) -> bool:
    """Whether there are held-out rows enough to calibrate the network's predictions; see ``PosteriorOfTraining``."""
    validation = training.validation if held_out else None
    rows = 0 if validation is None else int(validation.labels.unverified.sum())
    few_classes = training.learner.num_classes <= MOST_CLASSES
    return rows >= ENOUGH and few_classes and not has_vectors(training)


def posterior_of_inputs(training: Training, choice: StoreChoice, folder: Path | None = None) -> Posterior:
    """The posterior from the inputs themselves."""
    return _believed(training, passes_over_inputs(training), "inputs", choice, folder)


def posterior_of_network(
    training: Training, source: Source, choice: StoreChoice, folder: Path | None = None
) -> Posterior:
    """The posterior from the network's features as they are now."""
    found = _believed(training, passes_over_features(training, folder), source, choice, folder)
    return replace(
        found, likeliest=None
    )  # the labels that the network learns become better than those of its features


def _believed(
    training: Training, passes: Passes, source: Source, choice: StoreChoice, folder: Path | None
) -> Posterior:
    hard, classes = training.learner.given.hard, training.learner.num_classes
    rows = choice.make(len(hard), classes, folder)

    def take(places: Tensor, posterior: Tensor) -> None:
        for part, some in zip(
            places.split(rows_at_once(classes)), posterior.split(rows_at_once(classes)), strict=True
        ):
            rows.scatter(part, kept_rows(some, hard[part], choice))  # type: ignore[arg-type]  # of its kind

    belief = believed(training, passes, take)
    return Posterior(rows, choice, belief.noise, source, belief.checks, belief.likeliest)


def _stored(
    training: Training,
    passes: Passes,
    fitted: Calibrated,
    source: Source,
    choice: StoreChoice,
    folder: Path | None,
) -> Posterior:
    """The posterior of all rows in a store."""
    hard, classes = training.learner.given.hard, training.learner.num_classes
    rows = choice.make(len(hard), classes, folder)
    for places, features in passes():
        for part, some in zip(
            places.split(rows_at_once(classes)), features.split(rows_at_once(classes)), strict=True
        ):
            found = kept_rows(fitted.posterior(some, hard[part]), hard[part], choice)
            rows.scatter(part, found)  # type: ignore[arg-type]  # of the store's kind
    return Posterior(rows, choice, fitted.noise, source)


def kept_rows(whole: Tensor, given: Tensor, choice: StoreChoice) -> Rows:
    """Rows (B, C) as the store keeps them; a cut row always keeps the probability of the given class (B,)."""
    if choice.k is None or not choice.keeps_top(whole.shape[1]):
        return whole
    first = whole.scatter(1, given[:, None], 2.0).topk(choice.k, dim=1).indices
    values = whole.gather(1, first)
    left = (1 - values.sum(dim=1, keepdim=True)).clamp_min(0)
    return TopRows(first, values, left / (whole.shape[1] - choice.k), whole.shape[1])


def store_of_posterior(config: RunConfig, method: Method, num_classes: int) -> StoreChoice:
    """As the method's rows are kept, if they are as wide. If not, whole rows unless there are many classes."""
    if method.row_width(num_classes) >= num_classes:
        return StoreChoice.parse(config.store)
    return StoreChoice(None if num_classes <= WHOLE else USUAL_K, StoreChoice.parse(config.store).mapped)
