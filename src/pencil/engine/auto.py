"""The policy of ``plan = "auto"``: when correction begins, how many rounds there are, and when to go back.

It decides by held-out given labels alone, mostly by agreement with them. They are as noisy as the others, but equally
so in every epoch, so a network that agrees with them more is a better one.

    backbone   The epoch that agrees most is kept. If agreement has fallen by the end of the phase, the network has
               begun to memorise wrong labels: that epoch is restored, and correction begins there.
    a round    Correction and finetune. If agreement is below that of the network before the first round, by more than
               chance, labels and network go back to that moment. If a round raised agreement, another follows; a later
               round that did not is undone.
    renewal    If the first round was undone, or if held-out labels confirm a noise matrix after the last one, the
               labels are recomputed, calibrated on held-out rows (``pencil.run.renewal``), and the network learns from
               them for as long as a round. This is undone if held-out labels are not more likely by the new network.
               Agreement would not show it: where two classes are confused nearly as often as not, a better network
               hardly agrees more.

A run without held-out rows follows its phases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pencil.algorithm import Phase, backbone_epochs, total_epochs
from pencil.engine.alarms import standard_error
from pencil.engine.policy import Continue, Decision, EpochEnd, Restore, ended, phase_ended

NETWORK = "auto:network"  # the best network of the backbone phase, with the labels as given
ROUND = "auto:round"  # the end of the last round
# At the end of backbone and of the plan: whether held-out labels confirm a noise matrix, and how likely they are.
PAIRS = "noise_pairs"
LIKELIHOOD = "held_out_likelihood"
MOST = 3  # rounds
MEMORISES = 2.0  # standard errors from the best of many epochs to the last: the best is so partly by chance
HARMS = 1.0
"""Standard errors of a fall over the first round that is not chance.

They are those of two networks on different rows. On the same rows they are about half as large: 0.37 points instead of
0.77 on all CIFAR-10 images with symmetric 80 % noise, where a fall of 1.1 was a loss of 3 points of test accuracy.
"""


@dataclass(frozen=True)
class Auto:
    """Decides by held-out agreement; see the module.

    Attributes:
        held_out: The number of held-out examples.
    """

    held_out: int

    def decide(self, end: EpochEnd) -> Decision:
        """The decision at the end of an epoch; every choice has its reason."""
        phase, epoch = end.metrics["phase"], int(end.metrics["epoch"])
        if "validation_accuracy" not in end.metrics:
            return Continue()
        if phase == "backbone":
            return self._backbone(end, last=epoch == backbone_epochs(end.phases))
        if epoch == total_epochs(end.phases) and NETWORK in end.kept:
            return self._after_round(end)
        return Continue()

    def _backbone(self, end: EpochEnd, *, last: bool) -> Decision:
        """Keep the best epoch; at the last one, go back to it if agreement has fallen since."""
        now, before = _agreement(end.metrics), _kept(end, NETWORK)
        if before is None or now > _agreement(before):
            return Continue(keep=NETWORK)
        if not (last and self._fell(_agreement(before), now, MEMORISES)):
            return Continue(keep=NETWORK) if last else Continue()
        words = f"the network has begun to memorise, so correction begins after epoch {before['epoch']}"
        plan = phase_ended(end.phases, end.kept[NETWORK])
        return Restore(NETWORK, plan, f"{_fall(before, now)}: {words}")

    def _after_round(self, end: EpochEnd) -> Decision:
        """Undo a round that did harm, stop after one that did nothing, and add one after one that helped."""
        now, first, last = _agreement(end.metrics), _kept(end, NETWORK), _kept(end, ROUND)
        assert first is not None
        name, start = (NETWORK, first) if last is None else (ROUND, last)
        if end.phases[-1].labels == "calibrated" and LIKELIHOOD in start and LIKELIHOOD in end.metrics:
            return _after_renewal(end, name, start)
        if last is not None and now <= _agreement(last):
            plan, words = _renewed(end, ended(end.phases, end.kept[ROUND]), pairs=last.get(PAIRS))
            return Restore(ROUND, plan, f"{_fall(last, now)}: the last round is undone{words}")
        if self._fell(_agreement(first), now, HARMS):
            plan, words = ended(end.phases, end.kept[NETWORK]), ", and the labels stay as given"
            if LIKELIHOOD in first and _ends_with_round(end.phases):
                plan, words = _with_renewal(end, plan), "; labels are recomputed, calibrated"
            return Restore(NETWORK, plan, f"{_fall(first, now)}: correction is undone{words}")
        before = _agreement(last or first)
        if now > before and _allows_round(end.phases):
            words = (
                f"held-out agreement rose from {_percent(before)} to {_percent(now)}: another round follows"
            )
            return Continue(keep=ROUND, phases=(*end.phases, *end.phases[-2:]), reason=words)
        plan, words = _renewed(end, end.phases, pairs=end.metrics.get(PAIRS))
        words = f"held-out agreement is {_percent(now)} after {_percent(before)}: no further round{words}"
        if plan == end.phases:
            return Continue(reason=words)
        return Continue(keep=ROUND, phases=plan, reason=words)

    def _fell(self, before: float, now: float, errors: float) -> bool:
        return before - now > errors * standard_error(before, now, self.held_out)


def _allows_round(phases: Sequence[Phase]) -> bool:
    """Whether the last round may be repeated once more."""
    return sum(phase.name == "correction" for phase in phases) < MOST and _ends_with_round(phases)


def _ends_with_round(phases: Sequence[Phase]) -> bool:
    """Whether the plan ends with a whole round, which an alarm may have cut."""
    return [phase.name for phase in phases[-2:]] == ["correction", "finetune"] and phases[-2].epochs > 0


def _renewed(end: EpochEnd, plan: tuple[Phase, ...], *, pairs: bool | None) -> tuple[tuple[Phase, ...], str]:
    """The plan, with a phase of calibrated labels if held-out ones confirm a matrix; and what to say."""
    if not (pairs and _ends_with_round(end.phases)):
        return plan, ""
    words = "; held-out labels show which classes are confused, so labels are recomputed, calibrated"
    return _with_renewal(end, plan), words


def _with_renewal(end: EpochEnd, plan: tuple[Phase, ...]) -> tuple[Phase, ...]:
    correction, finetune = end.phases[-2:]
    return (*plan, replace(finetune, epochs=correction.epochs + finetune.epochs, labels="calibrated"))


def _after_renewal(end: EpochEnd, name: str, before: Mapping[str, Any]) -> Decision:
    """Go back to the checkpoint before it unless held-out labels have become more likely."""
    was, now = (float(metrics[LIKELIHOOD]) for metrics in (before, end.metrics))
    figures = f"({now:.3f}, {was:.3f} before)"
    if now > was:
        return Continue(reason=f"held-out labels are more likely {figures}: the calibrated labels stay")
    words = f"held-out labels are not more likely {figures}: the calibrated labels are undone"
    return Restore(name, ended(end.phases, end.kept[name]), words)


def _kept(end: EpochEnd, name: str) -> Mapping[str, Any] | None:
    """The metrics of the epoch that was kept under a name."""
    if name not in end.kept:
        return None
    named = (each for each in reversed(end.history) if name in getattr(each.decision, "names", ()))
    return next(named).metrics


def _agreement(metrics: Mapping[str, Any]) -> float:
    return float(metrics["validation_accuracy"])


def _fall(before: Mapping[str, Any], now: float) -> str:
    return f"held-out agreement fell from {_percent(_agreement(before))} in epoch {before['epoch']} to {_percent(now)}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
