"""The counting of the simulated review, on a few rows by hand."""

import numpy as np
import pytest
import torch


@pytest.fixture(scope="module")
def orders(imported):
    with imported("review_orders") as module:
        yield module


def test_errors_are_counted_after_every_fifty_looks(orders):
    errors = np.zeros(200, dtype=bool)
    errors[[10, 60, 61, 199]] = True
    assert orders.found(np.arange(200), errors) == [1, 3, 3, 4]
    assert orders.found(np.arange(200)[::-1], errors) == [1, 1, 3, 4]


def test_the_former_order_shows_doubtful_rows_first_by_the_smallest_lead(orders):
    belief = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.55, 0.45], [0.05, 0.95]])
    given = torch.tensor([0, 1, 0, 1, 0])  # kept, relabelled, review, review, relabelled
    assert orders.by_smallest_lead(belief, given).tolist() == [3, 2, 1, 4, 0]


def test_the_lead_is_the_smallest_difference_of_the_means(orders):
    def line(seed, clean, random):
        curves = {"clean": clean, "random": random}
        return {"data": "cub", "noise": "n", "seed": seed, "found": {"clean": curves}}

    lines = [line(0, [4, 10], [1, 9]), line(1, [6, 10], [1, 5])]
    (group,) = orders.grouped(lines).values()
    curves = orders.means(group, "clean")
    assert curves == {"clean": [5, 10], "random": [1, 7]}
    assert orders.lead_over(curves, "clean", "random") == 3
