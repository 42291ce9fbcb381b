"""Closed forms against naive computations: rows left out, whitening, the posterior, gradient and Hessian, the test."""

import pytest
import torch

from pencil.estimates.likelihood import Evidence, _part_sums, fit_map, log_noise, read_out
from pencil.estimates.noise import less_sure
from pencil.estimates.prototypes import Prototypes
from pencil.estimates.structure import Round, anchors, far_share, spreading
from pencil.estimates.whitening import fit_whitening

ROWS, CLASSES = 40, 3


def rows(seed=0, width=6):
    generator = torch.Generator().manual_seed(seed)
    given = torch.randint(CLASSES, (ROWS,), generator=generator)
    features = torch.randn(ROWS, width, generator=generator) + torch.eye(CLASSES, width)[given]
    return features, given


def passes(features):
    return lambda: ((at, features[at]) for at in torch.arange(len(features)).split(7))


def test_whitened_directions_have_the_angles_of_the_definition():
    features, _ = rows()
    whitening, _, count = fit_whitening(passes(features), lambda values: values)
    x = features.double() - features.double().mean(0)
    covariance = x.T @ x / ROWS
    smoothed = covariance + covariance.diagonal().mean() * torch.eye(6, dtype=torch.float64)
    inner = x @ torch.linalg.inv(smoothed) @ x.T
    length = inner.diagonal().sqrt()
    directions = whitening(features).double()
    assert count == ROWS
    assert torch.allclose(directions @ directions.T, inner / length[:, None] / length, atol=1e-5)


def test_similarities_are_those_of_prototypes_without_the_row():
    features, _ = rows()
    directions = torch.nn.functional.normalize(features, dim=1)
    labels = torch.rand(ROWS, CLASSES, generator=torch.Generator().manual_seed(2))
    found = Prototypes.of((labels.T @ directions).double(), labels.sum(0).double())
    similar = found.similarities(directions, labels)
    centred = directions - found.centre
    for row in range(ROWS):
        others = torch.arange(ROWS) != row
        sums = labels[others].T @ centred[others]
        expected = torch.nn.functional.cosine_similarity(sums, centred[row][None], dim=1)
        assert torch.allclose(similar[row], expected, atol=1e-4)


@pytest.mark.parametrize("rate", [torch.tensor(0.3), torch.tensor([0.1, 0.4, 0.6])])
@pytest.mark.parametrize("spread", [None, torch.full((CLASSES, CLASSES), 0.5).log()])
def test_labels_after_a_round_are_its_equation(rate, spread):
    features, given = rows()
    directions = torch.nn.functional.normalize(features, dim=1)
    own = torch.nn.functional.one_hot(given, CLASSES).float()
    prototypes = Prototypes.of((own.T @ directions).double(), own.sum(0).double())
    prior, tilt = torch.tensor([0.2, -0.1, 0.0]), torch.tensor([0.0, 0.5, -0.3])
    found = Round(prototypes, 5.0, rate, spread, prior, tilt).labels(directions, own, given)
    rates = rate.expand(CLASSES)
    for row in range(ROWS):
        noise = torch.where(torch.arange(CLASSES) == given[row], 1 - rates, rates / 2)
        chances = (5.0 * prototypes.similarities(directions, own)[row] + prior + tilt).exp() * noise
        torch.testing.assert_close(found[row], chances / chances.sum())
    assert torch.equal(own, torch.nn.functional.one_hot(given, CLASSES).float())


def test_the_only_row_of_a_class_is_not_similar_to_itself():
    directions = torch.nn.functional.normalize(
        torch.randn(5, 4, generator=torch.Generator().manual_seed(0)), dim=1
    )
    own = torch.nn.functional.one_hot(torch.tensor([0, 0, 0, 0, 1]), 3).float()
    similar = Prototypes.of((own.T @ directions).double(), own.sum(0).double()).similarities(directions, own)
    assert float(similar[4, 1]) == 0
    assert similar[:, 2].tolist() == [0] * 5


def test_gradient_and_hessian_are_those_of_the_likelihood():
    evidence = some_evidence()
    point = torch.tensor([2.0, 1.5, -1.0], dtype=torch.float64)

    def value(at):
        read = read_out(evidence.similarities, evidence.prior, at[:2].float())
        noise = log_noise(evidence.given, CLASSES, at[2].sigmoid().float(), None)
        return (read + noise).logsumexp(1).double().sum()

    sums = _part_sums(evidence, point)
    gradient = torch.autograd.functional.jacobian(value, point)
    assert float(sums[0]) == pytest.approx(float(value(point)), rel=1e-5)
    assert torch.allclose(sums[1:4], gradient, rtol=1e-3, atol=1e-3)
    step = 1e-2
    for each in range(3):
        moved = [point + sign * step * torch.eye(3, dtype=torch.float64)[each] for sign in (1, -1)]
        slope = (_part_sums(evidence, moved[0])[1:4] - _part_sums(evidence, moved[1])[1:4]) / (2 * step)
        assert torch.allclose(sums[4:13].view(3, 3)[each], slope, rtol=2e-2, atol=2e-2)


