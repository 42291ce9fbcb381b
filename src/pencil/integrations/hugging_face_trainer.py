"""Labels learned beside Hugging Face's Trainer (extra ``transformers``): a mixin, and a column ``index`` in the data.

    trainer = LabelTrainer(learner=learner, model=model, args=args, train_dataset=data)
    trainer.train()                                   # or train(resume_from_checkpoint=True)
    learner.labels()

A trainer of your own: ``class Mine(LabelMixin, MyTrainer)``.

Every training item has its row number under ``index``. Checkpoint folders hold the labels as safetensors.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from pencil.algorithm import moment_at
from pencil.engine import LabelLearner
from pencil.errors import DataError
from pencil.imports import need
from pencil.integrations.beside import (
    LABELS_FILE,
    Batches,
    load_label_file,
    require_fit,
    save_label_file,
    set_clock,
    survey_rows,
)

transformers = need("transformers", extra="transformers", purpose="learn labels in Hugging Face's Trainer")
INDEX = "index"


class PhaseRates(LRScheduler):
    """The learning rate of the phases at each optimiser step, for every group of parameters."""

    def __init__(self, optimizer: Optimizer, learner: LabelLearner, steps: int) -> None:
        self._plan = (learner.phases, steps)
        super().__init__(optimizer)

    def get_lr(self) -> list[float | Tensor]:
        """The rate at the next step."""
        phases, steps = self._plan
        epoch, done = divmod(self.last_epoch, steps)
        return [moment_at(phases, epoch + done / steps).learning_rate] * len(self.optimizer.param_groups)

    def state_dict(self) -> dict[str, Any]:
        """The step count; the phases are the learner's."""
        return {"last_epoch": self.last_epoch}


class LabelMixin:
    """Learns labels in a ``Trainer``; list it before ``Trainer`` among the bases of a class.

    Args:
        learner: The labels; its loss replaces the model's own in training.
        phase_rate: Whether the phases set the learning rate; if not, ``lr_scheduler_type`` does.
        survey: Batches of (inputs as a dict, indices) with every row once, for methods that look at all rows together.
    """

    def __init__(
        self,
        *args: Any,
        learner: LabelLearner,
        phase_rate: bool = True,
        survey: Batches | None = None,
        **rest: Any,
    ) -> None:
        self.learner = learner
        self.phase_rate = phase_rate
        self.survey = survey
        super().__init__(*args, **rest)
        # Ours is the mean of a batch: the Trainer must divide it by the steps that are accumulated.
        self.loss_is_scaled_for_ga = False
        self.model_accepts_loss_kwargs = False  # what decides in earlier versions of transformers
        self.add_callback(_Timer(self))  # type: ignore[attr-defined]  # here and below: Trainer's own

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, **rest: Any
    ) -> Any:
        """The learner's loss in training; the model's own in evaluation."""
        if not model.training:
            inputs = {name: value for name, value in inputs.items() if name != INDEX}
            return super().compute_loss(model, inputs, return_outputs, **rest)  # type: ignore[misc]
        if INDEX not in inputs:
            raise DataError(f"train_dataset: an item has no {INDEX!r}; add its row number under this name")
        known = {name: value for name, value in inputs.items() if name not in (INDEX, "labels")}
        outputs = model(**known)
        loss = self.learner.loss(_logits(outputs), inputs[INDEX])
        return (loss, outputs) if return_outputs else loss

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """The phases' rates with ``phase_rate``, else the Trainer's own scheduler."""
        if self.phase_rate:
            own: Any = self
            own.lr_scheduler = PhaseRates(optimizer or own.optimizer, self.learner, self.steps_per_epoch())
        return super().create_scheduler(num_training_steps, optimizer)  # type: ignore[misc]

    def steps_per_epoch(self) -> int:
        """Optimiser steps in an epoch."""
        own: Any = self
        batches: int = len(own.get_train_dataloader())
        return -(-batches // int(own.args.gradient_accumulation_steps))

    def _set_signature_columns_if_needed(self) -> None:
        super()._set_signature_columns_if_needed()  # type: ignore[misc]
        own: Any = self
        if INDEX not in own._signature_columns:
            own._signature_columns.append(INDEX)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        super()._load_from_checkpoint(resume_from_checkpoint, model)  # type: ignore[misc]
        load_label_file(self.learner, Path(resume_from_checkpoint) / LABELS_FILE)


class _Timer(transformers.TrainerCallback):  # type: ignore[misc, name-defined]  # a base that mypy does not see
    """Sets the learner's clock before a step, writes its labels after it, and saves them in checkpoints."""

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer
        self.steps = 1

    def on_train_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        trainer = self.trainer
        self.steps = trainer.steps_per_epoch()
        epochs = -(-state.max_steps // self.steps)
        require_fit(trainer.learner, trainer.survey, epochs=epochs, processes=args.world_size)

    def on_step_begin(self, args: Any, state: Any, control: Any, model: Any = None, **rest: Any) -> None:
        trainer = self.trainer
        epoch, done = divmod(state.global_step, self.steps)
        set_clock(trainer.learner, epoch, done, self.steps)
        if not done:

            def forward(inputs: Any) -> Tensor:
                return _logits(model(**trainer._prepare_inputs(inputs)))

            survey_rows(trainer.learner, model, forward, lambda: trainer.survey or ())

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        self.trainer.learner.step()

    def on_save(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        save_label_file(self.trainer.learner, folder / LABELS_FILE)


class LabelTrainer(LabelMixin, transformers.Trainer):  # type: ignore[misc, name-defined]  # as above
    """Hugging Face's ``Trainer`` with the mixin."""


def _logits(outputs: Any) -> Tensor:
    logits: Tensor = outputs["logits"] if isinstance(outputs, dict) else outputs[0]
    return logits
