"""Whether the answers can be relied on: calibration, ranking, intervals and relabels on problems with known truth.

    python benchmarks/cifar10_lite0.py CIFAR10 FEATURES.npz --every 5  # once; then export CIFAR10_FEATURES=FEATURES.npz
    python benchmarks/answers.py --json                                # continues benchmarks/results/answers.jsonl
    python benchmarks/answers.py --json --quick                        # under a minute; absent sets are skipped
    python benchmarks/answers.py --tuning --out FILE.jsonl             # seeds 100 to 102, for choosing constants
    python benchmarks/answers.py --table                               # tables of what is there, as Markdown
    python benchmarks/answers.py --write                               # the same into docs/answers.md

The problems are in ``answers_grid``, the scores in ``answers_scores``, the measures in ``answers_estimates`` and the
figures in ``answers_figures``. A line is written as each is done; the same command continues. ``--scorer`` limits what
is measured, ``--again`` measures a scorer anew.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from answers_estimates import Line, measured
from answers_figures import figures, tables
from answers_grid import SETS, Noise, Problem, available, noises, problem
from answers_scores import TRAINED, cleanlab_score, trained_scores
from common import between_marks, data_folder, finish, write_lines

from pencil.bench.ranking import auroc, average_precision, expected_calibration_error
from pencil.engine import read_json_lines
from pencil.results import read_json

RESULTS = Path(__file__).parent / "results" / "answers.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "answers.md"
FINAL, TUNING = (0, 1, 2), (100, 101, 102)
SCORERS = ("estimates", "cleanlab", *TRAINED)
QUICK = {
    "cub": ("clean", "symmetric_40", "circular_40"),
    "cifar10": ("people_aggre",),
    "cifar100": ("symmetric_20", "people"),
}
QUICK_CLEANLAB = ("cifar100", "symmetric_20")


def main() -> None:
    """Measure what is asked for and not there yet, then print the figures."""
    arguments = parsed()
    data_folder()
    torch.set_num_threads(1)
    lines = [] if arguments.quick else read_json_lines(arguments.out)
    if arguments.again:
        lines = [line for line in lines if line["scorer"] not in arguments.again]
        write_lines(arguments.out, lines)
    if arguments.table or arguments.write:
        told = tables(lines, {**figures(lines), **elsewhere()})
        if arguments.write:
            PAGE.write_text(between_marks(PAGE.read_text(encoding="utf-8"), told), encoding="utf-8")
        print(told)
        return
    for line in measurements(arguments, {key(line) for line in lines}):
        lines.append(line)
        print(json.dumps(line), file=sys.stderr, flush=True)
        if not arguments.quick:
            append(arguments.out, line)
    finish({**figures(lines), **elsewhere()}, as_json=arguments.json)


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few problems, seed 0, nothing kept")
    parser.add_argument("--json", action="store_true", help="print the figures as one line of JSON")
    parser.add_argument("--tuning", action="store_true", help="seeds 100 to 102")
    parser.add_argument("--table", action="store_true", help="print tables of the results, measure nothing")
    parser.add_argument("--write", action="store_true", help=f"write them into docs/{PAGE.name}")
    parser.add_argument("--data", action="append", choices=SETS, help="may be repeated; all by default")
    parser.add_argument("--noise", action="append", help="may be repeated; all by default")
    parser.add_argument("--seed", action="append", type=int, help="may be repeated")
    parser.add_argument("--scorer", action="append", choices=SCORERS, help="may be repeated; all by default")
    parser.add_argument("--again", action="append", choices=SCORERS, help="measure this scorer anew")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.tuning and arguments.out == RESULTS:
        parser.error("--tuning: name another file with --out; the committed results are of the final seeds")
    return arguments


def measurements(arguments: argparse.Namespace, known: set[tuple[str, ...]]) -> Iterator[Line]:
    """The lines that are missing, scorer by scorer."""
    found = list(wanted(arguments))
    for scorer in arguments.scorer or (SCORERS[:2] if arguments.quick else SCORERS):
        for data, noise, seed in found:
            slow = scorer == "cleanlab" and arguments.quick and (data, noise.name) != QUICK_CLEANLAB
            empty = scorer != "estimates" and noise.name == "clean"  # nothing is wrong, so nothing is ranked
            if not slow and not empty and (data, noise.name, str(seed), scorer) not in known:
                yield from measure(problem(data, noise, seed), scorer)


def wanted(arguments: argparse.Namespace) -> Iterator[tuple[str, Noise, int]]:
    """Data, noise and seed of every problem that is asked for."""
    seeds = arguments.seed or ((0,) if arguments.quick else TUNING if arguments.tuning else FINAL)
    sets = [data for data in available() if data in (arguments.data or SETS)]
    for seed, data in itertools.product(seeds, sets):
        for noise in noises(data):
            asked = noise.name in (arguments.noise or (QUICK[data] if arguments.quick else (noise.name,)))
            again = seed != seeds[0] and data == "cifar10" and noise.people  # the same rows and labels
            if asked and not again:
                yield data, noise, seed


def measure(found: Problem, scorer: str) -> Iterator[Line]:
    """The lines of a scorer on a problem."""
    where = {"data": found.data, "noise": found.noise.name, "seed": found.seed}
    marks = {"near_uniform": found.noise.near_uniform, "people": found.noise.people}
    if scorer == "estimates":
        yield {**where, "scorer": scorer, **marks, **measured(found)}
        return
    scores = {scorer: cleanlab_score(found)} if scorer == "cleanlab" else trained_scores(found, scorer)
    for name, score in scores.items():
        yield {
            **where,
            "scorer": name,
            "auroc": auroc(score, found.wrong),
            "ap": average_precision(score, found.wrong),
            "ece": None if name == "mean_margin" else expected_calibration_error(score, found.wrong),
        }


def elsewhere() -> dict[str, float]:
    """The figures of audits and of real errors, which have commands of their own, from their committed results."""
    wanted = {
        "audit": ["false_certificates_percent"],
        "found_errors": ["confirmed_in_100_looks", "confirmed_in_100_looks_cleanlab"],
    }
    found: dict[str, float] = {}
    for name, keys in wanted.items():
        path = RESULTS.with_name(f"{name}.json")
        if path.is_file():
            kept = read_json(path)["figures"]
            found |= {each: kept[each] for each in keys}
        print(f"{', '.join(keys)}: of python benchmarks/{name}.py --write", file=sys.stderr)
    return found


def key(line: Line) -> tuple[str, ...]:
    """Identifies a line."""
    return (line["data"], line["noise"], str(line["seed"]), line["scorer"])


def append(path: Path, line: Line) -> None:
    """Add a line to the results."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
