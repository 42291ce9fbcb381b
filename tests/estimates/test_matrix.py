"""The whole noise matrix: a fixed point of its equations, near the truth, and used where left-out labels prove it."""

import pytest
import torch

from pencil.estimates import fit_start, prototype_start, start
from pencil.estimates.matrix import PSEUDO, with_whole_matrix
from pencil.estimates.rows import DataRows
from pencil.estimates.structure import next_round
from pencil.estimates.whitening import fit_whitening
from support.estimating import batches, clusters, on_ranks, symmetric

CLASSES = 6


def one_way(true, rate=0.4, seed=0):
    """Classes 0 and 1 take each other's labels, class 2 takes class 3's; the others keep theirs."""
    target = torch.tensor([1, 0, 3, 3, 4, 5])
    draws = torch.rand(len(true), generator=torch.Generator().manual_seed(seed))
    return torch.where(draws < rate, target[true], true)


@pytest.fixture(scope="module")
def problem():
    features, true = clusters(2400, CLASSES, width=16, spread=1.6)
    return features, true, one_way(true)


def total(values):
    """The sum over the only rank."""
    return values


def first_round(features, given):
    """The first round by ``structure``, and the similarities of all rows."""
    whitening, _, rows = fit_whitening(batches(features), total)
    data = DataRows(batches(features), given, CLASSES, whitening, rows, total)
    prototypes, sample = data.first_pass()
    own = torch.nn.functional.one_hot(sample.given, CLASSES).float()
    at = ((), prototypes, sample.directions, own, sample.given, prototypes.prior, total)
    return next_round(*at)[0], prototypes.similarities(sample.directions, own), sample.given


def matrix_of(found):
    return found.log_noise(torch.arange(CLASSES)).exp().T.double()


def test_the_matrix_is_a_fixed_point_of_its_equations(problem):
    features, _, given = problem
    plain, similar, given = first_round(features, given)
    found = with_whole_matrix(plain, similar, given, total)
    matrix, counts = matrix_of(found), PSEUDO * matrix_of(plain)
    for z, label in zip(similar.double(), given.tolist(), strict=True):
        joint = (found.sharpness * z + found.prior.double()).softmax(0) * matrix[:, label]
        counts[:, label] += joint / joint.sum()
    torch.testing.assert_close(matrix, counts / counts.sum(1, keepdim=True), atol=2e-3, rtol=0)
    torch.testing.assert_close(matrix.sum(1), torch.ones(CLASSES).double(), atol=1e-5, rtol=0)


def test_the_given_labels_are_likelier_than_with_one_rate_for_all_classes(problem):
    features, _, given = problem
    plain, similar, given = first_round(features, given)
    found = with_whole_matrix(plain, similar, given, total)

    def likelihood(each):
        read = (each.sharpness * similar + each.prior).log_softmax(1)
        return float((read + each.log_noise(given)).logsumexp(1).mean())

    assert likelihood(found) > likelihood(plain) + 0.02


def test_every_entry_is_near_the_true_rate(problem):
    features, true, given = problem
    found = fit_start(batches(features), given, CLASSES).rounds[-1]
    counted = torch.zeros(CLASSES, CLASSES, dtype=torch.float64)
    counted.index_put_((true, given), torch.ones(len(true)).double(), accumulate=True)
    assert found.rate.shape == (CLASSES,)
    torch.testing.assert_close(matrix_of(found), counted / counted.sum(1, keepdim=True), atol=0.08, rtol=0)


def test_labels_are_better_with_the_matrix(problem, monkeypatch):
    features, true, given = problem
    found = prototype_start(features, given, CLASSES)
    monkeypatch.setattr(start, "ENOUGH", len(given))
    without = prototype_start(features, given, CLASSES)
    right = [float((each.argmax(1) == true).float().mean()) for each in (found, without)]
    assert right[0] > right[1] + 0.03
    assert right[0] > float((given == true).float().mean()) + 0.1


def test_one_rate_for_all_classes_needs_no_matrix(problem):
    features, true, _ = problem
    found = fit_start(batches(features), symmetric(true, CLASSES, 0.4), CLASSES)
    assert found.rounds[-1].rate.dim() == 0


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_find_the_matrix_of_one_process(problem, ranks):
    features, _, given = problem
    whole = fit_start(batches(features), given, CLASSES)
    split = torch.arange(len(given)).tensor_split(ranks)
    found = on_ranks([(features[at], given[at]) for at in split], CLASSES, fit_start)
    for at, one in zip(split, found, strict=True):
        torch.testing.assert_close(matrix_of(one.rounds[-1]), matrix_of(whole.rounds[-1]), atol=1e-3, rtol=0)
        mine, theirs = (each.posterior(features[at], given[at]) for each in (one, whole))
        torch.testing.assert_close(mine, theirs, atol=5e-3, rtol=0)
