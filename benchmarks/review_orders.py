"""How many errors a reviewer finds in how many looks, by the order of the rows.

    python benchmarks/review_orders.py --json                # continues benchmarks/results/review_orders.jsonl
    python benchmarks/review_orders.py --json --quick        # one problem and seed, about a minute
    python benchmarks/review_orders.py --draw                # the figure of the documentation from the results

The problems are those of ``answers_grid``: features with given labels of known error. A simulated reviewer looks at the
rows in an order and notices the true class of each with a probability of 95 %; otherwise the row is taken for right.
The curves count the errors that were found: given labels that are wrong (goal ``clean``), or suggestions of ``pencil``
that are wrong (goal ``relabel``), on average over three seeds; CIFAR-10 has the same rows for all, so it has one.

    clean, relabel   the orders of ``pencil review`` with every row queued (``--all``)
    smallest_lead    the former order: verdict review by the rule (0.7, 0.5) on PENCIL's labels first, then relabel,
                     then keep, each by the lead of the most likely class over the second, smallest first
    cleanlab         lowest self-confidence first (see ``answers_scores``)
    random           a permutation

``*_worst_lead_over_*`` is the smallest difference, in errors found, between the goal's own order and another one at
any of the measured numbers of looks.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from answers_estimates import believed
from answers_grid import Problem, available, noises, problem
from answers_scores import cleanlab_score, trained
from common import data_folder, finish
from numpy.typing import NDArray
from torch import Tensor

from pencil.data import RowNumbers
from pencil.engine import read_json_lines
from pencil.imports import need
from pencil.results import VerdictRule
from pencil.results.judged import Judged, judge_all
from pencil.review.orders import ALL, GOALS, order_by

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results" / "review_orders.jsonl"
FIGURE = FOLDER.parent / "docs" / "figures" / "review_orders.png"
PROBLEMS = (("cub", "symmetric_20"), ("cifar100", "people"), ("cifar10", "people_aggre"))
QUICK = PROBLEMS[:1]
SEEDS = (0, 1, 2)
MISTAKES = 0.05  # of the reviewer
EVERY, FARTHEST = 50, 2000  # looks
LOOKS = (100, 500, 1000)  # of the printed figures
OLD_CONFIDENCE, OLD_LEAD = 0.7, 0.5
COLOURS = {
    "clean": "#0b5f8a",
    "relabel": "#c77700",
    "smallest_lead": "#a3262a",
    "cleanlab": "#23673a",
    "random": "#8a8f94",
}
Line = dict[str, Any]


def main() -> None:
    """Measure what is not there yet, draw, print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--draw", action="store_true", help="draw what was measured, and measure nothing")
    arguments = parser.parse_args()
    data_folder()
    torch.set_num_threads(1)
    lines = [] if arguments.quick else read_json_lines(RESULTS)
    if not arguments.draw:
        lines = quick() if arguments.quick else continued(lines)
    if not arguments.quick:
        draw(lines)
    finish(figures(lines), as_json=arguments.json)


def quick() -> list[Line]:
    """One seed of the first problem."""
    return [measured(made(*which, SEEDS[0])) for which in QUICK]


def continued(lines: list[Line]) -> list[Line]:
    """Measure the problems and seeds that have no line yet, and add their lines to the file."""
    known = {(line["data"], line["noise"], line["seed"]) for line in lines}
    there = set(available())
    for seed in SEEDS:
        for data, noise in PROBLEMS:
            again = data == "cifar10" and seed != SEEDS[0]  # the same rows, labelled by people
            if data in there and not again and (data, noise, seed) not in known:
                line = measured(made(data, noise, seed))
                print(data, noise, seed, file=sys.stderr, flush=True)
                with RESULTS.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
                lines = [*lines, line]
    return lines


def made(data: str, noise: str, seed: int) -> Problem:
    """The problem of these names."""
    (found,) = [each for each in noises(data) if each.name == noise]
    return problem(data, found, seed)


def measured(one: Problem) -> Line:
    """The curves of one problem, by goal and order."""
    posterior = believed(one.features, one.given, one.num_classes).posterior[:, :-1]
    judged = judge_all(posterior, one.given, VerdictRule(), ids=RowNumbers(len(one.given)))
    errors = {"clean": one.wrong.numpy(), "relabel": (judged.suggested != one.truth).numpy()}
    noticed = np.random.default_rng(one.seed).random(len(one.given)) >= MISTAKES
    orders = all_orders(one, judged)
    return {
        "data": one.data,
        "noise": one.noise.name,
        "seed": one.seed,
        "rows": len(one.given),
        "errors": {goal: int(wrong.sum()) for goal, wrong in errors.items()},
        "found": {
            goal: {name: found(rows, wrong & noticed) for name, rows in orders.items()}
            for goal, wrong in errors.items()
        },
    }


