"""The comparison's figures, recomputed from the committed results of every training.

    python benchmarks/results.py [--json]
    python benchmarks/results.py --write          # docs/comparison-tables.md and the figure of docs/comparison.md

A cell is a data set with a noise. ``auto`` is PENCIL as this package does it by default on features: from the
closed-form start, with the same settings on every data set. ``pencil`` starts from the given labels, as in the paper,
and is tuned like the other methods. A method is ahead where its last-epoch test accuracy, mean over the seeds that both
have, is above that of every method with one network, forward correction with the true matrix included. The ceilings
(clean labels; the oracle that deletes exactly the wrong ones) and two-network methods do not count.

``cells_*`` are of ``auto``, ``pencil_*`` of ``pencil``. ``*_outside_error``: ahead by more than one standard error of
the difference over seeds. ``cells_with_fewer_right_labels``: cells where the labels handed out, with every verdict
``relabel`` applied, have fewer right ones than were given. ``cost_over_cross_entropy`` is examples sent forward in
training. F1 and cost are compared with cleanlab where both were run: same data, noise and seed. Other methods from the
start (the variant ``prototypes``) have a table of their own, and ``start_*`` are its figures; data sets with all their
rows (``*_all``), few of them and long tails have tables too, and do not count as cells. ``images_*`` are those of
``images_auto.py``.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from common import between_marks, finish
from images_auto import recorded as recorded_images
from images_auto_tables import at_symmetric_50
from results_figure import draw

from pencil.bench import read_results, tabulate
from pencil.engine import read_json_lines

RESULTS = Path(__file__).parent / "results"
COMPARISONS = ("cub_features", "cifar10_features", "cifar100_features")
SHAPES = RESULTS / "comparison" / "cifar_shapes.jsonl"
AUTO, ALL_ROWS = "auto", "_all"
NOT_PEERS = ("pencil", AUTO, "clean", "oracle", "co_teaching", "dividemix")
DOCS = Path(__file__).parents[1] / "docs"
TABLES = DOCS / "comparison-tables.md"
FIGURE = DOCS / "figures" / "comparison.png"
METRICS = (
    *("last", "best", "labels_after", "posterior_labels_after", "f1", "posterior_f1"),
    *("average_precision", "posterior_average_precision", "auroc", "forward_passes"),
)
Line = dict[str, Any]
Cell = tuple[str, str]


def main() -> None:
    """Print the figures and who leads in each cell, or write the page's tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    lines = committed()
    if arguments.write:
        TABLES.write_text(written(TABLES.read_text(encoding="utf-8"), lines), encoding="utf-8")
        draw(lines, AUTO, FIGURE)
    if not arguments.json:
        print(standing(lines))
    finish(figures(lines), as_json=arguments.json)


def recorded() -> list[Line]:
    """Every training of the comparisons."""
    files = [RESULTS / "comparison" / f"{name}.jsonl" for name in COMPARISONS]
    return [line for file in files if file.is_file() for line in read_results(file)]


def committed() -> list[Line]:
    """The trainings that are compared."""
    return [line for line in recorded() if line["variant"] == "default" and not _has_all_rows(line)]


def of_other_shapes() -> list[Line]:
    """The trainings on all rows of a data set, on few of them, and on long tails."""
    whole = [line for line in recorded() if line["variant"] == "default" and _has_all_rows(line)]
    return whole + (read_results(SHAPES) if SHAPES.is_file() else [])


def _has_all_rows(line: Line) -> bool:
    return str(line["data"]).endswith(ALL_ROWS)


def started_peers() -> list[Line]:
    """Other methods from the closed-form start, with ``auto`` on the same seeds."""
    peers = [line for line in recorded() if line["variant"] == "prototypes"]
    seeds = {(line["data"], line["noise"], line["seed"]) for line in peers}
    own = [
        line
        for line in committed()
        if line["method"] == AUTO and (line["data"], line["noise"], line["seed"]) in seeds
    ]
    return [line | {"variant": "default"} for line in (*peers, *own)]


