"""Simulated audits: how often the bounds of ``pencil audit`` fail, and how many labels must be checked.

    python benchmarks/audit.py --json            2,000 audits per setting, about two minutes on one core
    python benchmarks/audit.py --quick           200 audits per setting
    python benchmarks/audit.py --write           also writes benchmarks/results/audit.json

Every bound asks for 95 % confidence, so it may fail in 5 % of the audits. An exact or live bound fails if fewer errors
are stated than there are; the live bound fails if that happens after any answer of an audit that checks every label. A
threshold fails if a certified set has more errors than 5 %; a stratified interval fails if it does not contain the true
rate. The settings include the hardest case, in which one error more than allowed is present.

The probability of a failure is at most 5 % in every setting by proof; simulated shares scatter around it with a
standard error of 0.5 points. The figures are therefore the share over all settings of a bound (the highest of the four
is ``false_certificates_percent``), the worst setting, and the number of settings that exceed 5 % by more than chance
explains (``settings_above``: more than 3.3 standard errors, 5 % for one of a hundred settings).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np
from common import finish
from numpy.typing import NDArray

from pencil.audit.bounds import (
    allowed,
    capital,
    chance_of_at_most,
    checks_needed,
    fixed_sequence,
    most_errors,
)
from pencil.audit.strata import Stratum, stratified_rate

RESULTS = Path(__file__).resolve().parent / "results" / "audit.json"
ALPHA = MAX_ERROR = 0.05
SIZES = (200, 500, 1_000, 2_000, 5_000, 10_000)
RATES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2)
CHECKED = (60, 100)
SETS = 8  # nested sets of the fixed sequence
LOOKS_AT = (0.0, 0.01, 0.02)
SHARED = {0.0: 73, 0.01: 129, 0.02: 205}  # medians that the notes on the field give for 2,000 labels
MEMORY = 1 << 21  # answers simulated at a time

Answers = NDArray[np.bool_]
Rows = list[dict[str, float]]


def audits(rng: np.random.Generator, count: int, size: int, wrong: int, checked: int) -> Iterator[Answers]:
    """Yield the answers (A, n) of random samples without replacement, in the order drawn, some audits at a time."""
    labels = np.arange(size) < wrong
    step = max(1, MEMORY // size)
    for first in range(0, count, step):
        batch = np.tile(labels, (min(step, count - first), 1))
        yield rng.permuted(batch, axis=1)[:, :checked]


def wrong_labels(size: int) -> list[int]:
    """The numbers of wrong labels to try, by rate and one more than allowed; without errors, no bound can fail."""
    return sorted({round(rate * size) for rate in RATES} | {allowed(size, MAX_ERROR) + 1})


def exact_failures(rng: np.random.Generator, count: int) -> Rows:
    """How often the exact bound is below the number of errors."""
    bound = lru_cache(maxsize=None)(most_errors)
    rows = []
    for size, wrong, checked in [(s, w, c) for s in SIZES for w in wrong_labels(s) if w for c in CHECKED]:
        found = rng.hypergeometric(wrong, size - wrong, checked, count)
        bounds = np.array([bound(size, checked, int(errors), ALPHA) for errors in found])
        rows.append(
            {
                "size": size,
                "wrong": wrong,
                "checked": checked,
                "failed": float((bounds < wrong).mean()),
                "certified": float((bounds <= allowed(size, MAX_ERROR)).mean()),
            }
        )
    return rows


def live_failures(rng: np.random.Generator, count: int) -> Rows:
    """How often the live bound is ever below the number of errors, if every label is checked."""
    rows = []
    for size, wrong in [(s, w) for s in SIZES for w in wrong_labels(s) if w]:
        failed = [
            (capital(size, wrong, answers) >= 1 / ALPHA).any(axis=1)
            for answers in audits(rng, count, size, wrong, size)
        ]
        rows.append({"size": size, "wrong": wrong, "failed": float(np.concatenate(failed).mean())})
    return rows


def threshold_failures(rng: np.random.Generator, count: int) -> Rows:
    """How often a fixed sequence certifies a set with too many errors; doubtful labels are wrong more often."""
    certify = lru_cache(maxsize=None)(
        lambda *sets: [each.certified for each in fixed_sequence(sets, MAX_ERROR, ALPHA)]
    )
    rows = []
    for size in SIZES:
        for rate, slope in ((0.02, 3.0), (0.05, 1.0), (0.05, 6.0), (0.08, 2.0)):
            ends = np.ceil(size * np.linspace(0.3, 1.0, SETS)).astype(int)
            place = np.arange(size) / size
            wrong = rng.random(size) < rate * (slope + 1) * place**slope  # labels by confidence, surest first
            truth = np.array([wrong[:end].mean() > MAX_ERROR for end in ends])
            failed, reached, checked = 0, 0.0, min(200, size)
            for _ in range(count):
                sample = np.sort(rng.choice(size, checked, replace=False))
                inside = np.searchsorted(sample, ends)
                errors = np.concatenate([[0], np.cumsum(wrong[sample])])[inside]
                sets = tuple((int(e), int(n), int(k)) for e, n, k in zip(ends, inside, errors, strict=True))
                passed = np.array(certify(*sets))
                failed += bool((passed & truth).any())
                reached += float(ends[passed].max(initial=0)) / size
            row = {"size": size, "wrong": int(wrong.sum()), "slope": slope, "checked": checked}
            rows.append(row | {"failed": failed / count, "share_certified": round(reached / count, 3)})
    return rows


def strata_failures(rng: np.random.Generator, count: int) -> Rows:
    """How often the exact interval over keep, relabel and review misses the true rate."""
    rate = lru_cache(maxsize=None)(_rate)
    rows = []
    for size in SIZES:
        for noise in (0.01, 0.05, 0.1, 0.2):
            sizes = [7 * size // 10, 2 * size // 10, size // 10]
            wrong = [min(round(noise * factor * n), n) for factor, n in zip((0.2, 4, 2), sizes, strict=True)]
            checked = [60, 25, 15]
            found = np.stack(
                [
                    rng.hypergeometric(w, n - w, c, count)
                    for w, n, c in zip(wrong, sizes, checked, strict=True)
                ],
                axis=1,
            )
            truth = sum(wrong) / sum(sizes)
            bounds = np.array([rate(*sizes, *checked, *errors) for errors in found.tolist()])
            missed = (bounds[:, 0] > truth + 1e-12) | (bounds[:, 1] < truth - 1e-12)
            row = {"size": size, "rate": truth, "failed": float(missed.mean())}
            rows.append(row | {"width": round(float((bounds[:, 1] - bounds[:, 0]).mean()), 3)})
    return rows


def _rate(*numbers: int) -> tuple[float, float]:
    strata = [
        Stratum(size=n, wrong=[True] * k + [False] * (c - k), expected=[0.0] * c, mean_expected=0.0)
        for n, c, k in zip(numbers[:3], numbers[3:6], numbers[6:], strict=True)
    ]
    found = stratified_rate(strata, ALPHA)
    return found.low, found.high


def looks_needed(rng: np.random.Generator, count: int, size: int = 2_000) -> Rows:
    """How many labels are checked until the live bound certifies 5 %, by true rate, and the fixed sample beside it."""
    rows, limit = [], allowed(size, MAX_ERROR) + 1
    for rate in LOOKS_AT:
        first = [
            (capital(size, limit, answers) >= 1 / ALPHA).argmax(axis=1) + 1
            for answers in audits(rng, count, size, round(rate * size), size)
        ]
        found = np.concatenate(first)
        row = {
            "size": size,
            "rate": rate,
            "median": float(np.median(found)),
            "mean": round(float(found.mean()), 1),
        }
        row["ninety_percent_within"] = float(np.quantile(found, 0.9))
        rows.append(row | {"shared_notes": SHARED[rate], "fixed_sample": fixed_sample(size, rate)})
    return rows


def fixed_sample(size: int, rate: float) -> int:
    """The smallest fixed sample whose exact bound certifies 5 % in at least half of the audits."""
    wrong = round(rate * size)
    for errors in range(size):
        checked = checks_needed(size, ALPHA, allowed(size, MAX_ERROR), errors)
        if chance_of_at_most(errors, size, wrong, checked) >= 0.5:
            return checked
    return size


PARTS: dict[str, Callable[[np.random.Generator, int], Rows]] = {
    "exact": exact_failures,
    "live": live_failures,
    "thresholds": threshold_failures,
    "strata": strata_failures,
    "looks": looks_needed,
}


def measure(count: int, seed: int) -> tuple[dict[str, float], dict[str, Rows]]:
    """The figures, and the rows that they come from."""
    tables = {
        name: part(np.random.default_rng([seed, place]), count)
        for place, (name, part) in enumerate(PARTS.items())
    }
    failed = {name: [row["failed"] for row in rows] for name, rows in tables.items() if name != "looks"}
    figures: dict[str, float] = {"audits_per_setting": count, "settings": sum(map(len, failed.values()))}
    for name, shares in failed.items():
        figures[f"{name}_failed_percent"] = round(100 * float(np.mean(shares)), 2)
        figures[f"{name}_failed_percent_worst"] = round(100 * max(shares), 2)
    figures["false_certificates_percent"] = max(figures[f"{name}_failed_percent"] for name in failed)
    limit = ALPHA + 3.3 * (ALPHA * (1 - ALPHA) / count) ** 0.5
    figures["settings_above"] = sum(share > limit for shares in failed.values() for share in shares)
    for row in tables["looks"]:
        figures[f"looks_at_{round(100 * row['rate'])}_percent"] = row["median"]
    return figures, tables


def main() -> None:
    """Simulate as the command line says, and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="200 audits per setting")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--write", action="store_true", help=f"write results/{RESULTS.name}; not with --quick"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as one line of JSON")
    args = parser.parse_args()
    if args.quick and args.write:
        parser.error("--write: figures of --quick are not kept")
    begun = time.monotonic()
    figures, tables = measure(200 if args.quick else 2_000, args.seed)
    if args.write:
        about = {"command": "python benchmarks/audit.py --write", "seconds": round(time.monotonic() - begun)}
        RESULTS.write_text(json.dumps({**about, "figures": figures, **tables}, indent=1) + "\n")
    finish(figures, as_json=args.json)


if __name__ == "__main__":
    main()
