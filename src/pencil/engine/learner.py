"""A method, its label rows and its clock in one object, for any training loop.

The engine's loop uses exactly this object, and so can your own:

    learner = LabelLearner(Pencil(), noisy_labels, phases)      # 1
    for epoch in learner.epochs():                              # 2
        optimizer.param_groups[0]["lr"] = learner.learning_rate
        for images, indices in loader:
            loss = learner.loss(model(images), indices)         # 3
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
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
    Guess,
    Method,
    Mixing,
    Moment,
    Phase,
    Rows,
    Survey,
    TopRows,
    as_distribution,
    moment_at,
    total_epochs,
)
from pencil.engine.finite import is_finite
from pencil.engine.learned import LabelChanges, LearnedLabels
from pencil.engine.learner_checks import (
    FiniteWriter,
    Reminders,
    refuse_calibrated,
    refuse_repeated,
    require_finite,
    require_shapes,
)
from pencil.engine.learner_rows import fitting_method, rows_of_learner, start_store
from pencil.errors import DataError, NotFiniteError, PlanWarning
from pencil.stores import Flags, GivenLabels, Labels, RowStore, StoreChoice

Look = Callable[[], Iterator[tuple[Tensor, Tensor]]]
"""One pass over this rank's examples without training: (indices (B,), predictions (B, C)) on the CPU.

