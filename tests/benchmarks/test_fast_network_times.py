"""The docs show the recorded times of the fast network."""

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def test_the_docs_show_what_was_recorded(imported):
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    with imported("fast_network") as benchmark:
        recorded = json.loads(benchmark.RECORDED.read_text(encoding="utf-8"))
        for name in benchmark.NETWORKS:
            ratio = recorded.get(f"{name}_over_fast", 1)
            assert f"| {recorded[f'seconds_{name}']} | {ratio} |" in page
    reached = (
        f"images it reaches {recorded['accuracy_fast']} % of the test set after {recorded['epochs']} epochs"
    )
    assert f"{recorded['rows']:,} {reached}" in page


def test_networks_take_turns_and_ratios_are_those_of_their_times(imported):
    with imported("fast_network") as benchmark:
        found = benchmark.times(repeats=1)
    assert set(found) >= {"seconds_fast", "preact_resnet20_over_fast", "preact_resnet32_over_fast"}
    ratio = found["seconds_preact_resnet32"] / found["seconds_fast"]
    assert found["preact_resnet32_over_fast"] == pytest.approx(ratio, abs=0.02)
