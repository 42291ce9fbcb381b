"""The parts of a training, and the accuracy of its network and labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from pencil.algorithm import Rows
from pencil.data.examples import Examples
from pencil.data.order import span
from pencil.data.prepare import Preparation
from pencil.data.sampler import EpochSampler
from pencil.engine.alarms import AlarmActions, counts, gain, lost_share
from pencil.engine.checkpoint import Checkpoints
from pencil.engine.evaluate import agreement
from pencil.engine.events import Events
from pencil.engine.learner import LabelLearner
from pencil.engine.parallel import backbone
from pencil.engine.policy import Policy
from pencil.engine.runtime import Runtime

ACCURACIES = ("validation_accuracy", "test_accuracy", "labels_correct")


@dataclass(kw_only=True)
class Training:
    """All parts of a training, put together by ``pencil.run``.

    ``model`` is the network as ``Runtime.network`` makes it, before its optimiser. ``train`` holds the examples this
    rank owns, numbered from 0 as in its label store; ``indices`` (N,) are their row numbers among the examples of all
    ranks.
    ``weights`` (N,) say how much each of them counts in the network's loss, 1 on average; None for all alike.
    ``policy`` decides at the end of each epoch how the run continues; without one the plan is followed. ``alarms`` says
    what each alarm does; None for no alarms. ``noise_rate`` is the estimated share of wrong labels, as value and upper
    bound, and ``posterior`` the probability (B, C) that each class is the true one, for indices (B,) of this rank; both
    only if they are known while training.
    ``before_epoch`` and ``after_epoch`` are functions called in order on every rank, with the number of epochs done:
    before the first step of an epoch, and when it is done and before its checkpoint. What they change must be restored
    when a run resumes; see ``pencil.run.start`` and ``renewal``. Those before an epoch return how many labels of all
    ranks they changed, None if they left them alone; what those after an epoch return joins its metrics.
    """

    runtime: Runtime
    model: nn.Module
    optimizer: Optimizer
    learner: LabelLearner
    sampler: EpochSampler
    preparation: Preparation
    train: Examples
    indices: Tensor
    validation: Examples | None = None
    test: Examples | None = None
    weights: Tensor | None = None
    checkpoints: Checkpoints | None = None
    checkpoint_seconds: float = 300.0
    checkpoint_steps: int | None = None
    events: Events = field(default_factory=Events)
    accumulate: int = 1
    workers: int = 0
    evaluate_every: int = 1
    compile: bool = False
    policy: Policy | None = None
    before_epoch: list[Callable[[int], int | None]] = field(default_factory=list)
    after_epoch: list[Callable[[int], Mapping[str, Any] | None]] = field(default_factory=list)
    alarms: AlarmActions | None = None
    noise_rate: tuple[float, float] | None = None
    posterior: Callable[[Tensor], Rows] | None = None

    @property
    def backbone(self) -> nn.Module:
        """The model itself, without what makes it parallel."""
        return backbone(self.model)

    @property
    def owned(self) -> range:
        """The positions of this rank's rows in the fixed order of all rows."""
        return span(self.sampler.num_rows, self.sampler.rank, self.sampler.world_size)

    def accuracies(self) -> dict[str, float]:
        """Of the network on held-out examples, and of the labels where the truth is known; never trained on."""
        measured: dict[str, float] = {}
        self.runtime.agree_on_buffers(self.backbone)
        for name, examples in (("validation_accuracy", self.validation), ("test_accuracy", self.test)):
            if examples is not None:
                right, predicted = agreement(self.backbone, examples, self.preparation, self.runtime)
                measured[name] = right
                if self.watches and examples is self.validation:
                    given = counts(examples.labels.hard, examples.num_classes)
                    measured["predicted_classes_lost"] = lost_share(given, predicted)
        if self.train.reference is not None:
            measured["labels_correct"] = self._labels_correct(self.train.reference)
        return measured

    @property
    def watches(self) -> bool:
        """Whether alarms watch the labels."""
        return self.alarms is not None and self.learner.method.learns_labels

    def watched_labels(self) -> dict[str, float]:
        """The metrics that alarms judge the labels of all ranks by; see ``alarms``."""
        labels, classes = self.learner.labels(), self.learner.num_classes
        found = [counts(each, classes) for each in (labels.given, labels.suggested)]
        if self.posterior is not None:
            found.append(gain(self.posterior, labels.given, labels.suggested, classes))
        given, suggested, gained = self.runtime.total(torch.cat(found)).split(
            [classes, classes, len(found[2:]) * 2]
        )
        metrics = {"label_classes_lost": lost_share(given, suggested)}
        if self.posterior is not None:
            rows = self.sampler.num_rows
            metrics |= {
                "labels_gain": float(gained[0]) / rows,
                "labels_gain_error": float(gained[1]) ** 0.5 / rows,
            }
        return metrics

    def _labels_correct(self, reference: Tensor) -> float:
        right = (self.learner.labels().suggested == reference).sum()
        counts = self.runtime.total(torch.tensor([int(right), len(reference)], dtype=torch.float64))
        return float(counts[0] / counts[1])
