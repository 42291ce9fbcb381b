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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pencil.algorithm import Moment, Pencil, Phase, flip_certificates, moment_at, total_epochs
from pencil.errors import DataError, FlipWarning
from pencil.methods import Method
from pencil.stores import DenseStore, GivenLabels, RowStore

CHUNK = 65536  # rows handled at once where all of them are visited


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
    values: Tensor


class LabelLearner:
    """Learns labels beside any network.

    Args:
        method: What turns logits and label rows into a loss and new rows.
        labels: ŷ: class indices (N,), soft labels or votes (N, C), or ``GivenLabels``.
        phases: The plan of the run; see ``three_phases``.
        num_classes: C, where the labels do not tell.
        trusted: (N,) bool, rows whose given label is right and stays.
        store: Where rows live; dense in memory by default.
    """

    def __init__(
        self,
        method: Method,
        labels: GivenLabels | Tensor,
        phases: Sequence[Phase],
        *,
        num_classes: int | None = None,
        trusted: Tensor | None = None,
        store: RowStore | None = None,
    ) -> None:
        given = labels if isinstance(labels, GivenLabels) else GivenLabels.of(labels, num_classes, trusted)
        self.method = method
        self.given = given
        self.phases = tuple(phases)
        self.num_classes = given.num_classes
        self.store = store or DenseStore(len(given), method.row_width(self.num_classes))
        self.epoch: float = 0.0
        self._visits: list[_Visit] = []
        self._start_rows()
        if given.values.dim() == 1:
            _warn_where_no_label_can_flip(method, self.phases)

    @property
    def moment(self) -> Moment:
        """The phase training is in, and how far."""
        return moment_at(self.phases, self.epoch)

    @property
    def learning_rate(self) -> float:
        """The network's learning rate now, from the phase's schedule."""
        return self.moment.learning_rate

    def epochs(self, start: int = 0) -> Iterator[int]:
        """Every epoch of the plan, setting the clock as it goes."""
        for epoch in range(start, total_epochs(self.phases)):
            self.epoch = float(epoch)
            yield epoch

    def loss(self, logits: Tensor, rows: Tensor, *, reduction: str = "mean") -> Tensor:
        """The loss of a batch; its label update waits for ``step``.

        May be called several times before a step (gradient accumulation). Labels never depend on how the loss is
        scaled or split afterwards.

        Args:
            logits: (B, C), the network's output with its graph; half precision is welcome.
            rows: (B,) row numbers, each at most once between two steps.
            reduction: ``mean`` over the batch, or ``none`` for one value per example (B,).
        """
        if reduction not in ("mean", "none"):
            raise ValueError(f"reduction: {reduction!r} is unknown; use 'mean' or 'none'")
        rows = rows.cpu()
        step = self.method.step(
            logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits,
            self.store.gather(rows).to(logits.device),
            self.given.values[rows].to(logits.device),
            self.moment,
        )
        if step.rows is not None:
            self._visits.append(self._unlocked(_Visit(rows, step.rows.detach())))
        return step.loss.mean() if reduction == "mean" else step.loss

    def step(self) -> Written:
        """Write the label updates of the losses since the last step."""
        _refuse_repeated_rows(self._visits)
        for visit in self._visits:
            self.store.scatter(visit.rows, visit.values)
        moved = sum(len(visit.rows) for visit in self._visits)
        changed = sum(self._changed(visit) for visit in self._visits)
        self._visits.clear()
        return Written(moved, changed)

    def label_distribution(self, rows: Tensor) -> Tensor:
        """y^d (B, C) of some rows."""
        return self.method.label_distribution(
            self.store.gather(rows), self.given.values[rows], self.num_classes
        )

    def labels(self, rows: Tensor | None = None) -> LearnedLabels:
        """What the run believes now, for some rows or for all."""
        wanted = torch.arange(len(self.given)) if rows is None else rows
        best = [self.label_distribution(chunk).max(dim=1) for chunk in wanted.split(CHUNK)]
        return LearnedLabels(
            given=self.given.subset(wanted).hard,
            suggested=torch.cat([each.indices for each in best]).cpu(),
            confidence=torch.cat([each.values for each in best]).cpu(),
        )

    def _start_rows(self) -> None:
        if self.store.num_rows != len(self.given):
            raise DataError(f"the store has {self.store.num_rows} rows for {len(self.given)} labels")
        for rows in torch.arange(len(self.given)).split(CHUNK):
            self.store.scatter(rows, self.method.start_rows(self.given.values[rows], self.num_classes))

    def _unlocked(self, visit: _Visit) -> _Visit:
        """Without the trusted rows, which never move."""
        if self.given.trusted is None:
            return visit
        free = ~self.given.trusted[visit.rows]
        return _Visit(visit.rows[free], visit.values[free.to(visit.values.device)])

    def _changed(self, visit: _Visit) -> int:
        given = self.given.values[visit.rows].to(visit.values.device)
        believed = self.method.label_distribution(visit.values, given, self.num_classes).argmax(dim=1)
        return int((believed != (given if given.dim() == 1 else given.argmax(dim=1))).sum())


def _refuse_repeated_rows(visits: Sequence[_Visit]) -> None:
    """A row written twice would keep only one of its updates."""
    rows = torch.cat([visit.rows for visit in visits]) if visits else torch.empty(0)
    if rows.unique().numel() != rows.numel():
        raise DataError("a row appears twice between two steps; draw batches without replacement")


def _warn_where_no_label_can_flip(method: Method, phases: Sequence[Phase]) -> None:
    if isinstance(method, Pencil):
        for certificate in flip_certificates(method, phases):
            warnings.warn(certificate, FlipWarning, stacklevel=3)
