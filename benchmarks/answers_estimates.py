"""What ``pencil.estimates`` says about a problem of ``answers``, beside the truth."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import Any

import torch
from answers_grid import Problem
from torch import Tensor

from pencil.bench.ranking import auroc, average_precision, expected_calibration_error
from pencil.data import RowNumbers
from pencil.estimates import Fitted, Interval, fit, recalibrate
from pencil.results import VerdictRule
from pencil.results.judged import RELABEL, judge_all

AUDITED = 100  # random rows that a person judges
AUDITS = 5  # independent audits, averaged
ASKED = (5, 10)  # shares of false relabels, in percent
BATCH = 2048
Line = dict[str, Any]


def measured(problem: Problem) -> Line:
    """The line of one problem."""
    begun = time.monotonic()
    fitted = fitted_to(problem.features, problem.given, problem.num_classes)
    posterior = posteriors(fitted, problem.features, problem.given)
    seconds = time.monotonic() - begun
    p_wrong = wrong_probability(posterior, problem.given)
    return {
        "rows": len(problem.given),
        "seconds": round(seconds, 2),
        **_noise(fitted, posterior, problem),
        "alarms": [alarm.name for alarm in fitted.noise.alarms],
        "ece": expected_calibration_error(p_wrong, problem.wrong),
        **after_audits(posterior, problem),
        "auroc": auroc(p_wrong, problem.wrong),
        "ap": average_precision(p_wrong, problem.wrong),
        **_labels(posterior, problem),
    }


def fitted_to(features: Tensor, given: Tensor, num_classes: int) -> Fitted:
    """Fit on rows in memory."""

    def passes() -> Iterator[tuple[Tensor, Tensor]]:
        for places in torch.arange(len(given)).split(BATCH):
            yield places, features[places]

    return fit(passes, given, num_classes)


def posteriors(fitted: Fitted, features: Tensor, given: Tensor) -> Tensor:
    """The posterior (N, C) of all rows."""
    batches = zip(features.split(BATCH), given.split(BATCH), strict=True)
    return torch.cat([fitted.posterior(values, labels) for values, labels in batches])


def wrong_probability(posterior: Tensor, given: Tensor) -> Tensor:
    """(N,) the probability that each given label is wrong."""
    return 1 - posterior.gather(1, given[:, None])[:, 0]


def _noise(fitted: Fitted, posterior: Tensor, problem: Problem) -> Line:
    """Rates with their intervals beside the true ones."""
    noise = fitted.noise
    true_rate = float(problem.wrong.double().mean())
    true_error = float((posterior.argmax(1) != problem.truth).double().mean())
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
    }


def _interval(name: str, interval: Interval, truth: float) -> Line:
    return {
        name: interval.value,
        f"{name}_low": interval.low,
        f"{name}_high": interval.high,
        f"{name}_covered": interval.low - 1e-9 <= truth <= interval.high + 1e-9,
    }


def after_audits(posterior: Tensor, problem: Problem) -> Line:
    """Measures after audits of random rows, on the other rows: the mean calibration error, and false relabels."""
    errors, chosen, false = [], dict.fromkeys(ASKED, 0), dict.fromkeys(ASKED, 0)
    for number in range(AUDITS):
        generator = torch.Generator().manual_seed(1000 * problem.seed + number)
        order = torch.randperm(len(posterior), generator=generator)
        audited, others = order[:AUDITED], order[AUDITED:]
        found = recalibrate(posterior[audited], problem.given[audited], problem.truth[audited])
        rest = posterior[others] if found is None else found(posterior[others], problem.given[others])
        p_wrong = wrong_probability(rest, problem.given[others])
        errors.append(expected_calibration_error(p_wrong, problem.wrong[others]))
        for percent in ASKED:
            relabel = relabelled(rest, problem.given[others], percent / 100)
            chosen[percent] += int(relabel.sum())
            false[percent] += int((relabel & (rest.argmax(1) != problem.truth[others])).sum())
    line: Line = {"ece_after_audit": statistics.fmean(error for error in errors if error is not None)}
    for percent in ASKED:
        line[f"relabels_{percent}_after_audit"] = chosen[percent] / AUDITS
        line[f"false_relabels_{percent}_after_audit"] = false[percent] / AUDITS
    return line


def _labels(posterior: Tensor, problem: Problem) -> Line:
    """Right labels before and after, and the relabels at each asked share of false ones."""
    suggested = posterior.argmax(1)
    line: Line = {
        "right_given": float((~problem.wrong).double().mean()),
        "right_suggested": float((suggested == problem.truth).double().mean()),
    }
    for percent in ASKED:
        relabel = relabelled(posterior, problem.given, percent / 100)
        line[f"relabels_{percent}"] = int(relabel.sum())
        line[f"false_relabels_{percent}"] = int((relabel & (suggested != problem.truth)).sum())
    return line


def relabelled(posterior: Tensor, given: Tensor, asked: float) -> Tensor:
    """(N,) bool, the rows that get the verdict relabel at an asked share of false relabels."""
    rule = VerdictRule(max_false_relabels=asked)
    return judge_all(posterior, given, rule, ids=RowNumbers(len(given))).verdict == RELABEL
