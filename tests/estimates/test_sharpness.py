"""The sharpness of similarities: its derivatives against autograd, and parts against the whole."""

import pytest
import torch

from pencil.estimates import sharpness
from pencil.estimates.likelihood import log_noise
from pencil.estimates.sharpness import likeliest, sharpness_of, tilt_to

ROWS, CLASSES, TRUE, RATE = 4000, 6, 8.0, 0.3


@pytest.fixture(scope="module")
def drawn():
    """Similarities of rows whose true class is drawn with b = 8, and given labels of which 30 % are wrong."""
    random = torch.Generator().manual_seed(0)
    similar = torch.rand(ROWS, CLASSES, generator=random)
    truth = (TRUE * similar).softmax(1).multinomial(1, generator=random)[:, 0]
    wrong = torch.rand(ROWS, generator=random) < RATE
    other = (truth + torch.randint(1, CLASSES, (ROWS,), generator=random)) % CLASSES
    return similar, torch.where(wrong, other, truth)


def alone(values):
    return values


def test_derivatives_are_those_of_autograd(drawn):
    similar, given = drawn[0].double(), drawn[1]
    noise = log_noise(given, CLASSES, torch.tensor(RATE), None).double()
    sharp = torch.tensor(5.0, dtype=torch.float64, requires_grad=True)
    value = ((sharp * similar).log_softmax(1) + noise).logsumexp(1).sum()
    (first,) = torch.autograd.grad(value, sharp, create_graph=True)
    (second,) = torch.autograd.grad(first, sharp)
    found = sharpness._slope(similar, noise, 5.0)
    torch.testing.assert_close(found, torch.stack([first, second]).detach())


def test_sharpness_and_rate_are_recovered(drawn):
    sharp, rate = likeliest(*drawn, None, 20.0, 0.1, alone)
    assert sharp == pytest.approx(TRUE, rel=0.1)
    assert rate == pytest.approx(RATE, abs=0.03)


def test_parts_of_any_size_say_the_same(drawn, monkeypatch):
    similar, given = drawn
    noise = log_noise(given, CLASSES, torch.tensor(RATE), None)
    shares = torch.full((CLASSES,), 1 / CLASSES).log()

    def found():
        sharp, rate = likeliest(similar, given, None, 20.0, 0.1, alone)
        return torch.tensor([sharpness_of(similar, noise, 20.0, alone), sharp, rate]), tilt_to(
            TRUE * similar + noise, shares, alone
        )

    whole = found()
    monkeypatch.setattr(sharpness, "CELLS", 7 * CLASSES)
    for part, all_at_once in zip(found(), whole, strict=True):
        torch.testing.assert_close(part, all_at_once, rtol=1e-4, atol=1e-5)


def test_a_tilt_restores_the_shares(drawn):
    similar, _ = drawn
    shares = torch.tensor([0.3, 0.3, 0.1, 0.1, 0.1, 0.1])
    tilt = tilt_to(TRUE * similar, shares.log(), alone)
    torch.testing.assert_close((TRUE * similar + tilt).softmax(1).mean(0), shares, rtol=0.05, atol=0)
