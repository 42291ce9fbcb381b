"""Verdicts: the rule against a naive loop, whole rows and cut ones."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given as drawn
from hypothesis import strategies as st
from torch import Tensor

from pencil.algorithm import cut
from pencil.results import KEEP, RELABEL, REVIEW, VerdictRule, margins


def naive(distribution: Tensor, given: Tensor, rule: VerdictRule) -> list[int]:
    verdicts = []
    for row, label in zip(distribution.tolist(), given.tolist(), strict=True):
        ranked = sorted(row, reverse=True)
        sure = ranked[0] >= rule.confidence and ranked[0] - ranked[1] >= rule.margin
        verdicts.append(REVIEW if not sure else KEEP if row.index(ranked[0]) == label else RELABEL)
    return verdicts


@drawn(st.integers(2, 7), st.integers(0, 2**31), st.floats(0, 1), st.floats(0, 1))
def test_equals_a_naive_loop(classes: int, seed: int, confidence: float, margin: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    distribution = (4 * torch.randn(20, classes, generator=generator, dtype=torch.float64)).softmax(dim=1)
    given = torch.randint(classes, (20,), generator=generator)
    rule = VerdictRule(confidence=confidence, margin=margin)
    assert rule.verdicts(distribution, given).tolist() == naive(distribution, given, rule)


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        ([0.9, 0.06, 0.04], KEEP),
        ([0.06, 0.9, 0.04], RELABEL),
        ([0.4, 0.35, 0.25], REVIEW),
        ([0.72, 0.28, 0.0], REVIEW),
        ([0.72, 0.14, 0.14], KEEP),
    ],
    ids=["sure of the given", "sure of another", "sure of none", "too near a second", "far ahead"],
)
def test_the_rule_as_documented(row: list[float], verdict: int) -> None:
    assert VerdictRule().verdicts(torch.tensor([row]), torch.tensor([0])).tolist() == [verdict]


@pytest.mark.parametrize("k", [1, 2, 4, 5])
def test_cut_rows_have_the_margin_of_the_rows_they_stand_for(k: int) -> None:
    logits = torch.randn(50, 6, generator=torch.Generator().manual_seed(0))
    rows = cut(logits, k).softmax()
    assert torch.allclose(margins(rows), margins(rows.dense()), atol=1e-6)


def test_a_single_class_is_certain() -> None:
    assert margins(torch.ones(3, 1)).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(("field", "value"), [("confidence", 1.5), ("margin", -0.1)])
def test_a_share_beyond_its_bounds_is_refused(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"{field}: {value} must be between 0 and 1"):
        VerdictRule(**{field: value})
