"""What the next looks are expected to find, and when to stop."""

import numpy as np
import pytest

from pencil.review import Review
from pencil.review.history import Who
from pencil.review.items import forecast, looks_until_stop
from pencil.run import LabelTable, RunDirectory

ANN = Who("Ann", "window 1")


def test_the_forecast_sums_the_next_chances():
    told = forecast([0.5, 0.25, 0.25, 1.0], 3, 1.5)
    assert told == {"looks": 3, "expected": 1.0, "stop_below": 1.5, "stop": True}
    assert forecast([0.5, 0.25, 0.25, 1.0], 3, 1.0)["stop"] is False
    assert forecast([0.5], 3, 0.1) == {"looks": 1, "expected": 0.5, "stop_below": 0.1, "stop": False}


def test_the_moment_to_stop_is_the_first_at_which_the_forecast_says_so():
    chances = np.sort(np.random.default_rng(0).random(500))[::-1].tolist()
    wanted = next(place for place in range(501) if place == 500 or forecast(chances[place:], 100, 20)["stop"])
    assert 0 < wanted < 500
    assert looks_until_stop(chances, 100, 20) == wanted
    assert looks_until_stop(chances, 100, 101) == 0
    assert looks_until_stop([1.0] * 300, 100, 0) is None


@pytest.mark.parametrize("goal", ["clean", "relabel"])
def test_a_review_forecasts_by_its_goal(make_run, tmp_path, goal):
    run = make_run(tmp_path, rows=300, images=False)
    review = Review(RunDirectory.open(run), goal=goal, stop_below=10)
    judged = list(LabelTable.open(RunDirectory.open(run)).chunks())
    wrong = np.concatenate(
        [(part.p_wrong if goal == "clean" else 1 - part.confidence)[part.verdict > 0] for part in judged]
    )
    before = review.start()["forecast"]
    assert before["expected"] == pytest.approx(np.sort(wrong)[::-1][:100].sum(), rel=0.05)
    items = review.take(ANN.client, 90)["items"]
    after = review.decide(ANN, "t", [(item["row"], 0) for item in items], "keep")["forecast"]
    assert after["expected"] < before["expected"]
    assert before["stop"] is False
    review.close()
