"""The closed-form gradient, against automatic differentiation of the model's own formulas."""

from dataclasses import replace

import pytest
import torch

from pencil.belief.gradient import SummedLikelihood
from pencil.belief.model import Model, Said

ROWS, CLASSES, FEATURES = 80, 4, 3
NAMES = ("slopes", "offsets", "eta", "extra", "gate")


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def said():
    """Every fifth row has no label, every seventh is verified; weights differ."""
    random = generator(1)
    given = torch.randint(CLASSES, (ROWS,), generator=random)
    given[::5] = -1
    sure = (torch.arange(ROWS) % 7 == 3) & (given >= 0)
    phi = torch.randn(FEATURES, ROWS, CLASSES, generator=random)
    weight = torch.rand(ROWS, generator=random) * (given >= 0)
    return Said(phi, torch.randn(ROWS, generator=random), given, sure, weight)


def model(form):
    """A model whose parameters take a gradient, and these by their names."""
    extra = torch.randn(CLASSES, CLASSES, generator=generator(4)).fill_diagonal_(0)
    made = Model(
        torch.tensor([0.9, 0.4, 0.2]),
        torch.tensor([0.3, -0.2, 0.5, 0.0]),
        torch.tensor([0.4, 0.3, 0.2, 0.1]),
        "full" if "extra" in form else "rate",
        torch.tensor(-0.7),
        extra if "extra" in form else None,
        torch.tensor([-1.5, 0.8]) if "gate" in form else None,
    )
    free = {name: getattr(made, name) for name in NAMES}
    free = {name: value.clone().requires_grad_() for name, value in free.items() if value is not None}
    return replace(made, **free), list(free.values())


@pytest.mark.parametrize("form", ["rate", "extra", "gate", "extra and gate"])
def test_value_and_gradient_are_those_of_the_model(said, form):
    made, free = model(form)
    plain = (made.likelihood(said).double() * said.weight).sum()
    found = SummedLikelihood(said, made.share)(made)
    assert float(found.detach()) == pytest.approx(float(plain.detach()), rel=1e-5)
    for one, other in zip(torch.autograd.grad(found, free), torch.autograd.grad(plain, free), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_rows_that_do_not_count_change_nothing(said):
    made, free = model("extra and gate")
    some = said.take(said.weight > 0)
    all_rows, counted = (SummedLikelihood(each, made.share)(made) for each in (said, some))
    assert float(all_rows.detach()) == pytest.approx(float(counted.detach()), rel=1e-6)
    for one, other in zip(
        torch.autograd.grad(all_rows, free), torch.autograd.grad(counted, free), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)
