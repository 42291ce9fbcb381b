"""The comparison's figures: counted as documented, and the committed ones as the docs tell them."""

import re
import statistics
import tomllib
from pathlib import Path

import pytest

from pencil.engine import read_json_lines

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def results(imported):
    with imported("results") as module:
        yield module


def line(method, test_last, noise="n", seed=0, **fields):
    return {"data": "d", "noise": noise, "method": method, "seed": seed, "test_last": test_last, **fields}


def test_a_cell_is_won_against_every_one_network_peer_on_shared_seeds(results):
    lines = [
        *(line("pencil", 0.7, seed=0), line("pencil", 0.5, seed=1)),
        *(line("cross_entropy", 0.65, seed=0), line("forward_known", 0.69, seed=0)),
        *(line("clean", 0.9), line("oracle", 0.8), line("co_teaching", 0.99)),
        *(line("pencil", 0.6, "m"), line("forward_known", 0.61, "m"), line("cross_entropy", 0.5, "m")),
        *(line("pencil", 0.6, "o"), line("cross_entropy", 0.6, "o")),
    ]
    assert results.leads(lines, ("d", "n")) == pytest.approx({"cross_entropy": 5.0, "forward_known": 1.0})
    assert results.ahead(lines) == {
        "cells": 3,
        "cells_ahead_of_one_network_peers": 1,
        "cells_ahead_of_peers_told_nothing": 2,
    }


def test_cleanlab_is_compared_on_the_same_problems_only(results):
    lines = [
        line("pencil", 0.7, f1=0.9, forward_passes=100),
        line("pencil", 0.7, seed=1, f1=0.1, forward_passes=900),
        line("cross_entropy", 0.7, f1=0.2, forward_passes=100),
    ]
    cleanlab = [line("cleanlab", 0.6, f1=0.8, forward_passes=400)]
    assert results.against_cleanlab(lines, cleanlab) == {
        "f1_pencil": 90.0,
        "f1_cleanlab": 80.0,
        "cost_over_cleanlab": 0.25,
        "problems_with_cleanlab": 1,
    }
    assert results.against_cleanlab(lines, []) == {}


def test_auto_is_compared_with_bounds_given_labels_cost_and_peers_from_the_same_start(results):
    right = {"labels_before": 0.6, "posterior_labels_after": 0.5, "forward_passes": 110}
    ours = [line("auto", value, seed=seed, **right) for seed, value in enumerate((0.70, 0.72, 0.74))]
    peers = [line("cross_entropy", 0.6, seed=seed, forward_passes=100) for seed in range(3)]
    known = [line("forward_known", 0.73, seed=seed) for seed in range(3)]
    oracle = [line("oracle", 0.72, seed=seed) for seed in range(3)]
    assert results.against_bounds([*ours, *peers, *known, *oracle]) == {
        "cells_ahead_outside_error": 1,
        "cells_ahead_of_forward_known": 0,
        "cells_at_or_above_oracle": 1,
        "cells_below_cross_entropy": 0,
        "worst_against_cross_entropy": 12.0,
        "cells_with_fewer_right_labels": 1,
        "cost_over_cross_entropy": 1.1,
    }
    assert results.against_started([*ours, *peers]) == {"start_ahead_of_cross_entropy": 12.0}


def test_data_sets_of_other_shapes_are_no_cells(results):
    others = {each["data"] for each in results.of_other_shapes()}
    assert others
    assert not others & {each["data"] for each in results.committed()}


def test_the_figure_is_drawn(results, tmp_path):
    pytest.importorskip("matplotlib")
    results.draw(results.committed(), results.AUTO, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_a_table_is_turned_over(results):
    table = "title\n\n| method | a | b |\n| --- | --- | --- |\n| pencil | 1 ± 2 | 3 |\n| peer | 4 | – |"
    assert results.turned(table).splitlines() == [
        *("**title**", "", "| method | pencil | peer |", "|---|---|---|"),
        *("| a | 1 ± 2 | 4 |", "| b | 3 | – |"),
    ]


def test_the_page_has_the_tables_of_the_committed_results(results):
    page = results.TABLES.read_text(encoding="utf-8")
    assert results.written(page, results.committed()) == page, "run: python benchmarks/results.py --write"


def test_the_opening_has_the_numbers_of_the_committed_results(results):
    opening = " ".join(
        (results.DOCS / "comparison.md").read_text(encoding="utf-8").partition("\n## ")[0].split()
    )
    found = results.figures(results.committed())
    cells = found["cells"]
    assert cells == found["pencil_cells"] == 29
    assert (
        f"no extra information, in {found['cells_ahead_of_peers_told_nothing']} of {cells} cells" in opening
    )
    assert f"In {found['cells_ahead_of_forward_known']} cells it is ahead of forward correction" in opening
    assert f"PENCIL leads in {found['pencil_cells_ahead_of_one_network_peers']} of {cells} cells" in opening


def test_the_landing_page_has_the_result_on_birds(results):
    lines = [
        each
        for each in results.committed()
        if (each["data"], each["noise"], each["method"]) == ("cub", "symmetric_40", "auto")
    ]
    assert len(lines) == 5
    mean = 100 * statistics.mean(each["test_last"] for each in lines)
    for page in ("README.md", "docs/index.md"):
        assert f" {mean:.1f} %" in (ROOT / page).read_text(encoding="utf-8")


HELD_OUT = 36_000  # rows whose given labels decide between settings, on CIFAR


def methods_of(grid):
    return tomllib.loads((ROOT / "benchmarks" / "grids" / f"{grid}.toml").read_text())["method"]


def settings_of(method):
    """What sets a method apart from its defaults: its own settings, and where phases begin."""
    own = {name: value for name, value in method.get("method", {}).items() if name != "name"}
    return own, method.get("phases")


def chosen(tried, agreement):
    """The first of the tried settings, unless the best leads it by more than its own standard error."""
    mean = {each: sum(shares) / len(shares) for each, shares in agreement.items()}
    first = tried[0]["name"]
    best = max((each["name"] for each in tried), key=mean.__getitem__)
    variances = [share * (1 - share) / HELD_OUT for share in agreement[best]]
    error = sum(variances) ** 0.5 / len(variances)
    name = best if mean[best] - mean[first] > error else first
    return next(each for each in tried if each["name"] == name)


@pytest.mark.parametrize("data", ["cifar10", "cifar100"])
def test_every_method_has_the_setting_that_its_trials_chose(results, data):
    agreement, tried = {}, {}
    for line in read_json_lines(results.RESULTS / "comparison" / f"{data}_tuning.jsonl"):
        agreement.setdefault(line["method"], []).append(line["validation_last"])
    for method in methods_of(f"{data}_tuning"):
        tried.setdefault(re.sub("_[b-j]$", "", method["name"]), []).append(method)
    compared = {method["name"]: method for method in methods_of(f"{data}_features")}
    assert len(tried) == 8
    for name, settings in tried.items():
        assert len(settings) == 10
        assert settings_of(compared[name]) == settings_of(chosen(settings, agreement))
