"""Posterior and noise from features and given labels: valid, calibrated, and the same however rows are split."""

import threading

import pytest
import torch
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from pencil.estimates import fit


def batches(features, size=64):
    return lambda: ((at, features[at]) for at in torch.arange(len(features)).split(size))


def fitted(features, given, classes, **options):
    return fit(batches(features), given, classes, **options)


def clusters(rows, classes, *, width=16, spread=0.7, seed=0):
    """Gaussian classes: features and true classes."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(classes, width, generator=generator)
    true = torch.randint(classes, (rows,), generator=generator)
    return centres[true] + spread * torch.randn(rows, width, generator=generator), true


def symmetric(true, classes, rate, seed=1):
    generator = torch.Generator().manual_seed(seed)
    flipped = torch.rand(len(true), generator=generator) < rate
    shift = torch.randint(1, classes, (len(true),), generator=generator)
    return torch.where(flipped, (true + shift) % classes, true)


def circular(true, classes, rate, seed=1):
    flipped = torch.rand(len(true), generator=torch.Generator().manual_seed(seed)) < rate
    return torch.where(flipped, (true + 1) % classes, true)


def assert_valid(found, features, given, classes):
    posterior = found.posterior(features, given)
    assert posterior.shape == (len(given), classes)
    assert posterior.dtype == torch.float32
    assert bool((posterior >= 0).all())
    assert torch.allclose(posterior.sum(1), torch.ones(len(given)), atol=1e-5)
    noise = found.noise
    for values in (noise.per_class, noise.matrix, noise.matrix_low, noise.matrix_high):
        assert bool(((values >= 0) & (values <= 1)).all())
    for interval in (noise.rate, noise.suggested_error):
        assert 0 <= interval.low <= interval.value <= interval.high <= 1
    assert torch.allclose(noise.matrix.sum(1), torch.ones(classes), atol=1e-4)


@settings(max_examples=25, deadline=None)
@drawn(st.integers(1, 40), st.integers(1, 6), st.integers(1, 30), st.integers(0, 99))
def test_any_rows_give_probabilities(rows, classes, width, seed):
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(rows, width, generator=generator)
    given = torch.randint(classes, (rows,), generator=generator)
    assert_valid(fitted(features, given, classes), features, given, classes)


@pytest.mark.parametrize(
    "features",
    [
        torch.ones(12, 3),
        torch.full((12, 3), float("nan")),
        torch.arange(36.0).view(12, 3) * 1e25,
        torch.arange(36.0).view(12, 3) * 1e-25,
        torch.eye(12, 2100),
    ],
    ids=["constant", "not finite", "huge", "tiny", "wide"],
)
def test_odd_features_give_probabilities(features):
    given = torch.tensor([0] * 9 + [1, 2, 2])
    assert_valid(fitted(features, given, 4), features, given, 4)


def test_scale_and_shift_of_features_do_not_matter():
    features, true = clusters(400, 5)
    given = symmetric(true, 5, 0.2)
    one = fitted(features, given, 5).posterior(features, given)
    moved = 1000 * features.double() - 70
    two = fitted(moved, given, 5).posterior(moved, given)
    assert torch.allclose(one, two, atol=2e-3)


def test_order_of_rows_and_names_of_classes_do_not_matter():
    features, true = clusters(400, 5)
    given = symmetric(true, 5, 0.2)
    one = fitted(features, given, 5).posterior(features, given)
    order = torch.randperm(400, generator=torch.Generator().manual_seed(3))
    names = torch.tensor([3, 0, 4, 1, 2])
    two = fitted(features[order], names[given[order]], 5).posterior(features[order], names[given[order]])
    assert torch.allclose(one[order], two[:, names], atol=2e-3)


@pytest.mark.parametrize("noise", [symmetric, circular])
@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_find_what_one_process_finds(ranks, noise):
    features, true = clusters(600, 6)
    given = noise(true, 6, 0.3)
    whole = fitted(features, given, 6)
    split = torch.arange(600).tensor_split(ranks)
    found = on_ranks([(features[at], given[at]) for at in split], 6)
    assert bool(whole.noise.alarms) == (noise is circular)
    for at, one in zip(split, found, strict=True):
        assert torch.allclose(
            one.posterior(features[at], given[at]), whole.posterior(features[at], given[at]), atol=2e-3
        )
        assert one.noise.rate.value == pytest.approx(whole.noise.rate.value, abs=1e-3)


def on_ranks(parts, classes, fit=fit):
    """Fit in a thread for each rank; the sum waits for all of them."""
    barrier, slots, found = (
        threading.Barrier(len(parts), timeout=60),
        [None] * len(parts),
        [None] * len(parts),
    )

    def work(rank):
        def total(values):
            slots[rank] = values
            barrier.wait()
            added = sum(slots[1:], slots[0].clone())
            barrier.wait()
            return added

        found[rank] = fit(batches(parts[rank][0]), parts[rank][1], classes, total=total)

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(len(parts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.4])
def test_uniform_noise_is_calibrated_and_covered_without_alarm(rate):
    features, true = clusters(3000, 10, spread=1.2)
    given = symmetric(true, 10, rate)
    found = fitted(features, given, 10)
    wrong = given != true
    p = 1 - found.posterior(features, given).gather(1, given[:, None])[:, 0]
    bins = (p * 15).long().clamp(0, 14)
    error = sum(float((p[bins == each] - wrong[bins == each].float()).sum().abs()) for each in range(15))
    assert error / len(p) < 0.03
    assert found.noise.rate.low <= float(wrong.float().mean()) <= found.noise.rate.high
    assert found.noise.alarms == ()


def test_circular_noise_raises_the_alarm_and_is_undone():
    features, true = clusters(3000, 10, spread=1.0)
    given = circular(true, 10, 0.35)
    found = fitted(features, given, 10)
    posterior = found.posterior(features, given)
    assert [alarm.name for alarm in found.noise.alarms] == ["structure"]
    assert float((posterior.argmax(1) == true).float().mean()) > 0.9  # 65 % of the given labels are right
    assert found.noise.rate.low <= 0.35 <= found.noise.rate.high
    assert found.noise.rate.value == pytest.approx(0.35, abs=0.05)
    changed = posterior.argmax(1) != given
    assert float(posterior.max(1).values[changed].max()) < 0.9  # no relabel within 10 %


def test_trusted_labels_count_as_right():
    features, true = clusters(300, 4)
    given = symmetric(true, 4, 0.3)
    trusted = torch.zeros(300, dtype=torch.bool).index_fill(0, torch.arange(150), True)
    some, every = (
        fitted(features, given, 4, trusted=each).noise.rate.value for each in (trusted, trusted | True)
    )
    assert every == 0
    assert some < fitted(features, given, 4).noise.rate.value


def test_a_sample_stands_for_many_rows(monkeypatch):
    features, true = clusters(2000, 6)
    given = circular(true, 6, 0.3)
    whole = fitted(features, given, 6)
    monkeypatch.setattr("pencil.estimates.rows.SAMPLED", 700)
    part = fitted(features, given, 6)
    assert part.noise.rate.value == pytest.approx(whole.noise.rate.value, abs=0.05)
    assert [alarm.name for alarm in part.noise.alarms] == ["structure"]
