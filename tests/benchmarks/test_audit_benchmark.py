"""The simulated audits: their figures are in the docs, and the simulation finds a bound that fails too often."""

import json
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def audit(imported):
    with imported("audit") as module:
        yield module


def test_the_page_quotes_the_measured_figures(audit):
    kept = json.loads(audit.RESULTS.read_text())
    page = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    names = {
        "exact": "exact bound",
        "live": "live bound, any time",
        "thresholds": "threshold by",
        "strata": "interval over",
    }
    for part, words in names.items():
        line = next(line for line in page.splitlines() if line.startswith(f"| {words}"))
        figures = [kept["figures"][f"{part}_failed_percent{worst}"] for worst in ("", "_worst")]
        assert line.endswith("| " + " | ".join(f"{figure:.1f} %" for figure in figures) + " |")
    for name, words in (
        ("median", "live bound, median"),
        ("ninety_percent_within", "live bound, 90 %"),
        ("fixed_sample", "exact bound, fixed sample"),
    ):
        line = next(line for line in page.splitlines() if line.startswith(f"| {words}"))
        assert line.endswith("| " + " | ".join(f"{row[name]:.0f}" for row in kept["looks"]) + " |")
    assert kept["figures"]["false_certificates_percent"] <= 5
    assert kept["figures"]["settings_above"] == 0


def test_a_bound_that_fails_is_found(audit, monkeypatch):
    monkeypatch.setattr(audit, "SIZES", (200,))
    honest = audit.exact_failures(np.random.default_rng(0), 300)
    assert max(row["failed"] for row in honest) < 0.1
    monkeypatch.setattr(audit, "most_errors", lambda size, checked, errors, _: size * errors // checked)
    assert max(row["failed"] for row in audit.exact_failures(np.random.default_rng(0), 300)) > 0.3


def test_all_parts_measure(audit, monkeypatch):
    monkeypatch.setattr(audit, "SIZES", (200, 500))
    figures, tables = audit.measure(20, seed=0)
    assert figures["looks_at_0_percent"] == 72
    assert figures["audits_per_setting"] == 20
    assert set(tables) == set(audit.PARTS)
