"""Labels to start from: better than the given ones, alike however rows are split, and a classifier of new rows."""

import pytest
import torch
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from pencil.errors import DataError
from pencil.estimates import fit_start, prototype_start, rows
from pencil.estimates.start import FEW_ROUNDS, MOST_ROUNDS, PATIENCE, _is_left_out
from pencil.models import PrototypeExpert
from support.estimating import batches, circular, clusters, on_ranks, symmetric


def started(features, given, classes, **options):
    return fit_start(batches(features), given, classes, **options)


def right(probabilities, true):
    return float((probabilities.argmax(1) == true).float().mean())


@settings(max_examples=25, deadline=None)
@drawn(st.integers(0, 40), st.integers(1, 6), st.integers(1, 30), st.integers(0, 99))
def test_any_rows_give_probabilities(count, classes, width, seed):
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(count, width, generator=generator)
    given = torch.randint(classes, (count,), generator=generator)
    found = started(features, given, classes)
    probabilities = found.posterior(features, given)
    assert probabilities.shape == (count, classes)
    torch.testing.assert_close(probabilities.sum(1), torch.ones(count))
    assert 1 <= len(found.rounds) <= len(found.likelihoods) <= MOST_ROUNDS


@pytest.mark.parametrize(
    ("noise", "rate", "least"), [(symmetric, 0.7, 0.8), (circular, 0.4, 0.9), (symmetric, 0.0, 0.99)]
)
def test_the_start_has_more_right_labels_than_were_given(noise, rate, least):
    features, true = clusters(1500, 15, width=24)
    given = noise(true, 15, rate)
    found = right(prototype_start(features, given), true)
    assert found > least
    assert found >= float((given == true).float().mean()) - 0.01


def test_the_number_of_rounds_is_the_one_that_left_out_labels_confirm():
    features, true = clusters(1200, 40, width=32, spread=1.5)
    given = symmetric(true, 40, 0.6)
    found = started(features, given, 40)
    best = found.likelihoods.index(max(found.likelihoods))
    assert len(found.rounds) == best + 1 > 1
    assert len(found.likelihoods) in (best + 1 + PATIENCE, MOST_ROUNDS)
    clean = started(features, true, 40)
    assert len(clean.rounds) <= len(found.rounds)


def test_one_round_is_the_posterior_written_out_row_by_row():
    features, true = clusters(60, 3, width=4)
    given = symmetric(true, 3, 0.2)
    found = started(features, given, 3)
    first = found.rounds[0]
    directions = found.whitening(features).double()
    centre = directions.mean(0)
    for row in (0, 17, 59):
        unit = directions[row] - centre
        sums = torch.stack([(directions[given == c] - centre).sum(0) for c in range(3)])
        sums[given[row]] -= unit
        similar = torch.nn.functional.cosine_similarity(sums, unit[None], dim=1)
        chances = [
            1 - first.rate if c == given[row] else first.rate * float(first.spread[c, given[row]].exp())
            for c in range(3)
        ]
        scores = first.sharpness * similar + torch.tensor(chances).double().log() + first.tilt
        own = torch.nn.functional.one_hot(given[row : row + 1], 3).float()
        got = first.labels(directions[row : row + 1].float(), own, given[row : row + 1])
        torch.testing.assert_close(got[0].double(), scores.softmax(0), atol=1e-4, rtol=0)


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("noise", [symmetric, circular])
def test_ranks_start_from_what_one_process_does(ranks, noise):
    features, true = clusters(600, 6)
    given = noise(true, 6, 0.4)
    whole = started(features, given, 6)
    split = torch.arange(600).tensor_split(ranks)
    found = on_ranks([(features[at], given[at]) for at in split], 6, fit_start)
    for at, one in zip(split, found, strict=True):
        assert len(one.rounds) == len(whole.rounds)
        mine, theirs = (each.posterior(features[at], given[at]) for each in (one, whole))
        torch.testing.assert_close(mine, theirs, atol=2e-3, rtol=0)


def test_a_sample_stands_for_many_rows(monkeypatch):
    features, true = clusters(2000, 6)
    given = symmetric(true, 6, 0.6)
    monkeypatch.setattr(rows, "SAMPLED", 500)
    found = started(features, given, 6)
    assert right(found.posterior(features, given), true) > 0.95
    assert len(found.likelihoods) <= FEW_ROUNDS  # more would repeat too much


@pytest.mark.parametrize(("sampled", "kept"), [(300, False), (5000, True)])
def test_a_class_that_is_missing_in_the_sample_draws_no_rows(monkeypatch, sampled, kept):
    features, true = clusters(1500, 300, width=48, spread=0.6)
    given = symmetric(true, 300, 0.4)
    monkeypatch.setattr(rows, "SAMPLED", sampled)
    found = started(features, given, 300)
    assert right(found.posterior(features, given), true) > 0.86
    assert all(bool(each.tilt.any()) == kept for each in found.rounds)


def test_very_many_classes_have_no_matrix(monkeypatch):
    features, true = clusters(800, 8)
    given = circular(true, 8, 0.3)
    monkeypatch.setattr("pencil.estimates.structure.MOST_CLASSES", 7)
    found = started(features, given, 8)
    assert all(each.spread is None for each in found.rounds)
    assert right(found.posterior(features, given), true) > 0.65


def test_rows_are_left_out_by_their_content():
    features, _ = clusters(4000, 5)
    left_out = _is_left_out(features)
    assert 0.07 < float(left_out.float().mean()) < 0.13
    order = torch.randperm(4000, generator=torch.Generator().manual_seed(0))
    assert torch.equal(_is_left_out(features[order]), left_out[order])


@pytest.mark.parametrize("width", [24, 2100])
def test_the_classifier_is_the_last_rounds_prototypes(width):
    features, true = clusters(500, 5, width=width)
    found = started(features, symmetric(true, 5, 0.3), 5)
    new, classes = clusters(200, 5, width=width, seed=0)
    last = found.rounds[-1]
    expected = last.sharpness * last.prototypes.similarities(found.whitening(new), torch.zeros(200, 5))
    got = PrototypeExpert(found.classifier)(new)
    torch.testing.assert_close(got, expected, atol=2e-3, rtol=0)
    assert right(got, classes) > 0.9
    random = torch.Generator().manual_seed(0)
    mean, std = torch.randn(width, generator=random), torch.rand(width, generator=random) + 0.5
    moved = PrototypeExpert(found.classifier, mean, std)((new - mean) / std)
    torch.testing.assert_close(moved, expected, atol=2e-2, rtol=0)


def test_shapes_that_do_not_fit_are_named():
    with pytest.raises(DataError, match=r"features \(3, 2\) and labels \(4,\) must be \(N, D\) and \(N,\)"):
        prototype_start(torch.zeros(3, 2), torch.zeros(4, dtype=torch.long))


@pytest.mark.parametrize(("noise", "rate"), [(symmetric, 0.0), (symmetric, 0.4), (circular, 0.3)])
def test_few_rows_of_a_class_do_not_lose_right_labels(noise, rate):
    features, true = clusters(200, 40, width=64, spread=2.0, seed=4)
    given = noise(true, 40, rate)
    before = float((given == true).float().mean())
    assert right(prototype_start(features, given, 40), true) >= before - 0.02


@pytest.mark.parametrize("labels", [[0, 1, -1], [0, 1, 2]])
def test_labels_that_are_no_class_are_refused(labels):
    with pytest.raises(
        DataError, match=r"prototype_start: the labels are from .* and must be classes from 0 to 1"
    ):
        prototype_start(torch.eye(3), torch.tensor(labels), 2)
