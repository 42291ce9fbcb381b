"""The command that tries every promise, and the figures that the page on reliability quotes."""

import json
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def trust(imported):
    with imported("trust") as module:
        yield module


def test_every_kind_of_fault_is_a_part(trust):
    modules = {
        path.stem
        for path in (ROOT / "benchmarks" / "faults").glob("*.py")
        if "def measure(" in path.read_text()
    }
    assert modules == set(trust.PARTS)


@pytest.mark.parametrize(
    ("figures", "held"),
    [
        ({"kill_points": 3, "kill_points_identical": 3}, True),
        ({"kill_points": 3, "kill_points_identical": 2}, False),
        ({"kill_points": 0, "kill_points_identical": 0}, False),
    ],
)
def test_all_must_hold_and_something_must_be_tried(trust, figures, held):
    assert trust.holds("kills", figures) is held


def test_none_may_fail(trust):
    assert trust.holds("server", {"server_requests": 9, "server_5xx": 0})
    assert not trust.holds("server", {"server_requests": 9, "server_5xx": 1})


def test_the_page_quotes_the_figures_as_measured(trust):
    kept = json.loads(trust.RESULTS.read_text())
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    quoted = {
        name: int(value.replace(",", ""))
        for name, value in re.findall(r"^\| `(\w+)` \| ([\d,]+) \|", page, re.M)
    }
    assert quoted == {name: value for part in kept.values() for name, value in part["figures"].items()}


def test_parts_are_kept_beside_one_another(trust, tmp_path, monkeypatch):
    monkeypatch.setattr(trust, "RESULTS", tmp_path / "trust.json")
    trust.keep("server", {"figures": {"server_requests": 5, "server_5xx": 0}, "seconds": 1})
    trust.keep("kills", {"figures": {"kill_points": 2, "kill_points_identical": 2}, "seconds": 1})
    kept = json.loads((tmp_path / "trust.json").read_text())
    assert list(kept) == ["kills", "server"]
    assert kept["server"]["command"] == "python benchmarks/trust.py --only server --write"
