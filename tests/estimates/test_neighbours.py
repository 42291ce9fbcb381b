"""Nearest rows, near-identical rows and outliers."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from pencil.estimates import neighbours as near


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(rows: int, width: int, seed: int = 0) -> Tensor:
    return torch.randn(rows, width, generator=generator(seed))


def centred(features: Tensor) -> Tensor:
    batches = list(torch.arange(len(features)).split(97))
    return near.centred(lambda: ((places, features[places]) for places in batches), len(features))


def naive(features: Tensor, row: int, k: int) -> list[int]:
    distances = [
        (math.dist(features[row].tolist(), other), place) for place, other in enumerate(features.tolist())
    ]
    return [place for _, place in sorted(distances) if place != row][:k]


class TestCentred:
    def test_the_mean_is_zero_and_values_that_are_not_finite_count_as_zero(self) -> None:
        features = normal(200, 5) + 100
        features[3, 2], features[4, 1] = math.nan, math.inf
        assert centred(features).mean(0).abs().max() < 1e-4
        assert bool(centred(features).isfinite().all())

    def test_many_features_are_projected_and_keep_their_distances(self) -> None:
        features = normal(60, 3000)
        small = centred(features)
        assert small.shape == (60, near.MOST_FEATURES)
        ratio = (small[:30] - small[30:]).norm(dim=1) / (features[:30] - features[30:]).norm(dim=1)
        assert (ratio - 1).abs().max() < 0.2

    def test_no_rows(self) -> None:
        assert near.centred(lambda: iter(()), 0).shape == (0,)


class TestNearest:
    @pytest.mark.parametrize(("rows", "width"), [(70, 2), (300, 7), (2700, 16)])
    def test_equals_a_loop_over_all_pairs(self, rows: int, width: int) -> None:
        features = normal(rows, width)
        found = near.nearest(features, 6)
        for row in range(0, rows, max(rows // 20, 1)):
            assert found.rows[row].tolist() == naive(features, row, 6)
        expected = (features[:, None] - features[found.rows]).norm(dim=2)
        assert torch.allclose(found.distances, expected, atol=1e-4)

    def test_small_distances_far_from_the_mean_are_exact(self) -> None:
        features = normal(100, 4) + 1000 * (torch.arange(100) % 2)[:, None]
        features[1] = features[99] + 1e-3
        found = near.nearest(features, 3)
        assert found.rows[1, 0] == 99
        assert float(found.distances[1, 0]) == pytest.approx(2e-3, rel=0.2)

    def test_cells_find_almost_all(self) -> None:
        features = normal(6000, 24) + 3 * normal(12, 24, 1)[torch.arange(6000) % 12]
        exact, cells = near.nearest(features), near.nearest(features, exact_rows=0)
        shared = (exact.rows[:, :, None] == cells.rows[:, None, :]).any(2).float().mean()
        assert shared > 0.95
        assert torch.all(cells.rows != torch.arange(6000)[:, None])
        assert torch.all(cells.distances >= exact.distances - 1e-4)

    def test_cells_of_equal_rows(self) -> None:
        found = near.nearest(torch.zeros(1200, 3), exact_rows=0)
        assert found.distances.max() == 0

    def test_rows_in_cells_of_their_own_have_neighbours_too(self) -> None:
        """Most rows are equal, such as blank images; the others are far from them and from each other."""
        features = torch.cat([torch.zeros(12_000, 3), 1e3 * normal(40, 3)])
        found = near.nearest(features, 10, exact_rows=0)
        exact = torch.cdist(features[12_000:], features).topk(11, largest=False).values[:, 1:]
        torch.testing.assert_close(found.distances[12_000:], exact)


class TestDuplicateGroups:
    @pytest.mark.parametrize("width", [2, 8, 64, 500])
    @pytest.mark.parametrize("seed", range(3))
    def test_clean_random_data_has_none(self, width: int, seed: int) -> None:
        noise = torch.rand(1500, width, generator=generator(seed))
        for features in (normal(1500, width, seed), noise, normal(1500, width, seed) + 9 * noise.round()):
            assert near.duplicate_groups(near.nearest(centred(features))).max() == -1

    @pytest.mark.parametrize("exact_rows", [0, 10_000])
    def test_copies_with_a_little_noise_are_found_with_their_originals(self, exact_rows: int) -> None:
        features = normal(3000, 32) + 2 * normal(10, 32, 1)[torch.arange(3000) % 10]
        whole = torch.cat([features, features[:60] + 0.05 * normal(60, 32, 2), features[:5]])
        groups = near.duplicate_groups(near.nearest(centred(whole), exact_rows=exact_rows))
        assert torch.equal(groups[:60], torch.arange(60))
        assert torch.equal(groups[3000:], torch.cat([torch.arange(60), torch.arange(5)]))
        assert groups[60:3000].max() == -1

    def test_copies_are_found_in_two_dimensions(self) -> None:
        features = normal(500, 2)
        groups = near.duplicate_groups(near.nearest(centred(torch.cat([features, features[7:9]]))))
        assert groups[[7, 8, 500, 501]].tolist() == [0, 1, 0, 1]
        assert int((groups >= 0).sum()) == 4

    def test_more_copies_than_neighbours_are_one_group_if_they_are_exact(self) -> None:
        features = normal(400, 6)
        features[100:150] = features[100]
        groups = near.duplicate_groups(near.nearest(features))
        assert torch.equal((groups == 0).nonzero()[:, 0], torch.arange(100, 150))

    def test_tied_distances_leave_only_copies(self) -> None:
        features = torch.eye(100)
        features[99] = features[0]
        groups = near.duplicate_groups(near.nearest(features))
        assert (groups >= 0).nonzero()[:, 0].tolist() == [0, 99]

    def test_chains_are_one_group(self) -> None:
        pairs = torch.tensor([[9, 8], [8, 7], [7, 6], [2, 3], [6, 1]])
        groups = near._components(10, pairs[:, 0], pairs[:, 1])
        assert groups.tolist() == [-1, 0, 1, 1, -1, -1, 0, 0, 0, 0]


class TestOutliers:
    @pytest.mark.parametrize("width", [1, 2, 8, 64])
    @pytest.mark.parametrize("rows", [60, 200, 2000])
    @pytest.mark.parametrize("seed", range(3))
    def test_clean_random_data_has_none(self, width: int, rows: int, seed: int) -> None:
        for features in (
            normal(rows, width, seed),
            torch.rand(rows, width, generator=generator(seed)),
            normal(rows, width, seed) + 6 * normal(5, width, seed)[torch.arange(rows) % 5],
        ):
            assert near.outliers(near.nearest(centred(features))).max() == 0

    @pytest.mark.parametrize("width", [4, 16, 128])
    def test_planted_ones_are_found(self, width: int) -> None:
        features = normal(2000, width)
        features[:8] = 60 * torch.nn.functional.normalize(normal(8, width, 1), dim=1) * width**0.5
        score = near.outliers(near.nearest(centred(features)))
        assert (score > 0).nonzero()[:, 0].tolist() == list(range(8))
        assert score[:8].min() > 3

    def test_a_few_outliers_alike_are_found(self) -> None:
        features = normal(2000, 16)
        features[:4] = 100 + normal(4, 16, 1)
        assert (near.outliers(near.nearest(centred(features))) > 0).nonzero()[:, 0].tolist() == [0, 1, 2, 3]

    def test_equal_rows_have_none(self) -> None:
        assert near.outliers(near.nearest(torch.ones(100, 4))).max() == 0