def all_orders(one: Problem, judged: Judged) -> dict[str, NDArray[np.int64]]:
    """Every row (N,) in each order."""
    training, _ = trained(one, "pencil")
    belief = training.learner.label_distribution(training.indices.argsort()).cpu()
    return {
        **{goal: by_goal(goal, judged) for goal in GOALS},
        "smallest_lead": by_smallest_lead(belief, one.given),
        "cleanlab": (-cleanlab_score(one)).numpy().argsort(kind="stable"),
        "random": np.random.default_rng(one.seed + 1000).permutation(len(one.given)),
    }


def by_goal(goal: str, judged: Judged) -> NDArray[np.int64]:
    """The order of ``pencil review --goal GOAL --all``."""
    return order_by(goal, [judged], ALL).rows


def by_smallest_lead(belief: Tensor, given: Tensor) -> NDArray[np.int64]:
    """The former order."""
    best = belief.topk(2, dim=1)
    lead = best.values[:, 0] - best.values[:, 1]
    sure = (best.values[:, 0] >= OLD_CONFIDENCE) & (lead >= OLD_LEAD)
    part = torch.where(sure, torch.where(best.indices[:, 0] == given, 2, 1), 0)
    return np.lexsort((lead.numpy(), part.numpy()))


def found(rows: NDArray[np.int64], errors: NDArray[np.bool_]) -> list[int]:
    """The number of errors found after every ``EVERY`` looks."""
    counts: list[int] = errors[rows].cumsum()[EVERY - 1 : FARTHEST : EVERY].tolist()
    return counts


def means(lines: Iterable[Line], goal: str) -> dict[str, list[float]]:
    """The curve of each order, on average over the seeds."""
    curves = [line["found"][goal] for line in lines]
    return {name: np.mean([curve[name] for curve in curves], axis=0).tolist() for name in curves[0]}


def grouped(lines: Iterable[Line]) -> dict[str, list[Line]]:
    """The lines of each problem, by its name."""
    groups: dict[str, list[Line]] = {}
    for line in lines:
        groups.setdefault(f"{line['data']}_{line['noise']}", []).append(line)
    return groups


def figures(lines: Iterable[Line]) -> dict[str, float]:
    """Errors found at some numbers of looks, and the smallest lead of the goal's own order over the others."""
    told: dict[str, float] = {}
    for name, group in grouped(lines).items():
        for goal in GOALS:
            curves = means(group, goal)
            told[f"{name}_{goal}_errors"] = round(statistics.mean(line["errors"][goal] for line in group), 1)
            for order, curve in curves.items():
                told |= {
                    f"{name}_{goal}_found_in_{looks}_{order}": round(curve[looks // EVERY - 1], 1)
                    for looks in LOOKS
                }
            for order in ("random", "smallest_lead"):
                told[f"{name}_{goal}_worst_lead_over_{order}"] = round(lead_over(curves, goal, order), 1)
    return told


def lead_over(curves: Mapping[str, list[float]], goal: str, order: str) -> float:
    """The smallest difference between the curve of a goal's own order and another one."""
    return min(own - other for own, other in zip(curves[goal], curves[order], strict=True))


def draw(lines: Iterable[Line]) -> None:
    """The curves of every problem and goal."""
    pyplot = need("matplotlib.pyplot", extra="plots", purpose="draw the curves")
    groups = grouped(lines)
    shape = {"figsize": (8, 2.9 * len(groups) + 0.4), "squeeze": False, "layout": "constrained"}
    figure, axes = pyplot.subplots(len(groups), len(GOALS), **shape)
    words = {"clean": "wrong given labels found", "relabel": "wrong suggestions found"}
    for row, (name, group) in zip(axes, groups.items(), strict=True):
        for axis, goal in zip(row, GOALS, strict=True):
            for order, curve in means(group, goal).items():
                looks = np.arange(len(curve) + 1) * EVERY
                width = 2.4 if order == goal else 1.3
                label = order.replace("_", " ")
                axis.plot(looks, [0, *curve], label=label, color=COLOURS[order], linewidth=width)
            axis.set_title(f"{name.replace('_', ' ')}, goal {goal}", fontsize=10)
            axis.set_xlabel("looks")
            axis.set_ylabel(words[goal])
            axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].legend(frameon=False, fontsize=8)
    figure.savefig(FIGURE, dpi=90)


if __name__ == "__main__":
    main()
