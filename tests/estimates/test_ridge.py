"""The ridge read-out without a row itself, against fits that leave the row out."""

import pytest
import torch
from torch.nn.functional import one_hot

from pencil.data import Text
from pencil.embed.ngrams import NGrams
from pencil.estimates.ridge import MULTIPLES, _eigen, fit_ridge
from pencil.estimates.whitening import fit_whitening


def rows(count, dims, classes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    given = torch.randint(classes, (count,), generator=generator)
    centres = 2 * torch.randn(classes, dims, generator=generator, dtype=torch.float64)
    return centres[given] + torch.randn(count, dims, generator=generator, dtype=torch.float64), given


def fitted(features, given, classes, total=lambda values: values, parts=None):
    """From sums over parts of the rows, each a rank."""
    parts = [torch.arange(len(given))] if parts is None else parts
    mean = features.mean(0)
    centred = features - mean
    gram = sum(centred[part].T @ centred[part] for part in parts)
    sums = sum(
        torch.zeros(classes, features.shape[1]).double().index_add_(0, given[part], centred[part])
        for part in parts
    )
    return fit_ridge(mean, gram, sums, given.bincount(minlength=classes), (features, given), total)


@pytest.mark.parametrize("dims", [3, 40])
def test_a_row_is_predicted_as_if_it_had_not_been_there(dims):
    features, given = rows(30, dims, 4)
    ridge = fitted(features, given, 4)
    found = ridge.similarities(features, given)
    scale = float(
        torch.linalg.eigvalsh((features - features.mean(0)).T @ (features - features.mean(0))).sum()
    )
    truth = one_hot(given, 4).double()
    rank = int((torch.linalg.eigvalsh(torch.cov(features.T)) > 1e-9).sum())
    naive = {}
    for multiple in MULTIPLES:
        kept = []
        for row in range(30):
            others = torch.arange(30) != row
            x, y = features[others], truth[others]
            mean_x, mean_y = x.mean(0), y.mean(0)
            penalty = multiple * scale / rank * torch.eye(dims, dtype=torch.float64)
            weights = torch.linalg.solve(
                (x - mean_x).T @ (x - mean_x) + penalty, (x - mean_x).T @ (y - mean_y)
            )
            kept.append(mean_y + (features[row] - mean_x) @ weights)
        naive[multiple] = torch.stack(kept)
    best = min(naive.values(), key=lambda z: float((z - truth).square().sum()))
    torch.testing.assert_close(found, best.float(), atol=2e-4, rtol=0)


def test_sums_of_parts_are_those_of_the_whole():
    features, given = rows(50, 6, 3)
    one = fitted(features, given, 3)
    several = fitted(features, given, 3, parts=torch.arange(50).tensor_split(3))
    torch.testing.assert_close(
        several.similarities(features, given), one.similarities(features, given), atol=1e-6, rtol=0
    )


def test_features_without_variance_predict_the_shares():
    given = torch.tensor([0, 0, 0, 1])
    ridge = fitted(torch.ones(4, 3, dtype=torch.float64), given, 2)
    found = ridge.similarities(torch.ones(4, 3), given)
    torch.testing.assert_close(found[0], torch.tensor([2 / 3, 1 / 3]))


def test_a_row_that_decides_alone_is_not_predicted():
    features = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    found = fitted(features, torch.tensor([0, 1]), 2).similarities(features, torch.tensor([0, 1]))
    assert found.isfinite().all()


def test_eigenvalues_are_found_where_lapack_fails():
    """These 27 texts have 26 directions among 2,048, on which torch.linalg.eigh of torch 2.13 fails."""
    texts = NGrams().encode([Text(f"{'cow' if row % 2 else 'cat'} number {row}") for row in range(27)])
    _, covariance, count = fit_whitening(lambda: iter([(torch.arange(27), texts)]), lambda values: values)
    values, vectors = _eigen(count * covariance)
    assert values.min() >= 0
    assert int((values > 1e-6 * values.max()).sum()) == 26
    torch.testing.assert_close((vectors * values) @ vectors.T, count * covariance, atol=1e-9, rtol=0)
