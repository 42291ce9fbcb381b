"""Seeds nobody looked at: counted as documented, and the docs show what was recorded."""

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def confirmation(imported):
    with imported("confirmation") as module:
        yield module


def line(method, test_last, seed=5, noise="n"):
    return {
        "data": "d",
        "noise": noise,
        "method": method,
        "variant": "default",
        "seed": seed,
        "test_last": test_last,
    }


def lines(noise="n", auto=(0.6, 0.64)):
    return [
        *(line("auto", value, seed, noise) for seed, value in enumerate(auto, 5)),
        *(line("pencil", 0.6, seed, noise) for seed in (5, 6)),
        *(line("cross_entropy", 0.5, seed, noise) for seed in (5, 6)),
        *(line("generalized_cross_entropy", 0.55, seed, noise) for seed in (5, 6)),
    ]


def test_a_lead_is_over_the_best_other_method_on_the_same_seeds(confirmation):
    assert confirmation.table(lines()).splitlines()[2:] == [
        "| d | n | 2 | 50.0 | 55.0 | 60.0 | 62.0 | +2.0 ± 2.0 |"
    ]
    assert confirmation.figures([*lines(), *lines("m", (0.7, 0.72)), *lines("o", (0.4, 0.5))]) == {
        "confirmation_cells": 3,
        "confirmation_cells_ahead": 2,
        "confirmation_cells_ahead_outside_error": 1,
    }


def test_a_training_is_recorded_once(confirmation, monkeypatch, tmp_path):
    monkeypatch.setattr(confirmation, "RECORDED", tmp_path / "confirmation.jsonl")
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines()))
    confirmation.record([tmp_path])
    confirmation.record([tmp_path])
    assert len(confirmation.recorded()) == len(lines())


def test_the_docs_show_what_was_recorded(confirmation):
    found = confirmation.recorded()
    assert {each["seed"] for each in found} == {5, 6, 7, 8, 9}
    assert confirmation.table(found) in (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
