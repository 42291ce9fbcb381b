"""What a policy has made of a run so far: the plan, the decisions, the names of checkpoints.

It is part of a run's progress, so that a checkpoint holds every decision taken before it. A run without a policy has
no course, and its checkpoints hold nothing of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from pencil.algorithm import Phase, total_epochs
from pencil.engine.policy import (
    Continue,
    Decision,
    EpochEnd,
    NextPhase,
    Past,
    Policy,
    Restore,
    Stop,
    changes_plan,
    ended,
    phase_ended,
)
from pencil.engine.runtime import Runtime
from pencil.errors import RunError

MOST_RESTORES = 100  # a policy that restores more often probably never stops
_KINDS: dict[str, Any] = {kind.word: kind for kind in (Continue, Stop, NextPhase, Restore)}


class Kept(NamedTuple):
    """A checkpoint with a name: the steps taken until then, undone ones included, and the epochs done at it."""

    step: int
    epochs: int


@dataclass
class Course:
    """The decisions of a policy and what follows from them.

    Attributes:
        phases: The plan now.
        past: Every epoch so far with its decision; a restore does not shorten it.
        kept: Checkpoints by name.
        undone: Steps that restores have undone.
        followed: Whether a policy of the user decides, not the alarms alone; such a run needs it again on resume.
    """

    phases: tuple[Phase, ...]
    past: tuple[Past, ...] = ()
    kept: dict[str, Kept] = field(default_factory=dict)
    undone: int = 0
    followed: bool = True

    @property
    def has_changed_plan(self) -> bool:
        """Whether a decision has changed the phases that the run began with."""
        return any(changes_plan(past.decision) for past in self.past)

    @property
    def choices(self) -> list[dict[str, Any]]:
        """Decisions that changed the plan, and those with a reason: epoch, decision and reason, for people."""
        told = (each for each in self.past if changes_plan(each.decision) or each.decision.reason)
        return [
            {
                "epoch": int(each.metrics["epoch"]),
                "decision": each.decision.word,
                "reason": each.decision.reason,
            }
            for each in told
        ]

    @property
    def protected(self) -> list[int]:
        """The steps of checkpoints that must stay."""
        return sorted({kept.step for kept in self.kept.values()})

    def end(self, metrics: Mapping[str, Any]) -> EpochEnd:
        """What a policy is given at the end of an epoch with these metrics."""
        return EpochEnd(
            metrics, self.phases, self.past, {name: kept.epochs for name, kept in self.kept.items()}
        )

    def ask(
        self, policy: Policy, metrics: Mapping[str, Any], runtime: Runtime, *, saves: bool = True
    ) -> Decision:
        """The policy's decision, the same on all ranks; raises ``RunError`` on all where they differ.

        ``saves``: whether the run takes checkpoints.
        """
        decision = agreed(policy, self.end(metrics), runtime)
        if not saves and (isinstance(decision, Restore) or decision.names):
            raise RunError(
                "the policy keeps or restores a checkpoint, but this run takes none; give it a folder"
            )
        if isinstance(decision, Restore):
            self._check(decision)
        elif isinstance(decision, Continue) and decision.phases is not None:
            self._check_plan(decision.phases, int(metrics["epoch"]))
        return decision

    def follow(self, decision: Decision, metrics: Mapping[str, Any], step: int) -> None:
        """Record a decision taken after ``step`` steps, and change plan and names by it."""
        epochs = int(metrics["epoch"])
        self.past += (Past(metrics, decision),)
        if isinstance(decision, Restore):
            self.phases = tuple(decision.phases)
            return
        for name in decision.release:
            self.kept.pop(name, None)
        for name in decision.names:
            self.kept[name] = Kept(step, epochs)
        if isinstance(decision, Continue):
            self.phases = tuple(decision.phases or self.phases)
        elif isinstance(decision, Stop):
            self.phases = ended(self.phases, epochs)
        elif isinstance(decision, NextPhase):
            self.phases = phase_ended(self.phases, epochs)

    def metrics_at(self, name: str) -> dict[str, Any]:
        """The metrics of the epoch at whose end a checkpoint was kept."""
        return dict(self.past[self._place(name)].metrics)

    def add_measures(self, name: str, measures: Mapping[str, Any]) -> None:
        """Add what was measured when a kept checkpoint was restored to the metrics of its epoch."""
        if measures:
            place = self._place(name)
            known = replace(self.past[place], metrics={**self.past[place].metrics, **measures})
            self.past = (*self.past[:place], known, *self.past[place + 1 :])

    def _place(self, name: str) -> int:
        """The number of the past epoch at whose end a checkpoint was kept."""
        places = reversed(range(len(self.past)))
        return next(place for place in places if name in getattr(self.past[place].decision, "names", ()))

    def _check_plan(self, phases: tuple[Phase, ...], epochs: int) -> None:
        """Refuse a plan that is not one of the epochs done and those to come."""
        if total_epochs(phases) < epochs or _course_of(phases, epochs) != _course_of(self.phases, epochs):
            raise RunError(
                f"the policy continues under a plan that differs in the {epochs} epochs done; give the whole plan, "
                "from the first epoch, and change only what comes after"
            )

    def _check(self, restore: Restore) -> None:
        """Refuse a restore that cannot be."""
        if restore.name not in self.kept:
            known = ", ".join(self.kept) or "none"
            raise RunError(
                f"the policy restores checkpoint {restore.name!r}, but those kept are: {known}; keep it first"
            )
        epochs, planned = self.kept[restore.name].epochs, total_epochs(restore.phases)
        if planned < epochs:
            raise RunError(
                f"the policy restores checkpoint {restore.name!r} of epoch {epochs} under a plan of {planned} epochs; "
                "give the whole plan, from the first epoch"
            )
        if sum(isinstance(past.decision, Restore) for past in self.past) >= MOST_RESTORES:
            raise RunError(
                f"the policy has restored {MOST_RESTORES} times; let it stop once restoring does not help"
            )

    def to_json(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {
            "phases": _phases().dump_python(self.phases, mode="json"),
            "past": [[dict(past.metrics), decision_to_json(past.decision)] for past in self.past],
            "kept": self.kept,
            "undone": self.undone,
            "followed": self.followed,
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Course:
        """What ``to_json`` was given."""
        return cls(
            phases=_phases().validate_python(saved["phases"]),
            past=tuple(Past(metrics, decision_from_json(decision)) for metrics, decision in saved["past"]),
            kept={name: Kept(*kept) for name, kept in saved["kept"].items()},
            undone=int(saved["undone"]),
            followed=bool(saved.get("followed", True)),
        )


def agreed(policy: Policy, end: EpochEnd, runtime: Runtime) -> Decision:
    """What the policy decides on every rank; where it fails or differs on one, all raise."""
    decision, failure = None, None
    try:
        decision = policy.decide(end)
        said = json.dumps(decision_to_json(decision))
    except Exception as error:  # whatever it is, the other ranks must learn of it
        failure, said = error, f"{type(error).__name__}: {error}"
    answers = runtime.gathered((failure is not None, said))
    if failure is not None:
        raise failure
    for rank, (failed, words) in enumerate(answers):
        if failed:
            raise RunError(f"the policy failed on rank {rank}: {words}")
        if words != said:
            raise RunError(
                f"the policy decided {said} on rank {runtime.rank}, but {words} on rank {rank}; let it use nothing but "
                "what it is given"
            )
    assert decision is not None
    return decision


def decision_to_json(decision: Decision) -> dict[str, Any]:
    """Refuses what is no decision."""
    if not isinstance(decision, Continue | Stop | NextPhase | Restore):
        raise RunError(
            f"the policy returned {decision!r}; return Continue(), Stop(), NextPhase() or Restore(name, phases)"
        )
    if isinstance(decision, Restore):
        phases = _phases().dump_python(tuple(decision.phases), mode="json")
        return {"word": decision.word, "name": decision.name, "phases": phases, "reason": decision.reason}
    saved = {"word": decision.word, **asdict(decision)}
    if isinstance(decision, Continue) and decision.phases is not None:
        saved["phases"] = _phases().dump_python(tuple(decision.phases), mode="json")
    return saved


def decision_from_json(saved: Mapping[str, Any]) -> Decision:
    """What ``decision_to_json`` was given."""
    reason, phases = str(saved.get("reason", "")), saved.get("phases")
    plan = None if phases is None else _phases().validate_python(phases)
    if saved["word"] == Restore.word:
        assert plan is not None
        return Restore(saved["name"], plan, reason)
    keep = tuple(saved["keep"]) if isinstance(saved["keep"], list) else saved["keep"]
    more = {} if plan is None else {"phases": plan}
    decision: Decision = _KINDS[saved["word"]](
        keep=keep, release=tuple(saved["release"]), reason=reason, **more
    )
    return decision


def _course_of(phases: tuple[Phase, ...], epochs: int) -> list[tuple[str, int]]:
    """The name of the phase, and its number, of each of the first epochs."""
    each: list[tuple[str, int]] = []
    for number, phase in enumerate(phases):
        each += [(phase.name, number)] * phase.epochs
    return each[:epochs]


@cache
def _phases() -> TypeAdapter[tuple[Phase, ...]]:
    return TypeAdapter(tuple[Phase, ...])
