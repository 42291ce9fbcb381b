"""Labels learned beside a Lightning module (extra ``lightning``): a callback, and one line in ``training_step``.

    learner = LabelLearner(Pencil(), noisy_labels, phases)

    class Net(LightningModule):
        def training_step(self, batch, index):
            inputs, indices = batch                           # indices: the row numbers of these examples
            return learner.loss(self(inputs), indices)        # in place of the criterion

    Trainer(max_epochs=total_epochs(phases), callbacks=[LabelCallback(learner)]).fit(net, loader)
    learner.labels()

Lightning's checkpoints then hold the labels, and ``fit(..., ckpt_path=...)`` continues with them.
"""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from pencil.engine import LabelLearner
from pencil.imports import need
from pencil.integrations.beside import (
    Batches,
    label_state,
    load_label_state,
    require_fit,
    set_clock,
    set_rates,
    survey_rows,
)

Callback: Any = need(
    "lightning.pytorch", extra="lightning", purpose="learn labels in Lightning's Trainer"
).Callback


class LabelCallback(Callback):  # type: ignore[misc]  # a base that mypy does not see
    """Sets a learner's clock from Lightning's Trainer, writes its labels, and stores them in checkpoints.

    Args:
        learner: The labels.
        phase_rate: Whether the phases set the learning rate of every optimiser; if not, the module sets it.
        survey: Batches of (inputs, indices) with every row once, for methods that look at all rows together; the
            module is called with the inputs.
    """

    def __init__(
        self, learner: LabelLearner, *, phase_rate: bool = True, survey: Batches | None = None
    ) -> None:
        self.learner = learner
        self.phase_rate = phase_rate
        self.survey = survey
        self._steps = 0

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Check that trainer and learner agree."""
        epochs = trainer.max_epochs if trainer.max_epochs not in (None, -1) else None
        require_fit(self.learner, self.survey, epochs=epochs, processes=trainer.world_size)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Start counting at the step where training resumes."""
        self._steps = trainer.global_step

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Set the clock and the learning rate; before an epoch's first batch, survey all rows."""
        together = trainer.accumulate_grad_batches
        batches = trainer.num_training_batches
        steps = -(-int(batches) // together) if math.isfinite(batches) else 0
        done = batch_idx // together if steps else 0
        set_clock(self.learner, trainer.current_epoch, done, steps or 1)
        if not batch_idx:
            survey_rows(
                self.learner, pl_module, lambda inputs: _logits(trainer, inputs), lambda: self.survey or ()
            )
        if self.phase_rate:
            set_rates(trainer.optimizers, self.learner.learning_rate)

    def on_train_batch_end(self, trainer: Any, *args: Any) -> None:
        """Write the labels if the optimiser stepped; with accumulated gradients it does not after every batch."""
        if trainer.global_step != self._steps:
            self._steps = trainer.global_step
            self.learner.step()

    def state_dict(self) -> dict[str, Tensor]:
        """The labels, for a checkpoint."""
        return label_state(self.learner)

    def load_state_dict(self, state_dict: dict[str, Tensor]) -> None:
        """The labels, from a checkpoint."""
        load_label_state(self.learner, state_dict)


def _logits(trainer: Any, inputs: Any) -> Tensor:
    with trainer.precision_plugin.forward_context():
        logits: Tensor = trainer.lightning_module(trainer.strategy.batch_to_device(inputs))
    return logits
