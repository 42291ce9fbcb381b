"""Parts of the method are compared on the same problem and seed; long tails have their ratio."""

import pytest
import torch

pytestmark = pytest.mark.slow


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


def test_a_long_tail_has_its_ratio(imported):
    with imported("long_tail") as long_tail:
        labels = torch.arange(5).repeat(200)
        counts = labels[long_tail.tail(labels, 100)].bincount()
        assert counts.tolist() == [200, 63, 20, 6, 2]
        assert torch.equal(long_tail.tail(labels, 1), torch.arange(1000))
