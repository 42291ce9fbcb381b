"""A method, its label rows and its clock in one object: what a training loop holds on to.

The engine's loop uses exactly this object, and so can anybody's own:

    learner = LabelLearner(Pencil(), noisy_labels, phases)      # 1
    for epoch in learner.epochs():                              # 2
        for images, rows in loader:
            loss = learner.loss(model(images), rows)            # 3
            loss.backward()
            optimizer.step()
            learner.step()                                      # 4
    labels = learner.labels()                                   # 5
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pencil.algorithm import (
    Moment,
    Pencil,
    Phase,
    Rows,
    Step,
    TopPencil,
    TopRows,
    flip_certificates,
    moment_at,
    total_epochs,
)
from pencil.engine.finite import entries, is_finite
from pencil.errors import ConfigError, DataError, FlipWarning, NotFiniteError
from pencil.methods import Guess, Look, Method, Mixing, RowSurveying, Surveying, Total
from pencil.stores import GivenLabels, RowStore, StoreChoice, rows_at_once


@dataclass(frozen=True)
class LearnedLabels:
    """What a run believes about some rows' labels.

    Attributes:
        given: (N,) int64, the class that came with the example.
        suggested: (N,) int64, the likeliest class now.
        confidence: (N,) float32, the probability of the suggested class.
    """

    given: Tensor
    suggested: Tensor
    confidence: Tensor


@dataclass(frozen=True)
class Written:
    """What a step wrote.

    Attributes:
        moved: Rows that were written.
        changed: How many of them now suggest another class than the given one.
    """

    moved: int = 0
    changed: int = 0


@dataclass(frozen=True)
class _Visit:
    """Rows that wait for ``step`` to be written."""

    rows: Tensor
    values: Rows


class LabelLearner:
    """Learns labels beside any network.

    Args:
        method: What turns logits and label rows into a loss and new rows.
        labels: ŷ: class indices (N,), soft labels or votes (N, C), or ``GivenLabels``.
        phases: The plan of the run; see ``three_phases``.
        num_classes: C, where the labels do not tell.
        trusted: (N,) bool, rows whose given label is right and stays.
        store: Where rows live: ``dense``, ``dense:mapped``, ``top:8``, ``top:8:mapped`` (see ``stores.choice``), or a
            store of your own.
        folder: Where a mapped store keeps its file; the system's place for temporary files by default.
    """

    def __init__(
        self,
        method: Method[Any],
        labels: GivenLabels | Tensor,
        phases: Sequence[Phase],
        *,
        num_classes: int | None = None,
        trusted: Tensor | None = None,
        store: RowStore[Any] | str = "dense",
        folder: Path | None = None,
    ) -> None:
        given = labels if isinstance(labels, GivenLabels) else GivenLabels.of(labels, num_classes, trusted)
        self.method = method
        self.given = given
        self.phases = tuple(phases)
        self.num_classes = given.num_classes
        if isinstance(store, str):
            width, choice = method.row_width(self.num_classes), StoreChoice.parse(store)
            self.method = fitting_method(method, choice, self.num_classes)
            store = choice.make(len(given), width, folder)
        self.store: RowStore[Any] = store
        self._mixing = (
            method if isinstance(method, Mixing) else None
        )  # asked in every step, and slow to find out
        self.shared = method.start_shared(self.num_classes) if isinstance(method, Surveying) else {}
        self.before_write: Callable[[Tensor], None] | None = None  # hears which rows are about to change
        self.epoch: float = 0.0
        self._visits: list[_Visit] = []
        self._start_rows()
        if given.values.dim() == 1:
            _warn_where_no_label_can_flip(method, self.phases)

    @property
    def moment(self) -> Moment:
        """The phase training is in, how far, and what the method knows of all examples together."""
        return replace(moment_at(self.phases, self.epoch), shared=self.shared)

    @property
    def learning_rate(self) -> float:
        """The network's learning rate now, from the phase's schedule."""
        return self.moment.learning_rate

    def epochs(self, start: int = 0) -> Iterator[int]:
        """Every epoch of the plan, setting the clock as it goes."""
        for epoch in range(start, total_epochs(self.phases)):
            self.epoch = float(epoch)
            yield epoch

    def survey(self, look: Look, total: Total = lambda values: values) -> None:
        """Before an epoch: lets a method that learns from all examples together look at them, where it is due.

        Args:
            look: Passes over all rows without training: (rows (B,), predictions (B, C)) on the CPU.
            total: Sums a tensor over all ranks.
        """
        if not isinstance(self.method, Surveying) or not self.method.survey_due(self.moment):
            return
        if isinstance(self.method, RowSurveying):
            self._survey_rows(self.method, look, total)
            look = self._look_at_rows
        shared = self.method.survey(look, total, self.shared)
        for name, values in shared.items():  # alike on every rank
            if not is_finite(values):
                raise NotFiniteError(f"method {self.method.name}: {name}, found by its survey, is not finite")
        self.shared = shared

    def _survey_rows(self, method: RowSurveying, look: Look, total: Total) -> None:
        """Write every row; those that are not finite are left as they were, and then all ranks raise."""
        bad = 0
        for rows, probs in look():
            values = method.surveyed_rows(probs, self.store.gather(rows), self.given.values[rows])
            if is_finite(values):
                self._write(self._unlocked(_Visit(rows, values)))
            else:
                bad += 1
        if total(torch.tensor([float(bad)]))[0]:
            raise NotFiniteError(
                f"method {self.method.name}: label rows, found by its survey, are not finite"
            )

    @property
    def mixing(self) -> Mixing | None:
        """The method, where it learns from mixed examples at this moment."""
        return self._mixing if self._mixing is not None and self._mixing.mixes(self.moment) else None

    def guess(self, logits: Tensor, rows: Tensor) -> Guess:
        """What a method that mixes shall learn from a batch, from logits (M, B, N, C) of its views."""
        assert self._mixing is not None
        return self._mixing.guess(*self._of_batch(logits, rows.cpu()))

    def loss(self, logits: Tensor, rows: Tensor, *, reduction: str = "mean", check: bool = True) -> Tensor:
        """The loss of a batch; its label update waits for ``step``.

        May be called several times before a step (gradient accumulation). Labels never depend on how the loss is
        scaled or split afterwards.

        Args:
            logits: (B, C), the network's output with its graph; half precision is welcome.
            rows: (B,) row numbers, each at most once between two steps.
            reduction: ``mean`` over the batch, or ``none`` for one value per example (B,).
            check: Whether to raise ``NotFiniteError`` where losses or new label rows are not finite, so that neither
                the network nor the labels learn from them. The engine's loop, which must ask all ranks, does so itself.
        """
        if reduction not in ("mean", "none"):
            raise ValueError(f"reduction: {reduction!r} is unknown; use 'mean' or 'none'")
        rows = rows.cpu()
        step = self.method.step(*self._of_batch(logits, rows))
        if check:
            self._require_finite(step)
        if step.rows is not None:
            self._visits.append(self._unlocked(_Visit(rows, step.rows.detach())))
        return step.loss.mean() if reduction == "mean" else step.loss

    def waiting(self) -> Iterator[tuple[Tensor, Rows]]:
        """The rows that ``step`` will write, with their new values: a pair for each loss since the last step."""
        return ((visit.rows, visit.values) for visit in self._visits)

    def step(self) -> Written:
        """Write the label updates of the losses since the last step."""
        _refuse_repeated_rows(self._visits)
        for visit in self._visits:
            self._write(visit)
        moved = sum(len(visit.rows) for visit in self._visits)
        changed = sum(self._changed(visit) for visit in self._visits)
        self._visits.clear()
        return Written(moved, changed)

    def label_distribution(self, rows: Tensor) -> Tensor:
        """y^d (B, C) of some rows."""
        belief = self._belief(rows)
        return belief.dense() if isinstance(belief, TopRows) else belief

    def labels(self, rows: Tensor | None = None) -> LearnedLabels:
        """What the run believes now, for some rows or for all."""
        wanted = torch.arange(len(self.given)) if rows is None else rows
        best = [self._belief(chunk).max(dim=1) for chunk in wanted.split(self._chunk)]
        return LearnedLabels(
            given=self.given.subset(wanted).hard,
            suggested=torch.cat([each.indices for each in best]).cpu(),
            confidence=torch.cat([each.values for each in best]).cpu(),
        )

    def _of_batch(self, logits: Tensor, rows: Tensor) -> tuple[Tensor, Any, Tensor, Moment]:
        """What a method is told of a batch, on the logits' device."""
        return (
            logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits,
            self.store.gather(rows).to(logits.device),
            self.given.values[rows].to(logits.device),
            self.moment,
        )

    def _require_finite(self, step: Step) -> None:
        found = {
            "losses": [step.loss.detach()],
            "new label rows": [] if step.rows is None else entries(step.rows),
        }
        for what, tensors in found.items():
            if not all(map(is_finite, tensors)):
                phase, rate = self.moment.phase.name, self.learning_rate
                raise NotFiniteError(
                    f"the {what} of a batch are not finite (epoch {self.epoch:.2f}, {phase} phase): mostly the "
                    f"learning rate is too large, {rate:g} by the plan, or an input is not finite"
                )

    def _write(self, visit: _Visit) -> None:
        if self.before_write is not None:
            self.before_write(visit.rows)
        self.store.scatter(visit.rows, visit.values)

    def _look_at_rows(self) -> Iterator[tuple[Tensor, Any]]:
        for rows in torch.arange(len(self.given)).split(self._chunk):
            yield rows, self.store.gather(rows)

    def _start_rows(self) -> None:
        if self.store.num_rows != len(self.given):
            raise DataError(f"the store has {self.store.num_rows} rows for {len(self.given)} labels")
        for start in range(0, len(self.given), self._chunk):
            rows = torch.arange(start, min(start + self._chunk, len(self.given)))
            self.store.scatter(rows, self.method.start_rows(self.given.values[rows], self.num_classes))

    @property
    def _chunk(self) -> int:
        return rows_at_once(self.store.row_width)

    def _belief(self, rows: Tensor) -> Rows:
        belief: Rows = self.method.label_distribution(
            self.store.gather(rows), self.given.values[rows], self.num_classes
        )
        return belief

    def _unlocked(self, visit: _Visit) -> _Visit:
        """Without the trusted rows, which never move."""
        if self.given.trusted is None:
            return visit
        free = ~self.given.trusted[visit.rows]
        return _Visit(visit.rows[free], visit.values[free.to(visit.values.device)])

    def _changed(self, visit: _Visit) -> int:
        given = self.given.values[visit.rows].to(visit.values.device)
        believed = self.method.label_distribution(visit.values, given, self.num_classes).max(dim=1).indices
        return int((believed != (given if given.dim() == 1 else given.argmax(dim=1))).sum())


def fitting_method(method: Method[Any], choice: StoreChoice, num_classes: int) -> Method[Any]:
    """The method for the kind of rows that a store keeps."""
    if not choice.keeps_top(method.row_width(num_classes)):
        return method
    if not isinstance(method, Pencil):
        raise ConfigError(
            f"store: '{choice}' cuts rows, which method {method.name!r} cannot use; set store to dense or dense:mapped"
        )
    assert choice.k is not None
    return TopPencil(method, choice.k)


def _refuse_repeated_rows(visits: Sequence[_Visit]) -> None:
    """A row written twice would keep only one of its updates."""
    rows = [row for visit in visits for row in visit.rows.tolist()]
    if len(set(rows)) != len(rows):
        raise DataError("a row appears twice between two steps; draw batches without replacement")


def _warn_where_no_label_can_flip(method: Method[Any], phases: Sequence[Phase]) -> None:
    if isinstance(method, Pencil):
        for certificate in flip_certificates(method, phases):
            warnings.warn(certificate, FlipWarning, stacklevel=3)
