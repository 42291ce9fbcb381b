"""The policy of the alarms: it watches every epoch, keeps the best labels, and acts when an alarm is raised.

It decides before the policy of the user, if there is one, and hides its own checkpoint from it. Like every policy it
keeps no state: alarms, the best epoch and what was done follow from the history, which every checkpoint contains.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pencil.algorithm import moment_at
from pencil.engine.alarms import AlarmActions, Metrics, found, not_finite
from pencil.engine.policy import (
    Continue,
    Decision,
    EpochEnd,
    NextPhase,
    Past,
    Policy,
    Restore,
    Stop,
    correction_ended,
)
from pencil.errors import AlarmError
from pencil.estimates import Alarm
from pencil.results.summary import REPORTED, alarm_record

BEST = "alarms:best"  # the name of the checkpoint with the best labels
FAULT = "not_finite"  # the metric that holds the words of a fault


@dataclass(frozen=True)
class Watch:
    """Follows alarms first, then the policy of the user.

    Attributes:
        actions: What each alarm does.
        held_out: The number of held-out examples.
        policy: The policy of the user, if any.
    """

    actions: AlarmActions
    held_out: int = 0
    policy: Policy | None = None

    def decide(self, end: EpochEnd) -> Decision:
        """Act on an alarm, or follow the user's policy and keep the labels if they are the best so far."""
        *_, (epochs, _) = walk((*end.history, Past(end.metrics, Continue())))
        alarms = found(epochs, self.held_out)
        for alarm in alarms:
            if self._action(alarm) == "stop":
                raise AlarmError(f"{alarm.words}; {alarm.remedy}, or set alarms.{alarm.name} to 'report'")
        if any(self._action(alarm) == "finish" for alarm in alarms):
            return finished(end)
        decision = Continue() if self.policy is None else self.policy.decide(without_alarms(end))
        if isinstance(decision, Restore) or not self.actions.restores:
            return decision
        measure = "labels_gain" if self.actions.worse_labels == "finish" else "validation_accuracy"
        return _naming(decision, end, measure)

    def after_fault(self, end: EpochEnd) -> Restore | None:
        """The decision after a value that is not finite, with ``FAULT`` in the metrics; None if the run must end.

        A second fault ends the run, since the plan would repeat it.
        """
        again = any(FAULT in past.metrics for past in end.history)
        if self.actions.not_finite != "finish" or again:
            return None
        decision = finished(end)
        return decision if isinstance(decision, Restore) else None

    def records(self, past: Sequence[Past]) -> list[dict[str, Any]]:
        """All alarms of a run in order, each at the first epoch that raised it: name, words, remedy, action, epoch."""
        records: dict[str, dict[str, Any]] = {}
        kept: dict[str, int] = {}
        for epochs, each in walk(past):
            kept |= dict.fromkeys(_names(each.decision), int(each.metrics["epoch"]))
            raised = (
                [not_finite(each.metrics[FAULT])] if FAULT in each.metrics else found(epochs, self.held_out)
            )
            for alarm in raised:
                taken = _taken(each.decision, kept) if self._action(alarm) == "finish" else REPORTED
                records.setdefault(alarm.name, alarm_record(alarm, taken, int(each.metrics["epoch"])))
            if isinstance(each.decision, Restore):
                records = _still_true(records, kept[each.decision.name])
        return list(records.values())

    def _action(self, alarm: Alarm) -> str:
        return str(getattr(self.actions, alarm.name))


def walk(past: Sequence[Past]) -> Iterator[tuple[list[Metrics], Past]]:
    """Each end of an epoch, with the metrics of all epochs that led to it, itself included and undone ones left out."""
    epochs: list[Metrics] = []
    kept: dict[str, int] = {}
    for each in past:
        epochs.append(each.metrics)
        yield epochs, each
        kept |= dict.fromkeys(_names(each.decision), int(each.metrics["epoch"]))
        if isinstance(each.decision, Restore):
            epochs = [epoch for epoch in epochs if epoch["epoch"] <= kept[each.decision.name]]


def _still_true(records: dict[str, dict[str, Any]], restored: int) -> dict[str, dict[str, Any]]:
    """Without alarms that were only reported, in epochs that a restore has undone."""
    return {
        name: record
        for name, record in records.items()
        if record["action"] != REPORTED or record["epoch"] <= restored
    }


def finished(end: EpochEnd) -> Restore | NextPhase:
    """End correction with the best labels, or with the labels as they are if none were kept."""
    if BEST not in end.kept:
        return NextPhase()
    return Restore(BEST, correction_ended(end.phases, end.kept[BEST]))


def without_alarms(end: EpochEnd) -> EpochEnd:
    """What the user's policy sees: no checkpoint of the alarms, and no epochs that a fault cut short."""
    history = tuple(
        Past(past.metrics, _without_best(past.decision)) for past in end.history if FAULT not in past.metrics
    )
    kept = {name: epochs for name, epochs in end.kept.items() if name != BEST}
    return replace(end, history=history, kept=kept)


def _without_best(decision: Decision) -> Decision:
    if isinstance(decision, Restore) or (BEST not in decision.names and BEST not in decision.release):
        return decision
    names = tuple(name for name in decision.names if name != BEST)
    release = tuple(name for name in decision.release if name != BEST)
    return replace(decision, keep=names[0] if len(names) == 1 else names or None, release=release)


def _naming(decision: Continue | NextPhase | Stop, end: EpochEnd, measure: str) -> Decision:
    """Keep the checkpoint of this epoch if its labels are the best so far; release the kept one after correction."""
    corrects = end.metrics["phase"] == "correction"
    plan = getattr(decision, "phases", None) or end.phases
    follows = moment_at(plan, end.metrics["epoch"]).phase.name == "correction"
    if isinstance(decision, Continue) and (corrects or follows) and _is_best(end, measure):
        return replace(decision, keep=(*decision.names, BEST))
    if BEST in end.kept and not corrects and not follows:
        return replace(decision, release=(*decision.release, BEST))
    return decision


def _is_best(end: EpochEnd, measure: str) -> bool:
    """Whether the labels are better than at the kept checkpoint, by this metric; the first epoch always counts."""
    if BEST not in end.kept:
        return True
    kept = next(past.metrics for past in reversed(end.history) if BEST in _names(past.decision))
    measure = measure if measure in end.metrics else "validation_accuracy"
    now, before = (each.get(measure) for each in (end.metrics, kept))
    return now is not None and (before is None or now > before)


def _names(decision: Decision) -> tuple[str, ...]:
    return () if isinstance(decision, Restore) else decision.names


def _taken(decision: Decision, kept: dict[str, int]) -> str:
    if isinstance(decision, Restore):
        return f"correction was ended, and labels and network of epoch {kept[decision.name]} were restored"
    return "correction was ended"
