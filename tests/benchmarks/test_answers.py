"""The measures of the answers: what counts as within the asked rate, as a missed alarm and as a lead."""

import pytest
import torch

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def figures_module(imported):
    with imported("answers_figures") as module:
        yield module


@pytest.fixture(scope="module")
def grid_module(imported):
    with imported("answers_grid") as module:
        yield module


@pytest.fixture(scope="module")
def estimates_module(imported):
    with imported("answers_estimates") as module:
        yield module


def line(**changes):
    """Return the line of a problem in which everything is as promised."""
    return {
        "data": "cub",
        "noise": "symmetric_40",
        "seed": 0,
        "scorer": "estimates",
        "near_uniform": True,
        "people": False,
        "rows": 1000,
        "ece": 0.02,
        "ece_after_answers": 0.02,
        "alarms": [],
        "auroc": 0.98,
        "ap": 0.9,
        "rate_covered": True,
        "suggested_error_covered": True,
        "per_class_covered": 1.0,
        "relabels_5": 100,
        "false_relabels_5": 7,
        "relabels_10": 100,
        "false_relabels_10": 12,
        "relabels_5_after_answers": 100,
        "false_relabels_5_after_answers": 7,
        "relabels_10_after_answers": 100,
        "false_relabels_10_after_answers": 12,
        **changes,
    }


def test_two_points_over_the_asked_rate_are_allowed_and_no_more(figures_module):
    lines = [
        line(),
        line(false_relabels_5=8),
        line(false_relabels_10=13),
        line(relabels_5=0, false_relabels_5=0),
    ]
    figures = figures_module.figures(lines)
    assert figures["cells"] == 4
    assert figures["cells_within_5_percent"] == 3
    assert figures["cells_within_10_percent"] == 3
    assert figures["cells_within_asked_rate"] == 2
    assert figures["cells_within_asked_rate_after_answers"] == 4


def test_an_alarm_is_missed_where_the_error_is_large_and_false_where_noise_is_near_uniform(figures_module):
    structured = line(near_uniform=False, ece=0.2, alarms=["structure"])
    lines = [line(ece=0.2), structured, line(alarms=["structure"]), line()]
    figures = figures_module.figures(lines)
    assert figures["alarms_missed"] == 1
    assert figures["alarms_false"] == 1


def test_worst_errors_are_of_their_own_kind_of_noise(figures_module):
    lines = [line(ece=0.03), line(near_uniform=False, ece=0.4, ece_after_answers=0.04)]
    figures = figures_module.figures(lines)
    assert figures["ece_near_uniform_worst"] == 0.03
    assert figures["ece_after_answers_worst"] == 0.04


def test_a_lead_is_of_the_mean_over_seeds(figures_module):
    rival = {"data": "cub", "noise": "symmetric_40", "scorer": "cleanlab", "auroc": 0.9, "ece": None}
    lines = [
        line(ap=0.9),
        line(seed=1, ap=0.8),
        {**rival, "seed": 0, "ap": 0.8},
        {**rival, "seed": 1, "ap": 0.89},
    ]
    figures = figures_module.figures(lines)
    assert figures["problems_ap_ahead_of_cleanlab"] == 1
    lines[-1]["ap"] = 0.95
    assert figures_module.figures(lines)["problems_ap_ahead_of_cleanlab"] == 0


def test_the_first_class_keeps_ten_times_the_rows_of_the_last(grid_module):
    truth = torch.arange(5).repeat(200)
    rows = grid_module.imbalanced_rows(truth, 5, seed=3)
    counts = truth[rows].bincount()
    assert counts.tolist() == [200, 112, 63, 36, 20]
    assert rows.tolist() == sorted(set(rows.tolist()))


def test_a_problem_of_known_truth_is_measured_against_it(estimates_module, grid_module):
    generator = torch.Generator().manual_seed(0)
    truth = torch.randint(4, (800,), generator=generator)
    features = 2 * torch.eye(4)[truth].repeat(1, 3) + torch.randn(800, 12, generator=generator)
    flipped = torch.rand(800, generator=generator) < 0.3
    given = torch.where(flipped, (truth + 1 + torch.randint(3, (800,), generator=generator)) % 4, truth)
    noise = grid_module.Noise("symmetric_30", {}, near_uniform=True)
    examples = type("Rows", (), {"num_classes": 4})()
    found = grid_module.Problem("points", noise, 0, examples, features, given, truth)
    result = estimates_module.measured(found)
    assert result["true_rate"] == pytest.approx(float(flipped.float().mean()), abs=1e-6)
    assert result["rate_low"] <= result["rate"] <= result["rate_high"]
    assert result["auroc"] > 0.9
    assert result["right_best"] > result["right_given"]
    assert result["false_relabels_10"] <= result["relabels_10"]
