"""The three phases of a run (Sec. 3.6), and which one an epoch is in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from torch import Tensor

from pencil.algorithm.checks import require_amounts
from pencil.algorithm.schedule import Schedule, require_rate, value_at

PhaseName = Literal["backbone", "correction", "finetune"]
PhaseLabels = Literal["kept", "calibrated"]


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A stretch of epochs with one purpose.

    ``backbone`` is the paper's backbone learning, ``correction`` its PENCIL learning, ``finetune`` its final
    fine-tuning. Every method sees the same phases, so a comparison shares its optimiser settings. Epochs and learning
    rate are not negative and at most ``checks.LARGEST``.

    ``labels`` says what the phase begins with: the labels as they are, or new ones, calibrated on held-out rows
    (``pencil.run.renewal``; only in pencil's own loop).
    """

    name: PhaseName
    epochs: int
    learning_rate: Schedule
    labels: PhaseLabels = "kept"

    def __post_init__(self) -> None:
        for field_name, known in (("name", get_args(PhaseName)), ("labels", get_args(PhaseLabels))):
            if (value := getattr(self, field_name)) not in known:
                raise ValueError(f"{field_name}: {value!r} is unknown; use one of {', '.join(known)}")
        require_amounts(self, "epochs")
        require_rate("learning_rate", self.learning_rate)


@dataclass(frozen=True)
class Moment:
    """A point in training: a phase, and how many of its epochs have passed (with fractions).

    ``shared`` is what the method has learned from all examples together; most methods learn nothing of this kind.
    """

    phase: Phase
    elapsed: float
    shared: Mapping[str, Tensor] = field(default_factory=dict, compare=False, repr=False)

    def value(self, schedule: Schedule) -> float:
        """A schedule's value at this moment."""
        return value_at(schedule, self.elapsed, self.phase.epochs)

    @property
    def learning_rate(self) -> float:
        """The network's learning rate at this moment."""
        return self.value(self.phase.learning_rate)


def total_epochs(phases: Sequence[Phase]) -> int:
    """Epochs of all phases together."""
    return sum(phase.epochs for phase in phases)


def backbone_epochs(phases: Sequence[Phase]) -> int:
    """Epochs before labels are corrected."""
    return sum(phase.epochs for phase in phases if phase.name == "backbone")


def moment_at(phases: Sequence[Phase], epoch: float) -> Moment:
    """The moment after ``epoch`` epochs of the whole run; past the end it stays at the end."""
    begun = 0.0
    for phase in phases:
        if epoch < begun + phase.epochs:
            return Moment(phase, epoch - begun)
        begun += phase.epochs
    last = next((phase for phase in reversed(phases) if phase.epochs), None)
    if last is None:
        raise ValueError("phases: at least one phase needs an epoch")
    return Moment(last, float(last.epochs))


def three_phases(
    backbone: int, correction: int, finetune: int, *, learning_rate: Schedule, finetune_rate: Schedule
) -> tuple[Phase, ...]:
    """The paper's plan: a fixed high rate while labels move, a falling one to fine-tune."""
    return (
        Phase(name="backbone", epochs=backbone, learning_rate=learning_rate),
        Phase(name="correction", epochs=correction, learning_rate=learning_rate),
        Phase(name="finetune", epochs=finetune, learning_rate=finetune_rate),
    )
