"""Corrections by audited rows: used where needed, close to the truth, and a distribution again."""

import pytest
import torch
from hypothesis import given as given_values
from hypothesis import strategies as st

from pencil.estimates.recalibrate import LEAST_SLOPE, Curve, Recalibration, fit_curve, recalibrate


def outcomes(p, seed):
    return torch.rand(len(p), generator=torch.Generator().manual_seed(seed)) < p


def probabilities(rows, seed=0):
    return torch.rand(rows, generator=torch.Generator().manual_seed(seed)).double() * 0.98 + 0.01


def test_calibrated_probabilities_are_rarely_corrected():
    found = [fit_curve(p := probabilities(100, seed), outcomes(p, 1000 + seed)) for seed in range(300)]
    assert sum(curve is not None for curve in found) <= 9  # 1 % by chance, and room for its scatter


def test_the_curve_that_made_the_outcomes_is_found():
    p, true = probabilities(20_000), Curve(-1.5, 0.4)
    found = fit_curve(p, outcomes(true(p), 1))
    assert found is not None
    assert found.shift == pytest.approx(-1.5, abs=0.08)
    assert found.slope == pytest.approx(0.4, abs=0.04)


def test_a_hundred_rows_cure_a_large_error():
    p, true = probabilities(5_000), Curve(2.0, 0.5)
    error = []
    for seed in range(20):
        rows = torch.randperm(5_000, generator=torch.Generator().manual_seed(seed))[:100]
        found = fit_curve(p[rows], outcomes(true(p[rows]), seed))
        assert found is not None
        error.append(float((found(p) - true(p)).abs().mean()))
    assert sum(error) / len(error) < 0.05 < float((p - true(p)).abs().mean())


def test_weights_count_like_repeated_rows():
    p = probabilities(300)
    happened = outcomes(Curve(1.0, 1.0)(p), 2)
    weights = torch.where(torch.arange(300) < 100, 2.0, 1.0)
    rows = torch.arange(300).repeat_interleave(weights.long())
    weighted, repeated = fit_curve(p, happened, weights), fit_curve(p[rows], happened[rows])
    assert weighted.shift == pytest.approx(repeated.shift, abs=0.05)
    assert fit_curve(p, happened, 7 * weights) == pytest.approx(weighted)


def test_a_correction_keeps_the_order():
    p = probabilities(200)
    found = fit_curve(p, outcomes(1 - p, 3))
    assert found.slope == LEAST_SLOPE
    assert fit_curve(p[:0], outcomes(p[:0], 3)) is None


def test_extreme_probabilities_are_corrected_too():
    p = torch.tensor([0.0, 1.0] * 50)
    found = fit_curve(p, torch.arange(100) % 4 < 2)
    assert found(p).tolist() == pytest.approx([0.4, 0.6] * 50, abs=0.02)  # the smallest slope


def posterior(rows, classes, seed=0, scale=2.0):
    return (scale * torch.randn(rows, classes, generator=torch.Generator().manual_seed(seed))).softmax(1)


@given_values(st.integers(2, 6), st.integers(0, 99), st.sampled_from([0.5, 3.0, 40.0]))
def test_the_corrected_posterior_has_the_corrected_parts(classes, seed, scale):
    q = posterior(20, classes, seed, scale)
    given = torch.randint(classes, (20,), generator=torch.Generator().manual_seed(seed))
    change = Recalibration(Curve(0.7, 0.8), Curve(-0.5, 1.2))
    new = change(q, given)
    assert torch.allclose(new.sum(1), torch.ones(20), atol=1e-5)
    assert bool((new >= 0).all())
    old_wrong, new_wrong = (1 - each.gather(1, given[:, None])[:, 0] for each in (q, new))
    assert torch.allclose(new_wrong, change.wrong(old_wrong), atol=1e-5)
    if classes > 2:
        best = q.scatter(1, given[:, None], -1.0).max(1)
        share = new.gather(1, best.indices[:, None])[:, 0] / new_wrong
        where = old_wrong > 1e-3
        assert torch.allclose(share[where], change.other(best.values / old_wrong)[where], atol=1e-3)


def test_no_correction_changes_nothing():
    q, given = posterior(50, 4), torch.arange(50) % 4
    assert torch.allclose(Recalibration(None, None)(q, given), q, atol=1e-6)


def test_an_audit_corrects_what_it_contradicts():
    rows, classes = 4_000, 5
    q = posterior(rows, classes)
    given = torch.randint(classes, (rows,), generator=torch.Generator().manual_seed(5))
    truth = torch.multinomial(q, 1, generator=torch.Generator().manual_seed(6))[:, 0]
    assert recalibrate(q[:400], given[:400], truth[:400]) is None
    too_sure = q**3 / (q**3).sum(1, keepdim=True)
    change = recalibrate(too_sure[:400], given[:400], truth[:400])
    assert change.wrong is not None
    assert change.other is not None
    assert change.wrong.slope < 0.8
    right = q.gather(1, given[:, None])
    before = (too_sure.gather(1, given[:, None]) - right).abs().mean()
    after = (change(too_sure, given).gather(1, given[:, None]) - right).abs().mean()
    assert after < before / 2
