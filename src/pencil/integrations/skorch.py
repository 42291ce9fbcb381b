"""Labels learned inside skorch (extra ``skorch``): its classifier with a learner in place of the criterion.

    net = LabelNet(Net, Pencil(), phases, lr=0.05, iterator_train__shuffle=True)   # Net returns logits
    net.fit(X, noisy_labels)
    net.predict(new_X), net.learner_.labels()

The phases set how many epochs ``fit`` trains and the learning rate. skorch treats the labels as one more module:
``save_params``, ``load_params`` and Checkpoint take ``f_labels``, and ``partial_fit`` continues from a checkpoint, with
the same rows and labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, Subset

from pencil.algorithm import Phase, total_epochs
from pencil.engine import LabelLearner
from pencil.errors import DataError
from pencil.imports import need
from pencil.integrations.beside import (
    label_state,
    load_label_state,
    require_fit,
    set_clock,
    set_rates,
    survey_rows,
)
from pencil.methods import Method
from pencil.stores import GivenLabels

skorch = need("skorch", extra="skorch", purpose="learn labels in skorch")
NeuralNetClassifier: Any = skorch.NeuralNetClassifier


class LabelNet(NeuralNetClassifier):  # type: ignore[misc]  # a base that mypy does not see
    """skorch's ``NeuralNetClassifier``, whose training loss is a method's; validation and scores are skorch's own.

    Args:
        module: The network, in any form that skorch accepts; it returns logits (B, C).
        method: What learns the labels, such as ``Pencil()``.
        phases: The plan; it replaces ``max_epochs`` and, with ``phase_rate``, ``lr``.
        num_classes: C, if the labels do not show it.
        phase_rate: Whether the phases set the learning rate; if not, ``lr`` does.
        criterion: The loss for validation; it receives logits.
        train_split: As in skorch, but None by default: every row learns its label. Rows held out keep theirs.
        **rest: As in skorch.

    Attributes:
        learner_: The ``LabelLearner``; its rows are those of ``X``.
    """

    def __init__(
        self,
        module: Any,
        method: Method,
        phases: Sequence[Phase],
        *,
        num_classes: int | None = None,
        phase_rate: bool = True,
        criterion: Any = nn.CrossEntropyLoss,
        train_split: Any = None,
        **rest: Any,
    ) -> None:
        super().__init__(module, criterion=criterion, train_split=train_split, **rest)
        self.method = method
        self.phases = phases
        self.num_classes = num_classes
        self.phase_rate = phase_rate

    @property
    def learner_(self) -> LabelLearner:
        """The learner, which ``fit`` makes from the labels."""
        learner = self.labels_.learner
        if learner is None:
            raise DataError("learner_: is made by fit; call fit first")
        return learner

    def initialize_module(self) -> LabelNet:
        """The network, and beside it the labels, which skorch saves and loads as one more module."""
        super().initialize_module()
        self.labels_ = Labels()
        return self

    def fit_loop(self, X: Any, y: Any = None, epochs: int | None = None, **fit_params: Any) -> LabelNet:
        """Train what is left of the plan, or ``epochs``."""
        if y is None:
            raise DataError("y: is None; give the noisy labels (N,), also where X is a Dataset")
        _require_labels(X, y)
        self._begin(y)
        require_fit(self.learner_, X, epochs=None, processes=1)
        self._all_inputs = X
        left = max(total_epochs(self.phases) - len(self.history), 0)
        super().fit_loop(X, y, left if epochs is None else epochs, **fit_params)
        return self

    def get_split_datasets(self, X: Any, y: Any = None, **fit_params: Any) -> tuple[Any, Any]:
        """skorch's; a training item also has its row number."""
        train, valid = super().get_split_datasets(X, y, **fit_params)
        return WithIndices(train, X), valid

    def run_single_epoch(
        self, iterator: Any, training: bool, prefix: str, step_fn: Any, **fit_params: Any
    ) -> None:
        """skorch's; in training it first sets the learner's clock."""
        batches = self._timed(iterator) if training else iterator
        super().run_single_epoch(batches, training, prefix, step_fn, **fit_params)

    def get_loss(self, y_pred: Any, y_true: Any, X: Any = None, training: bool = False) -> Tensor:
        """The learner's loss in training."""
        if training:
            return self.learner_.loss(y_pred, self._indices)
        loss: Tensor = super().get_loss(y_pred, y_true, X=X, training=training)
        return loss

    def train_step(self, batch: Any, **fit_params: Any) -> dict[str, Any]:
        """An optimiser step, then the labels."""
        step: dict[str, Any] = super().train_step(batch, **fit_params)
        self.learner_.step()
        return step

    def _begin(self, y: Any) -> None:
        given, learner = torch.as_tensor(np.asarray(y)), self.labels_.learner
        if learner is None:
            self.labels_.begin(LabelLearner(self.method, given, self.phases, num_classes=self.num_classes))
        else:
            _require_same(learner.given.values, GivenLabels.of(given).values)

    def _timed(self, iterator: Any) -> Iterator[Any]:
        """(inputs, labels) as skorch expects them; sets the learner's clock before each."""
        learner = self.learner_
        epoch = len(self.history) - 1  # on_epoch_begin has opened this one's
        set_clock(learner, epoch)
        survey_rows(learner, self.module_, self.infer, self._survey)
        for done, (inputs, labels, indices) in enumerate(iterator):
            set_clock(learner, epoch, done, len(iterator))
            if self.phase_rate:
                set_rates([self.optimizer_], learner.learning_rate)
            self._indices = indices
            yield inputs, labels

    def _survey(self) -> Iterator[tuple[Any, Tensor]]:
        """All rows, as skorch shows them for predictions."""
        start = 0
        for batch in self.get_iterator(self.get_dataset(self._all_inputs), training=False):
            inputs, _ = skorch.dataset.unpack_data(batch)
            count = skorch.dataset.get_len(inputs)
            yield inputs, torch.arange(start, start + count)
            start += count


