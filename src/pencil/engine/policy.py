"""A policy decides, at the end of each epoch, how a run continues.

    class UntilItFalls:
        def decide(self, end: EpochEnd) -> Decision:
            scores = [past.metrics["validation_accuracy"] for past in end.history]
            now = end.metrics["validation_accuracy"]
            if now >= max(scores, default=0.0):
                return Continue(keep="best")
            return Restore("best", ended(end.phases, end.kept["best"])) if len(scores) > 5 else Continue()

A policy is asked on every rank and receives the same numbers on each. All ranks must decide alike. It should keep no
state of its own: ``EpochEnd.history`` holds every earlier epoch with its decision and is saved in every checkpoint, so
that a resumed run decides as the uninterrupted one. For the same reason it should use neither the clock nor random
numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from pencil.algorithm import Phase


@dataclass(frozen=True, kw_only=True)
class _Naming:
    """Names of checkpoints, and the reason; see ``Continue``."""

    keep: str | tuple[str, ...] | None = None
    release: tuple[str, ...] = ()
    reason: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the checkpoint of this epoch is kept under."""
        return (self.keep,) if isinstance(self.keep, str) else self.keep or ()


@dataclass(frozen=True, kw_only=True)
class Continue(_Naming):
    """Follow the plan.

    Attributes:
        keep: Save a checkpoint now and keep it under this name, or these names, until the name is released or given to
            another checkpoint.
        release: Names that are no longer needed; unknown ones are ignored.
        reason: Why, for people: it is shown and kept in ``metrics.jsonl``, and in the summary if the plan changes.
        phases: The whole plan from the first epoch, if it changes; None for the same plan. It must have the epochs
            done, and at least these.
    """

    phases: tuple[Phase, ...] | None = None
    word: ClassVar[str] = "continue"


@dataclass(frozen=True, kw_only=True)
class Stop(_Naming):
    """End the run here: the plan is cut to the epochs done, and the run finishes as if that had been its plan.

    ``keep``, ``release`` and ``reason`` as in ``Continue``.
    """

    word: ClassVar[str] = "stop"


@dataclass(frozen=True, kw_only=True)
class NextPhase(_Naming):
    """End the current phase here; the phases after it stay as planned. In the last phase this ends the run.

    ``keep``, ``release`` and ``reason`` as in ``Continue``.
    """

    word: ClassVar[str] = "next phase"


@dataclass(frozen=True)
class Restore:
    """Go back to a checkpoint that was kept by name, and continue from there under another plan.

    Weights, optimiser, label rows, what a method shares and the random state are those of the checkpoint. Rows come in
    the same order as before: it depends on the seed and the number of the epoch only. So the plan should differ, or
    the same epochs happen again.

    Attributes:
        name: The checkpoint's; it stays until it is released.
        phases: The whole plan, from the first epoch. Where it ends at the checkpoint's epoch, the run ends there.
        reason: As in ``Continue``.
    """

    name: str
    phases: tuple[Phase, ...]
    reason: str = ""
    word: ClassVar[str] = "restore"


Decision = Continue | Stop | NextPhase | Restore


def changes_plan(decision: Decision) -> bool:
    """Whether the plan after this decision differs from the one before."""
    return not isinstance(decision, Continue) or decision.phases is not None


@dataclass(frozen=True)
class Past:
    """An earlier end of an epoch.

    Attributes:
        metrics: As in ``EpochEnd``.
        decision: What the policy decided then.
    """

    metrics: Mapping[str, Any]
    decision: Decision


@dataclass(frozen=True)
class EpochEnd:
    """What a policy is given, the same on all ranks.

    Attributes:
        metrics: Those of the epoch over all ranks, as in ``metrics.jsonl``; ``epoch`` counts from 1.
        phases: The plan now.
        history: All earlier epochs in the order they were trained, those that a restore has undone included.
        kept: The names of kept checkpoints, each with the number of epochs done at it.
    """

    metrics: Mapping[str, Any]
    phases: tuple[Phase, ...]
    history: tuple[Past, ...]
    kept: Mapping[str, int]


class Policy(Protocol):
    """Decides how a run continues; see the module."""

    def decide(self, end: EpochEnd, /) -> Decision:
        """The decision at the end of an epoch, also of the last one."""
        ...


def phase_ended(phases: Sequence[Phase], epochs: int) -> tuple[Phase, ...]:
    """The plan with the phase of its epoch number ``epochs`` (from 1) ending there."""
    begun, changed = 0, list(phases)
    for number, phase in enumerate(phases):
        if begun < epochs <= begun + phase.epochs:
            changed[number] = replace(phase, epochs=epochs - begun)
        begun += phase.epochs
    return tuple(changed)


def ended(phases: Sequence[Phase], epochs: int) -> tuple[Phase, ...]:
    """The plan cut to its first ``epochs`` epochs; phases that do not come any more have none."""
    cut, left = [], epochs
    for phase in phases:
        cut.append(replace(phase, epochs=min(phase.epochs, left)))
        left -= cut[-1].epochs
    return tuple(cut)


def correction_ended(phases: Sequence[Phase], epochs: int) -> tuple[Phase, ...]:
    """The plan in which no labels are corrected after the first ``epochs`` epochs; other phases stay as they are."""
    begun, changed = 0, []
    for phase in phases:
        left = phase.epochs if phase.name != "correction" else min(max(epochs - begun, 0), phase.epochs)
        changed.append(replace(phase, epochs=left))
        begun += phase.epochs
    return tuple(changed)
