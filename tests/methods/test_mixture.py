"""Two Gaussians from binned losses: EM of a naive loop, a known mixture found again, ranks that only add."""

import math

import pytest
import torch

from pencil.methods.mixture import (
    FLOOR,
    ROUNDS,
    TOLERANCE,
    UNSEEN,
    LossCounts,
    bins_of,
    fitted_mixture,
    fitted_mixtures,
    lower_posterior,
    start_mixtures,
)


def two_heaps(rows=4000, seed=0):
    """Losses (rows, 1): 70 % around 0.5, 30 % around 3."""
    generator = torch.Generator().manual_seed(seed)
    low = torch.rand(rows, generator=generator) < 0.7
    spread = torch.where(low, 0.1, 0.4) * torch.randn(rows, generator=generator)
    return (torch.where(low, 0.5, 3.0) + spread).clamp_min(0)[:, None], low


def fitted(losses):
    return fitted_mixtures(LossCounts.empty(losses.shape[1]).with_losses(losses))


def naive_em(points, counts):
    """EM in plain Python; the start is the best of all cuts into two heaps."""
    every, total = range(len(points)), sum(counts)

    def spread(part):
        mean = sum(counts[i] * points[i] for i in part) / sum(counts[i] for i in part)
        return sum(counts[i] * (points[i] - mean) ** 2 for i in part)

    def maximised(shares):
        found = []
        for k in (0, 1):
            size = sum(counts[i] * shares[i][k] for i in every)
            mean = sum(counts[i] * shares[i][k] * points[i] for i in every) / size
            square = sum(counts[i] * shares[i][k] * (points[i] - mean) ** 2 for i in every) / size
            found.append((mean, square + FLOOR, size / total))
        return found

    cut = min(range(1, len(points)), key=lambda n: spread(every[:n]) + spread(every[n:]))
    mixture, before = maximised([[float(i < cut), float(i >= cut)] for i in every]), math.inf
    for _ in range(ROUNDS):
        joint = [
            [w * math.exp(-((x - m) ** 2) / v / 2) / math.sqrt(v) for m, v, w in mixture] for x in points
        ]
        likelihood = sum(counts[i] * math.log(sum(joint[i])) for i in every) / total
        mixture = maximised([[value / sum(both) for value in both] for both in joint])
        if abs(likelihood - before) < TOLERANCE:
            break
        before = likelihood
    return tuple(zip(*mixture, strict=True))


def test_em_is_that_of_a_naive_loop():
    points = [0.0, 0.03, 0.05, 0.11, 0.3, 0.62, 0.7, 0.78, 1.0]
    counts = [5.0, 9.0, 7.0, 2.0, 1.0, 3.0, 4.0, 2.0, 1.0]
    found = fitted_mixture(*(torch.tensor(each, dtype=torch.float64) for each in (points, counts)))
    for values, naive in zip(found, naive_em(points, counts), strict=True):
        assert values.tolist() == pytest.approx(naive, rel=1e-9)


def test_a_known_mixture_is_found_again():
    losses, low = two_heaps()
    found = fitted(losses)
    least, greatest = found["ranges"][0]
    assert float(least) == pytest.approx(float(losses.min()), rel=0.01)
    assert float(greatest) == pytest.approx(float(losses.max()), rel=0.01)
    means = found["means"][0] * (greatest - least) + least
    assert means.tolist() == pytest.approx([0.5, 3.0], abs=0.05)
    assert found["weights"][0].tolist() == pytest.approx([0.7, 0.3], abs=0.02)
    assert float(((lower_posterior(losses, found)[:, 0] > 0.5) == low).double().mean()) > 0.99


def test_ranks_that_add_their_counts_fit_what_one_process_fits():
    losses, _ = two_heaps()
    parts = [LossCounts.empty(1).with_losses(part) for part in losses.split((1, 1500, 2499))]
    added = LossCounts(*(sum(each) for each in zip(*parts, strict=True)))
    alone = LossCounts.empty(1).with_losses(losses)
    assert torch.equal(added.counts, alone.counts)
    for name, values in fitted_mixtures(added).items():
        torch.testing.assert_close(values, fitted(losses)[name], rtol=1e-10, atol=1e-12)


def test_bins_stand_in_the_order_of_losses_and_are_narrow():
    losses = torch.logspace(-7, 2, 5000)
    bins = bins_of(losses)
    assert bool((bins.diff() >= 0).all())
    for number in bins.unique().tolist():
        inside = losses[bins == number]
        assert float(inside.max() / inside.min()) < 1.0079


def test_unseen_losses_count_for_nothing():
    losses, _ = two_heaps()
    with_unseen = torch.cat([losses, torch.full((50, 1), UNSEEN)])
    for name, values in fitted(with_unseen).items():
        assert torch.equal(values, fitted(losses)[name])
    nothing = fitted(torch.full((3, 1), UNSEEN))
    assert all(torch.equal(values, start_mixtures(1)[name]) for name, values in nothing.items())


def test_losses_that_are_all_alike_are_of_the_lower_component():
    losses = torch.full((20, 1), 0.7)
    assert lower_posterior(losses, fitted(losses)).flatten().tolist() == pytest.approx([1.0] * 20)
