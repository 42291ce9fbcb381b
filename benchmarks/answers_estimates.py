"""What the belief says about a problem of ``answers``, beside the truth."""

from __future__ import annotations

import time
from typing import Any

import torch
from answers_grid import Problem
from torch import Tensor

from pencil.belief import Belief, Decided, believe, noise_of
from pencil.bench.ranking import auroc, average_precision, expected_calibration_error
from pencil.estimates import Interval

ANSWERS = 100  # rows that a person looks at
ASKED = (5, 10)  # shares of false relabels, in percent
Line = dict[str, Any]


def measured(problem: Problem) -> Line:
    """The line of one problem."""
    begun = time.monotonic()
    belief = believed(problem.features, problem.given, problem.num_classes)
    seconds = time.monotonic() - begun
    found = belief.decided()
    return {
        "rows": len(problem.given),
        "seconds": round(seconds, 2),
        **_noise(belief, problem),
        "ece": expected_calibration_error(found.p_wrong, problem.wrong),
        **_after_answers(belief, problem),
        "auroc": auroc(found.p_wrong, problem.wrong),
        "ap": average_precision(found.p_wrong, problem.wrong),
        **_labels(belief, problem),
    }


def believed(features: Tensor, given: Tensor, num_classes: int) -> Belief:
    """The belief about rows in memory."""
    with torch.no_grad():
        return believe(features, given, num_classes)


def wrong_probability(posterior: Tensor, given: Tensor) -> Tensor:
    """(N,) the probability that each given label is wrong."""
    return 1 - posterior.gather(1, given[:, None])[:, 0]


def _noise(belief: Belief, problem: Problem) -> Line:
    """Rates with their bounds beside the true ones."""
    noise = noise_of(belief.posterior, problem.given, belief.checks)
    true_rate = float(problem.wrong.double().mean())
    true_error = float((belief.posterior[:, :-1].argmax(1) != problem.truth).double().mean())
    counts = problem.given.bincount(minlength=problem.num_classes)
    wrong = problem.given[problem.wrong].bincount(minlength=problem.num_classes)
    rates = (wrong / counts)[counts > 0]
    low, high = noise.per_class[counts > 0, 1], noise.per_class[counts > 0, 2]
    return {
        "true_rate": true_rate,
        **_interval("rate", noise.rate, true_rate),
        "true_suggested_error": true_error,
        **_interval("suggested_error", noise.suggested_error, true_error),
        "per_class_covered": float(((rates >= low - 1e-6) & (rates <= high + 1e-6)).double().mean()),
        "alarms": [alarm.name for alarm in noise.alarms],
    }


def _interval(name: str, interval: Interval, truth: float) -> Line:
    return {
        name: interval.value,
        f"{name}_low": interval.low,
        f"{name}_high": interval.high,
        f"{name}_covered": interval.low - 1e-9 <= truth <= interval.high + 1e-9,
    }


def _after_answers(belief: Belief, problem: Problem) -> Line:
    """The same after right answers to what is asked, on the other rows."""
    asked = belief.ask(ANSWERS)
    known = belief.answered({row: int(problem.truth[row]) for row in asked.tolist()})
    others = torch.ones(len(problem.given), dtype=torch.bool)
    others[asked] = False
    p_wrong = known.decided().p_wrong
    line: Line = {"ece_after_answers": expected_calibration_error(p_wrong[others], problem.wrong[others])}
    for percent in ASKED:
        line |= _relabels(known.decided(percent / 100), problem, others, f"{percent}_after_answers")
    return line


def _relabels(found: Decided, problem: Problem, some: Tensor, name: str) -> Line:
    relabel = found.replaced & some
    false = int((relabel & (found.suggested != problem.truth)).sum())
    return {f"relabels_{name}": int(relabel.sum()), f"false_relabels_{name}": false}


def _labels(belief: Belief, problem: Problem) -> Line:
    """Right labels before and after, and the relabels at each asked share of false ones."""
    everything = torch.ones(len(problem.given), dtype=torch.bool)
    line: Line = {
        "right_given": float((~problem.wrong).double().mean()),
        "right_best": float((belief.best() == problem.truth).double().mean()),
    }
    for percent in ASKED:
        line |= _relabels(belief.decided(percent / 100), problem, everything, str(percent))
    return line