def figures(lines: Sequence[Line]) -> dict[str, float]:
    """All figures, by name."""
    cells = {(line["data"], line["noise"]) for line in lines if line["method"] == AUTO}
    own = [line for line in lines if (line["data"], line["noise"]) in cells]
    return {
        **ahead(own, AUTO),
        **against_bounds(own),
        **{f"pencil_{name}": value for name, value in ahead(lines).items()},
        **against_started(started_peers()),
        **against_cleanlab(lines, cleanlab_lines()),
        **at_symmetric_50(recorded_images()),
    }


def cleanlab_lines() -> list[Line]:
    """Every cleanlab measurement."""
    return read_json_lines(RESULTS / "comparison" / "cleanlab.jsonl")


def cells_of(lines: Iterable[Line]) -> list[Cell]:
    """Data sets with noises, in order."""
    return list(dict.fromkeys((line["data"], line["noise"]) for line in lines))


def differences(lines: Sequence[Line], cell: Cell, ours: str = "pencil") -> dict[str, list[float]]:
    """How far we are ahead of every other method, in points, for each seed that both have."""
    scores: dict[str, dict[int, float]] = {}
    for line in lines:
        if (line["data"], line["noise"]) == cell:
            scores.setdefault(line["method"], {})[line["seed"]] = 100 * line["test_last"]
    own = scores.pop(ours, {})
    shared = {other: [own[seed] - of[seed] for seed in of if seed in own] for other, of in scores.items()}
    return {other: found for other, found in shared.items() if found}


def leads(lines: Sequence[Line], cell: Cell, ours: str = "pencil") -> dict[str, float]:
    """How far we are ahead of each one-network peer, in points, over the seeds that both have."""
    found = differences(lines, cell, ours)
    return {peer: statistics.mean(values) for peer, values in found.items() if peer not in NOT_PEERS}


def ahead(lines: Sequence[Line], ours: str = "pencil") -> dict[str, float]:
    """How many cells there are, and in how many we are ahead of all peers, and of all that are told nothing."""
    found = [leads(lines, cell, ours) for cell in cells_of(lines)]
    told_nothing = [{peer: lead for peer, lead in each.items() if peer != "forward_known"} for each in found]
    return {
        "cells": len(found),
        "cells_ahead_of_one_network_peers": sum(min(each.values()) > 0 for each in found if each),
        "cells_ahead_of_peers_told_nothing": sum(min(each.values()) > 0 for each in told_nothing if each),
    }


def against_bounds(lines: Sequence[Line]) -> dict[str, float]:
    """``auto`` against peers outside one standard error, the oracle, cross entropy, and the given labels."""
    found = [differences(lines, cell, AUTO) for cell in cells_of(lines)]
    peers = [
        {peer: of for peer, of in each.items() if peer not in (*NOT_PEERS, "forward_known")} for each in found
    ]
    against = [statistics.mean(each["cross_entropy"]) for each in found]
    return {
        "cells_ahead_outside_error": sum(all(map(_is_ahead, each.values())) for each in peers),
        "cells_ahead_of_forward_known": sum(statistics.mean(each["forward_known"]) > 0 for each in found),
        "cells_at_or_above_oracle": sum(statistics.mean(each["oracle"]) >= 0 for each in found),
        "cells_below_cross_entropy": sum(lead < 0 for lead in against),
        "worst_against_cross_entropy": round(min(against), 2),
        "cells_with_fewer_right_labels": sum(_relabelled(lines, cell) < 0 for cell in cells_of(lines)),
        "cost_over_cross_entropy": round(_cost(lines, AUTO) / _cost(lines, "cross_entropy"), 4),
    }


def _relabelled(lines: Sequence[Line], cell: Cell) -> float:
    """How many more labels are right in a cell after every verdict ``relabel`` was applied, as a share."""
    own = [line for line in lines if (line["data"], line["noise"], line["method"]) == (*cell, AUTO)]
    return float(statistics.mean(line["posterior_labels_after"] - line["labels_before"] for line in own))


def _cost(lines: Sequence[Line], method: str) -> float:
    """Examples sent forward in a training, mean over the cells."""
    return float(statistics.mean(line["forward_passes"] for line in lines if line["method"] == method))


