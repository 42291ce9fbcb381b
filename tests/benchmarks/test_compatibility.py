"""The committed flips add up, and the docs show what they say."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def compatibility(imported):
    with imported("compatibility") as module:
        yield module


@pytest.fixture(scope="module")
def results(compatibility):
    found = compatibility.read(ROOT / "benchmarks" / "results" / "compatibility.jsonl")
    assert {each.classes for each in found} == {10, 100, 200}
    return found


def test_flips_are_right_or_wrong_and_account_for_every_right_label(results):
    for each in results:
        assert each.labels_changed == each.right_flips + each.wrong_flips
        assert each.lost <= each.wrong_flips
        gained = 100 * (each.right_flips - each.lost) / each.rows
        assert each.labels_after - each.labels_before == pytest.approx(gained, abs=0.002)


def test_the_docs_show_the_committed_results(compatibility, results):
    text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert compatibility.table(results) in text


def test_the_same_work_is_shared_by_all_forms(results):
    """Within a seed, rows and noise are the same for every form and pull."""
    works = {}
    for each in results:
        works.setdefault((each.classes, each.limit, each.seed), set()).add((each.rows, each.labels_before))
    assert all(len(found) == 1 for found in works.values())