Of a model of N networks the predictions are (B, N, C)."""


@dataclass(frozen=True)
class _Visit:
    """Rows that wait for ``step`` to be written."""

    indices: Tensor
    rows: Rows


class LabelLearner:
    """Learns labels while any network trains.

    Args:
        method: What turns logits and label rows into a loss and new rows.
        labels: ŷ: classes (N,), soft labels or votes (N, C), or ``GivenLabels``.
        phases: The plan of the run; see ``three_phases``.
        num_classes: C, where it is not the largest class plus 1.
        trusted: (N,) bool, rows whose given label is right and stays.
        store: Where rows live: ``dense``, ``dense:mapped``, ``top:8``, ``top:8:mapped`` (see ``stores.choice``), or a
            store of your own.
        folder: Where a mapped store keeps its file; the system's temporary folder by default.
        start: (N, C) probabilities that the method starts from in place of the given labels; see ``start_from``.
    """

    def __init__(
        self,
        method: Method,
        labels: GivenLabels | Labels,
        phases: Sequence[Phase],
        *,
        num_classes: int | None = None,
        trusted: Flags | None = None,
        store: RowStore[Any] | str = "dense",
        folder: Path | None = None,
        start: Tensor | None = None,
    ) -> None:
        given = labels if isinstance(labels, GivenLabels) else GivenLabels.of(labels, num_classes, trusted)
        self.method = method
        self.given = given
        self._start: RowStore[Any] | None = None
        self.phases = tuple(phases)
        self.num_classes = given.num_classes
        if isinstance(store, str):
            width, choice = method.row_width(self.num_classes), StoreChoice.parse(store)
            self.method = fitting_method(method, choice, self.num_classes)
            store = choice.make(len(given), width, folder)
        self.store: RowStore[Any] = store
        self._mixing = method.mixing()
        self.shared = method.start_shared(self.num_classes)
        # Called with the indices of rows that are about to be written.
        self.before_write: Callable[[Tensor], None] | None = None
        self.epoch: float = 0.0
        self._visits: list[_Visit] = []
        self._reminders = Reminders(len(given))
        if start is None:
            self._start_rows()
        else:
            self.start_from(start_store(start, (len(given), self.num_classes)))
        for warning in method.warnings(self.phases, hard=start is None and given.values.dim() == 1):
            warnings.warn(warning, PlanWarning, stacklevel=2)

    def start_from(self, start: RowStore[Any] | None, *, rows: bool = True) -> None:
        """Let the method learn from these probabilities (N, C) in place of the given labels; None for the given ones.

        Trusted rows keep the given ones. What a run reports as changed still differs from the given label.

        Args:
            start: The probability of each class, whole or cut; it must not change afterwards.
            rows: Whether the label rows begin anew. False if they are those of a run that began with this start.
        """
        if start is not None and start.num_rows != len(self.given):
            raise DataError(f"start: {start.num_rows} rows for {len(self.given)} labels; give one for each")
        self._start = start
        if rows:
            self._start_rows()

    @property
    def has_start(self) -> bool:
        """Whether the method learns from other labels than the given ones."""
        return self._start is not None

    def learned_from(self, indices: Tensor) -> Tensor:
        """What the method receives as the labels of some rows: classes (B,) or probabilities (B, C)."""
        if self._start is None:
            return self.given.values[indices]
        found = self._start.gather(indices)
        probabilities: Tensor = found.dense() if isinstance(found, TopRows) else found
        if self.given.trusted is None:
            return probabilities
        own = as_distribution(self.given.values[indices], self.num_classes)
        return torch.where(self.given.trusted[indices][:, None], own, probabilities)

    @property
    def moment(self) -> Moment:
        """The phase, how far training is in it, and what the method learned from all examples together."""
        return replace(moment_at(self.phases, self.epoch), shared=self.shared)

    @property
    def learning_rate(self) -> float:
        """The network's learning rate now, from the phase's schedule."""
        return self.moment.learning_rate

    def epochs(self, start: int = 0) -> Iterator[int]:
        """Every epoch of the plan; it sets ``epoch``, and with it the phase."""
        refuse_calibrated(self.phases)
        for epoch in range(start, total_epochs(self.phases)):
            self.epoch = float(epoch)
            self._reminders.begin_epoch()
            yield epoch
            self._reminders.end_epoch(epoch, waiting=bool(self._visits))

    def survey(self, look: Look, total: Callable[[Tensor], Tensor] = lambda values: values) -> None:
        """Before an epoch: let the method learn from all examples together, where it is due.

        Args:
            look: Passes over all rows without training: (indices (B,), predictions (B, C)) on the CPU. It is called
                only where the method asks for predictions.
            total: Sums a tensor over all ranks.
        """
        if not self.method.survey_due(self.moment):
            return
        writer = FiniteWriter(lambda indices, rows: self._write(self._unlocked(_Visit(indices, rows))))
        survey = Survey(
            num_classes=self.num_classes,
            predictions=lambda: ((indices, probs, self.learned_from(indices)) for indices, probs in look()),
            rows=self._table,
            write=writer.write,
            total=total,
        )
        shared = self.method.survey(survey, self.shared)
        writer.require_finite(total, self.method.name)
        for name, values in shared.items():  # equal on every rank
            if not is_finite(values):
                raise NotFiniteError(f"method {self.method.name}: {name}, found by its survey, is not finite")
        self.shared = shared

    @property
    def mixing(self) -> Mixing | None:
        """How to learn from mixed examples; None where the method does not at this moment."""
        return self._mixing if self._mixing is not None and self._mixing.mixes(self.moment) else None

    def guess(self, logits: Tensor, indices: Tensor) -> Guess:
        """The targets of a batch for a method that mixes, from logits (M, B, N, C) of its views."""
        assert self._mixing is not None
        return self._mixing.guess(*self._of_batch(logits, indices.cpu()))

    def loss(self, logits: Tensor, indices: Tensor, *, reduction: str = "mean", check: bool = True) -> Tensor:
        """The loss of a batch; its label update waits for ``step``.

        May be called several times before a step (gradient accumulation). Labels never depend on how the loss is
        scaled or split afterwards.

        Args:
            logits: (B, C), the network's output with its graph; half precision works too.
            indices: (B,), which rows these are, each at most once between two steps.
            reduction: ``mean`` over the batch, or ``none`` for one value per example (B,).
            check: Whether to raise ``NotFiniteError`` where losses or new label rows are not finite, so that neither
                the network nor the labels learn from them. The engine's loop, which must ask all ranks, does so itself.
        """
        if reduction not in ("mean", "none"):
            raise ValueError(f"reduction: {reduction!r} is unknown; use 'mean' or 'none'")
        indices = indices.cpu()
        step = self.method.step(*self._of_batch(logits, indices))
        require_shapes(step, len(indices), self.method.name)
        if check:
            require_finite(step, self.moment, self.epoch)
        if step.rows is not None:
            self._visits.append(self._unlocked(_Visit(indices, step.rows.detach())))
        self._reminders.count(len(indices), waits=step.rows is not None, epoch=self.epoch)
        return step.loss.mean() if reduction == "mean" else step.loss

    def waiting(self) -> Iterator[tuple[Tensor, Rows]]:
        """What ``step`` will write: indices and rows, a pair for each loss since the last step."""
        return ((visit.indices, visit.rows) for visit in self._visits)

    def step(self) -> LabelChanges:
        """Write the label updates of the losses since the last step."""
        self._reminders.step()
        refuse_repeated(visit.indices for visit in self._visits)
        for visit in self._visits:
            self._write(visit)
        moved = sum(len(visit.indices) for visit in self._visits)
        changed = sum(self._changed(visit) for visit in self._visits)
        self._visits.clear()
        return LabelChanges(moved, changed)

    def forget(self) -> None:
        """Drop the label updates that wait for ``step``."""
        self._visits.clear()

    def label_distribution(self, indices: Tensor) -> Tensor:
        """y^d (B, C) of some rows."""
        belief = self._belief(indices)
        return belief.dense() if isinstance(belief, TopRows) else belief

    def labels(self, indices: Tensor | None = None) -> LearnedLabels:
        """The labels that the run believes in now, of some rows or of all."""
        wanted = torch.arange(len(self.given)) if indices is None else indices
        given = self.given.subset(wanted).hard
        best, known = [], []
        for places in torch.arange(len(wanted)).split(self._chunk):
            belief, classes = self._belief(wanted[places]), given[places][:, None]
            best.append(belief.max(dim=1))
            known.append(belief.at(classes) if isinstance(belief, TopRows) else belief.gather(1, classes))
        return LearnedLabels(
            given=given,
            suggested=torch.cat([each.indices for each in best]).cpu(),
            confidence=torch.cat([each.values for each in best]).cpu(),
            p_wrong=1 - torch.cat(known)[:, 0].cpu(),
        )

    def _of_batch(self, logits: Tensor, indices: Tensor) -> tuple[Tensor, Any, Tensor, Moment]:
        """What a method receives for a batch, on the logits' device."""
        return (
            logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits,
            self.store.gather(indices).to(logits.device),
            self.learned_from(indices).to(logits.device),
            self.moment,
        )

    def _write(self, visit: _Visit) -> None:
        if self.before_write is not None:
            self.before_write(visit.indices)
        self.store.scatter(visit.indices, visit.rows)

    def _table(self) -> Iterator[tuple[Tensor, Any, Tensor]]:
        """All rows with their indices and the labels learned from, a bounded number at a time."""
        for indices in torch.arange(len(self.given)).split(self._chunk):
            yield indices, self.store.gather(indices), self.learned_from(indices)

    def _start_rows(self) -> None:
        if self.store.num_rows != len(self.given):
            raise DataError(f"the store has {self.store.num_rows} rows for {len(self.given)} labels")
        for start in range(0, len(self.given), self._chunk):
            indices = torch.arange(start, min(start + self._chunk, len(self.given)))
            first = self.method.start_rows(self.learned_from(indices), self.num_classes)
            self._write(_Visit(indices, first))

    @property
    def _chunk(self) -> int:
        return rows_of_learner(self.store, self.given, has_start=self.has_start)

    def _belief(self, indices: Tensor) -> Rows:
        belief: Rows = self.method.label_distribution(
            self.store.gather(indices), self.learned_from(indices), self.num_classes
        )
        return belief

    def _unlocked(self, visit: _Visit) -> _Visit:
        """Without the trusted rows, which never move."""
        if self.given.trusted is None:
            return visit
        free = ~self.given.trusted[visit.indices]
        return _Visit(visit.indices[free], visit.rows[free.to(visit.rows.device)])

    def _changed(self, visit: _Visit) -> int:
        device = visit.rows.device
        start = self.learned_from(visit.indices).to(device)
        believed = self.method.label_distribution(visit.rows, start, self.num_classes).max(dim=1).indices
        return int((believed != self.given.subset(visit.indices).hard.to(device)).sum())