def against_started(lines: Sequence[Line]) -> dict[str, float]:
    """How ``auto`` compares with each method from the same start: points ahead, mean over the cells."""
    found: dict[str, list[float]] = {}
    for cell in cells_of(lines):
        for peer, values in differences(lines, cell, AUTO).items():
            found.setdefault(peer, []).append(statistics.mean(values))
    return {f"start_ahead_of_{peer}": round(statistics.mean(each), 2) for peer, each in found.items()}


def _is_ahead(values: Sequence[float]) -> bool:
    """Whether the mean difference is above one standard error of it."""
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return statistics.mean(values) > error


def against_cleanlab(lines: Sequence[Line], cleanlab: Sequence[Line]) -> dict[str, float]:
    """Mean F1 of both on the same problems, and PENCIL's share of cleanlab's cost; nothing where none was measured."""
    ours = {(line["data"], line["noise"], line["seed"]): line for line in lines if line["method"] == "pencil"}
    pairs = [
        (ours[key], line) for line in cleanlab if (key := (line["data"], line["noise"], line["seed"])) in ours
    ]
    if not pairs:
        return {}
    return {
        "f1_pencil": round(100 * statistics.mean(mine["f1"] for mine, _ in pairs), 2),
        "f1_cleanlab": round(100 * statistics.mean(other["f1"] for _, other in pairs), 2),
        "cost_over_cleanlab": round(
            sum(mine["forward_passes"] for mine, _ in pairs)
            / sum(other["forward_passes"] for _, other in pairs),
            4,
        ),
        "problems_with_cleanlab": len(pairs),
    }


def standing(lines: Sequence[Line]) -> str:
    """Markdown: per cell the accuracy of ``auto`` and of PENCIL, each with its nearest or leading peer."""
    rows = [
        "| data | noise | auto | nearest peer | ahead by | PENCIL | nearest peer | ahead by |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for data, noise in cells_of(lines):
        told = [_standing(lines, (data, noise), method) for method in (AUTO, "pencil")]
        rows.append(f"| {data} | {noise} | {' | '.join(told)} |")
    return "\n".join(rows)


def _standing(lines: Sequence[Line], cell: Cell, method: str) -> str:
    """Accuracy, nearest peer and lead of one method in a cell."""
    found = leads(lines, cell, method)
    if not found:
        return "– | – | –"
    peer = min(found, key=lambda name: found[name])
    own = [
        100 * line["test_last"]
        for line in lines
        if (line["data"], line["noise"], line["method"]) == (*cell, method)
    ]
    return f"{statistics.mean(own):.1f} | {peer} | {found[peer]:+.1f}"


def tables(lines: Sequence[Line]) -> str:
    """Everything the page shows: who leads, then every data set by every metric."""
    told = "\n".join(f"| `{name}` | {value:,} |" for name, value in figures(lines).items())
    parts = [f"| figure | |\n|---|---|\n{told}", standing(lines)]
    peers = started_peers()
    for data in dict.fromkeys(line["data"] for line in peers):
        shown = turned(tabulate([line for line in peers if line["data"] == data], ["last"]))
        parts.append(shown.replace("**", "**From the closed-form start: ", 1))
    shapes = of_other_shapes()
    for data in dict.fromkeys(line["data"] for line in shapes):
        own = [line for line in shapes if line["data"] == data]
        parts += [turned(tabulate(own, [metric])) for metric in ("last", "labels_after")]
    for data in dict.fromkeys(line["data"] for line in lines):
        own = [line for line in lines if line["data"] == data]
        parts += [turned(tabulate(own, [metric])) for metric in METRICS]
    return "\n\n".join(parts)


def turned(table: str) -> str:
    """A Markdown table with its title, noises in rows and methods in columns: there are more noises than fit a line."""
    title, _, *lines = table.splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if not line.startswith("| ---")]
    rows = [f"| {' | '.join(row)} |" for row in zip(*cells, strict=True)]
    return "\n".join([f"**{title}**", "", rows[0], "|---" * len(cells) + "|", *rows[1:]])


def written(page: str, lines: Sequence[Line]) -> str:
    """The page with its tables as the results have them."""
    return between_marks(page, tables(lines))


if __name__ == "__main__":
    main()
