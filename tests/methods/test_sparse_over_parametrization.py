"""SOP: closed-form gradients against float64 autograd, the loss against a naive loop, noise found and removed."""

import math

import pytest
import torch
from hypothesis import given as hypothesis_given
from hypothesis import settings
from hypothesis import strategies as st
from torch.nn import functional as F

from pencil.algorithm import cross_entropy
from pencil.methods import SparseOverParametrization
from pencil.methods.sparse_over_parametrization import FLOOR, noise_gradients


def whole_loss(u, v, probs, labels):
    """The paper's objective written for autograd: cross entropy with V held fixed, and the squared distance."""
    added = (u**2 * labels).clamp(0, 1)
    removed = (v**2 * (1 - labels)).clamp(0, 1)
    moved = (probs + added - removed.detach()).clamp(min=FLOOR)
    entropy = -(labels * (moved / moved.sum(dim=1, keepdim=True)).log()).sum(dim=1)
    best = F.one_hot(probs.argmax(dim=1), probs.shape[1])
    return entropy + (best + added - removed - labels).square().sum(dim=1)


@settings(max_examples=60, deadline=None)
@hypothesis_given(
    seed=st.integers(0, 10**6),
    size=st.sampled_from([1e-8, 0.1, 0.9, 3.0]),
    sharpness=st.sampled_from([0.1, 3.0, 30.0]),
    soft=st.booleans(),
)
def test_gradients_are_those_of_autograd(seed, size, sharpness, soft):
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    probs = (sharpness * draw(6, 4)).softmax(dim=1)
    label = draw(6, 4).softmax(dim=1) if soft else torch.eye(4, dtype=torch.float64)[torch.arange(6) % 4]
    u, v = (size * draw(6, 1)).requires_grad_(), (size * draw(6, 4)).requires_grad_()
    expected = torch.autograd.grad(whole_loss(u, v, probs, label).sum(), (u, v))
    found = noise_gradients(u.detach(), v.detach(), probs, label)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_the_loss_is_that_of_a_naive_loop(logits, given, moment, softmax, as_lists):
    rows = torch.rand(5, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    step = SparseOverParametrization().step(logits, rows, given, moment())
    for index, (label, row) in enumerate(zip(as_lists(given), logits.tolist(), strict=True)):
        u, *v = rows[index].tolist()
        moved = [
            max(f + min(u * u * y, 1) - min(w * w * (1 - y), 1), FLOOR)
            for y, w, f in zip(label, v, softmax(row), strict=True)
        ]
        loss = -sum(y * math.log(value / sum(moved)) for y, value in zip(label, moved, strict=True))
        assert float(step.loss[index].detach()) == pytest.approx(loss, rel=1e-10)


def test_rows_take_one_step_at_their_own_rates(logits, given, moment):
    rows = torch.rand(5, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    step = SparseOverParametrization(rate_u=0.3, rate_v=0.7).step(logits, rows, given, moment())
    label = given if given.dim() == 2 else torch.eye(3, dtype=torch.float64)[given]
    du, dv = noise_gradients(rows[:, :1], rows[:, 1:], logits.detach().softmax(dim=1), label)
    torch.testing.assert_close(step.rows, torch.cat([rows[:, :1] - 0.3 * du, rows[:, 1:] - 0.7 * dv], dim=1))


def test_zero_rates_are_cross_entropy(logits, given, moment):
    method = SparseOverParametrization(rate_u=0.0, rate_v=0.0)
    start = method.start_rows(given, 3).double()
    assert float(logits.detach().softmax(dim=1).min()) > FLOOR
    step = method.step(logits, start, given, moment())
    torch.testing.assert_close(step.loss, cross_entropy(logits, given))
    assert torch.equal(step.rows, start)


def test_a_label_the_network_never_shares_is_explained_as_noise(moment):
    """The network is sure of class 1: the label 0 becomes U = 1, and V takes class 1 away; a right label moves not."""
    method = SparseOverParametrization(rate_u=0.1, rate_v=0.3)
    logits, given = torch.tensor([[0.0, 4.0, 0.0]] * 2), torch.tensor([0, 1])
    rows = method.start_rows(given, 3)
    for _ in range(100):
        rows = method.step(logits, rows, given, moment()).rows
    believed = method.label_distribution(rows, given, 3)
    assert believed.argmax(dim=1).tolist() == [1, 1]
    assert float(believed[0, 1]) > 0.95
    assert rows[1].abs().max() < 1e-6


def test_at_the_start_the_given_label_is_believed(given, as_lists):
    method = SparseOverParametrization()
    start = method.start_rows(given, 3)
    assert start.shape == (5, method.row_width(3))
    assert method.label_distribution(start, given, 3).tolist() == [
        pytest.approx(label) for label in as_lists(given)
    ]


@pytest.mark.parametrize("settings", [{"rate_u": -1.0}, {"rate_v": -1.0}, {"start": 0.0}])
def test_senseless_settings_are_refused_by_name(settings):
    with pytest.raises(ValueError, match=f"^{next(iter(settings))}: "):
        SparseOverParametrization(**settings)