def some_evidence():
    generator = torch.Generator().manual_seed(5)
    given = torch.randint(CLASSES, (ROWS,), generator=generator)
    similar = torch.rand(ROWS, CLASSES, generator=generator) * 0.4
    similar.scatter_add_(1, given[:, None], torch.full((ROWS, 1), 0.3))
    given = torch.where(torch.arange(ROWS) % 4 == 1, (given + 1) % CLASSES, given)
    return Evidence(similar, given, torch.tensor([0.5, 0.3, 0.2]).log())


def test_the_fitted_map_is_a_maximum():
    evidence = some_evidence()
    found = fit_map(evidence, lambda values: values)
    best = torch.tensor([*found.weights, torch.tensor(found.rate).logit()], dtype=torch.float64)
    top = float(_part_sums(evidence, best)[0])
    for change in torch.eye(3, dtype=torch.float64) * 0.3:
        for sign in (-1, 1):
            assert float(_part_sums(evidence, best + sign * change)[0]) <= top + 1e-4


def test_uniform_flips_of_anchors_are_explained_and_flips_to_the_next_class_are_not():
    generator = torch.Generator().manual_seed(0)
    true = torch.arange(4000) % 8
    similar = (
        0.1 * torch.rand(4000, 8, generator=generator)
        + torch.eye(8)[true]
        + 0.3 * torch.eye(8).roll(1, 1)[true]
    )
    flipped = torch.rand(4000, generator=generator) < 0.3
    shift = torch.where(flipped, torch.randint(1, 8, (4000,), generator=generator), 0)
    uniform = anchors(similar, (true + shift) % 8, lambda values: values)
    circular = anchors(similar, (true + flipped) % 8, lambda values: values)
    assert not uniform.structured
    assert uniform.uniform == pytest.approx(0.3, abs=0.08)
    assert circular.structured
    assert circular.uniform == pytest.approx(0, abs=0.02)
    assert circular.disagreeing == pytest.approx(0.3, abs=0.03)


def test_the_less_similar_half_is_counted_exactly():
    for classes in (2, 3, 10, 11):
        places = torch.arange(1, classes)
        assert far_share(classes) == pytest.approx(float((places >= classes / 2).double().mean()))


def test_counts_that_prove_a_pair_give_it_its_rate():
    counts = torch.full((20, 20), 1.0, dtype=torch.float64).fill_diagonal_(60)
    counts[3, 7] = 40
    spread, share = spreading(counts)
    assert torch.allclose(spread.exp().fill_diagonal_(0).sum(1), torch.ones(20), atol=1e-4)
    assert float(spread[3, 7].exp()) > 0.5
    assert float(spread[4, 7].exp()) == pytest.approx(1 / 19, rel=1e-3)
    assert 0.05 < share < 0.15


def test_less_sure_suggestions_keep_order_and_wrong_probability():
    posterior = torch.tensor([[0.02, 0.9, 0.05, 0.03], [0.6, 0.2, 0.1, 0.1]])
    given = torch.tensor([0, 0])
    new = less_sure(posterior, given)
    assert torch.allclose(new.sum(1), torch.ones(2))
    assert torch.allclose(new[:, 0], posterior[:, 0])
    assert new.argsort(dim=1, stable=True).tolist() == posterior.argsort(dim=1, stable=True).tolist()
    assert float(new[0, 1]) < 0.9 * 0.91


def test_labels_far_from_their_features_contradict_a_low_rate():
    generator = torch.Generator().manual_seed(1)
    true = torch.arange(4000) % 8
    similar = 0.2 * torch.rand(4000, 8, generator=generator) + torch.eye(8)[true]
    flipped = torch.rand(4000, generator=generator) < 0.1
    shift = torch.where(flipped, torch.randint(1, 8, (4000,), generator=generator), 0)
    test = anchors(similar, (true + shift) % 8, lambda values: values)
    assert test.floor == pytest.approx(0.1, abs=0.03)
    assert test.exceeds(0.02)
    assert not test.exceeds(0.1)
