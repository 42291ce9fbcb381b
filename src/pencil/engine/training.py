"""The parts of a training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from pencil.algorithm import Rows
from pencil.data.examples import Examples
from pencil.data.order import span
from pencil.data.prepare import Preparation
from pencil.data.sampler import EpochSampler
from pencil.engine.alarms import AlarmActions
from pencil.engine.checkpoint import Checkpoints
from pencil.engine.events import Events
from pencil.engine.learner import LabelLearner
from pencil.engine.parallel import backbone
from pencil.engine.policy import Policy
from pencil.engine.runtime import Runtime


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
    ranks they changed, None if they left them alone; what those after an epoch return joins its metrics. Those
    ``after_restore`` are called with the step of the plan to which the run went back; what they return joins the
    metrics of that epoch.
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
    after_restore: list[Callable[[int], Mapping[str, Any] | None]] = field(default_factory=list)
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

    @property
    def watches(self) -> bool:
        """Whether alarms watch the labels."""
        return self.alarms is not None and self.learner.method.learns_labels