class Labels(nn.Module):
    """A learner's state in the form of a module. A state loaded before ``fit`` is kept until the labels arrive."""

    def __init__(self) -> None:
        super().__init__()
        self.learner: LabelLearner | None = None
        self._waiting: dict[str, Tensor] = {}

    def begin(self, learner: LabelLearner) -> None:
        """Set the learner, with the state that was loaded before."""
        if self._waiting:
            load_label_state(learner, self._waiting)
        self.learner, self._waiting = learner, {}

    def state_dict(self, *args: Any, **rest: Any) -> dict[str, Tensor]:  # type: ignore[override]  # labels, no weights
        """The learner's state."""
        return self._waiting if self.learner is None else label_state(self.learner)

    def load_state_dict(self, state_dict: Any, *args: Any, **rest: Any) -> None:
        """Load the learner's state, now or when the learner is made."""
        if self.learner is None:
            self._waiting = dict(state_dict)
        else:
            load_label_state(self.learner, state_dict)


class WithIndices(Dataset[Any]):
    """Items (inputs, label, index), where the index is the row number in ``whole``, also of a subset of it."""

    def __init__(self, items: Any, whole: Any) -> None:
        self.items = items
        self.indices = _rows(items, whole)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> tuple[Any, Any, int]:
        inputs, label = self.items[index]
        return inputs, label, int(self.indices[index])


def _rows(items: Any, whole: Any) -> Any:
    """The row numbers in ``whole``, which may be a subset of something larger itself: then its own rows count."""
    if items is whole or not isinstance(items, Subset):
        return range(len(items))
    return np.asarray(_rows(items.dataset, whole))[np.asarray(items.indices, dtype=np.int64)]


def _require_labels(X: Any, y: Any) -> None:
    """Refuse a data set with another number of rows than labels; skorch itself checks arrays."""
    if skorch.utils.is_dataset(X) and len(X) != len(y):
        raise DataError(
            f"y: has {len(y):,} labels, X {len(X):,} rows; give the label of each row of X, in its order"
        )


def _require_same(before: Tensor, now: Tensor) -> None:
    """Refuse other labels than those that the learner began with: it would go on with its own."""
    if before.shape == now.shape and torch.equal(before, now):
        return
    if before.shape == now.shape:
        row = int((before != now).reshape(len(now), -1).any(dim=1).nonzero()[0])
        found = f"row {row} was {before[row].tolist()} and is {now[row].tolist()}"
    else:
        found = f"they had the shape {tuple(before.shape)} and have {tuple(now.shape)}"
    raise DataError(
        f"y: not the labels that this net has begun with ({found}); continue with the same rows and labels, or begin "
        "anew: fit with warm_start=False"
    )
