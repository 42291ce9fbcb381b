"""Parts of the method are compared on the same problem and seed; long tails have their ratio."""

from pathlib import Path

import pytest
import torch

from pencil.data import Examples, RowNumbers, TensorInputs
from pencil.stores import GivenLabels

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def ablation(imported):
    with imported("ablation") as module:
        yield module


def line(part, value, noise="n", seed=100):
    return {
        "data": "d",
        "noise": noise,
        "part": part,
        "seed": seed,
        **dict.fromkeys(("validation", "test", "right"), value),
    }


def test_a_part_is_compared_with_soft_on_the_same_problem_and_seed(ablation):
    lines = [
        line("soft", 50.0),
        line("soft", 60.0, seed=101),
        line("round", 51.0),
        line("round", 63.0, "other"),
    ]
    assert ablation.figures(lines) == {"round_validation": 1.0, "round_test": 1.0, "round_right": 1.0}


def test_a_start_is_a_distribution_for_every_part(ablation):
    features = torch.randn(60, 5, generator=torch.Generator().manual_seed(0))
    given = torch.arange(60) % 3
    assert ablation.started("given", features, given, 3) is None
    for part in ("hard", "soft", "neighbours"):
        found = ablation.started(part, features, given, 3)
        torch.testing.assert_close(found.sum(1), torch.ones(60))


def test_features_keep_their_sizes_against_each_other(ablation):
    values = torch.randn(500, 2, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 3.0]) + 5
    examples = Examples(TensorInputs(values), GivenLabels.of([0, 1] * 250), ("a", "b"), RowNumbers(500))
    found = ablation.Standardised(examples).features
    torch.testing.assert_close(found.mean(0), torch.zeros(2), atol=1e-5, rtol=0)
    torch.testing.assert_close(found.square().mean(), torch.tensor(1.0))
    torch.testing.assert_close(found.std(0)[1] / found.std(0)[0], values.std(0)[1] / values.std(0)[0])


def test_what_is_recorded_is_not_measured_again(ablation, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(ablation, "RECORDED", tmp_path / "lines.jsonl")
    monkeypatch.setattr("sys.argv", ["ablation.py", "--quick", "--write", "--json"])
    monkeypatch.setattr(ablation, "data_folder", lambda: None)
    measured = []

    def one(*problem):
        measured.append(problem)
        if len(measured) == 2:
            raise KeyboardInterrupt
        return dict(zip(("data", "noise", "part", "seed"), problem, strict=True)) | dict.fromkeys(
            ("validation", "test", "right"), 50.0
        )

    monkeypatch.setattr(ablation, "measured", one)
    with pytest.raises(KeyboardInterrupt):
        ablation.main()
    ablation.main()
    first, second = ablation.problems(quick=True)
    assert measured == [first, second, second]
    assert [ablation.problem_of(each) for each in ablation.recorded()] == [first, second]


def test_the_docs_show_what_was_recorded(ablation):
    lines = ablation.recorded()
    assert {ablation.problem_of(each) for each in lines} == set(ablation.problems(quick=False))
    assert ablation.table(lines) in (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")


def test_a_long_tail_has_its_ratio(imported):
    with imported("long_tail") as long_tail:
        labels = torch.arange(5).repeat(200)
        counts = labels[long_tail.tail(labels, 100)].bincount()
        assert counts.tolist() == [200, 63, 20, 6, 2]
        assert torch.equal(long_tail.tail(labels, 1), torch.arange(1000))
