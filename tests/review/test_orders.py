"""The order of the queue, against a plain sort, and the spread of pairs of classes."""

import numpy as np
import pytest
import torch

from pencil.algorithm.top_rows import cut
from pencil.results import judge
from pencil.review.orders import (
    ALL,
    ASKED,
    CLEAN,
    FEW,
    GOALS,
    RELABELLED,
    STRETCH,
    WINDOW,
    order_by,
    spread,
)


def chunks(distribution, given, size, trusted=None):
    for rows in torch.arange(len(given)).split(size):
        yield judge(
            distribution[rows],
            given[rows],
            0.7,
            ids=[str(row) for row in rows.tolist()],
            first=int(rows[0]),
            trusted=None if trusted is None else trusted[rows],
        )


def verdicts_of(distribution, given):
    (judged,) = chunks(distribution, given, len(given))
    return judged.verdict.tolist()


@pytest.fixture
def beliefs():
    """Every pair of classes once at most in a window, so that the spread moves nothing."""
    generator = torch.Generator().manual_seed(3)
    logits = 9 * torch.rand(200, 1, generator=generator) * torch.rand(200, 50, generator=generator)
    logits[50:60] = logits[0]  # ties go by number
    given = torch.arange(200) % 50
    logits[torch.arange(0, 200, 5), given[::5]] += 12  # surely right
    return logits.softmax(dim=1), given


@pytest.mark.parametrize("size", [7, 200])
@pytest.mark.parametrize("verdicts", [*ASKED.values(), ALL])
@pytest.mark.parametrize("goal", GOALS)
def test_rows_come_by_their_chance_of_an_error(beliefs, goal, verdicts, size):
    distribution, given = beliefs
    found = order_by(goal, chunks(distribution, given, size), verdicts)
    wrong = {
        CLEAN: 1 - distribution[torch.arange(200), given],
        RELABELLED: 1 - distribution.max(dim=1).values,
    }[goal]
    asked = [row for row, verdict in enumerate(verdicts_of(*beliefs)) if verdict in verdicts]
    wanted = sorted(asked, key=lambda row: (-wrong[row], row))
    assert (len(wanted) == 200) is (verdicts == ALL)
    assert found.rows.tolist() == wanted
    assert found.chances.tolist() == pytest.approx(wrong[wanted].tolist())


def test_trusted_rows_are_left_out(beliefs):
    distribution, given = beliefs
    trusted = torch.arange(200) % 3 == 0
    rows = order_by(CLEAN, chunks(distribution, given, 30, trusted), ALL).rows.tolist()
    assert sorted(rows) == [row for row in range(200) if row % 3]


@pytest.mark.parametrize("goal", GOALS)
def test_cut_rows_are_ordered_as_the_whole_rows_they_represent(beliefs, goal):
    distribution, given = beliefs
    top = cut(distribution.log(), 4).softmax()
    whole = order_by(goal, chunks(top.dense(), given, 64), ASKED[RELABELLED])
    found = order_by(goal, chunks(top, given, 64), ASKED[RELABELLED])
    assert found.rows.tolist() == whole.rows.tolist()


def test_rows_of_one_pair_are_kept_apart():
    pairs = np.arange(1000, 1000 + WINDOW)
    pairs[:50] = 7  # fifty near-duplicates at the top
    shown = pairs[spread(pairs)]
    for start in range(0, WINDOW, STRETCH):
        assert (shown[start : start + STRETCH] == 7).sum() == FEW or start >= 50 / FEW * STRETCH - STRETCH
    assert shown[: 2 * FEW].tolist() == [7, 7, 7, 1050, 1051, 1052]
    assert (shown == 7).sum() == 50
    others = shown[shown != 7]
    assert others.tolist() == sorted(others.tolist())  # which keep their order


def test_a_pair_that_fills_a_window_is_spread_evenly():
    pairs = np.concatenate([np.full(180, 7), np.arange(1000, 1060)])
    shown = pairs[spread(pairs)]
    longest = max(len(run) for run in "".join("7" if pair == 7 else " " for pair in shown).split())
    assert len(shown) == WINDOW
    assert longest <= 2 * FEW


def test_no_row_leaves_its_window():
    pairs = np.random.default_rng(0).integers(4, size=5 * WINDOW + 17)
    order = spread(pairs)
    assert sorted(order.tolist()) == list(range(len(pairs)))
    assert (order // WINDOW).tolist() == (np.arange(len(pairs)) // WINDOW).tolist()


def test_a_single_pair_and_no_rows_stay_as_they_are():
    assert spread(np.full(500, 3)).tolist() == list(range(500))
    assert spread(np.array([], dtype=np.int64)).tolist() == []
