"""Estimates from features and given labels."""

import torch

from pencil.estimates import fit


def test_rows_of_the_posterior_sum_to_one() -> None:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(60, 5, generator=generator)
    given = torch.randint(0, 3, (60,), generator=generator)

    fitted = fit(lambda: ((at, features[at]) for at in torch.arange(60).split(16)), given, 3)

    assert torch.allclose(fitted.posterior(features, given).sum(1), torch.ones(60))
