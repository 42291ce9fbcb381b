"""The nearest rows of every row, near-identical rows, and rows far from all others, from features alone.

Distances are Euclidean, between centred features. With r_j the distance of a row to its j-th nearest row and m the
intrinsic dimension of the data, the k − 1 rows nearer than r_k fill the ball of radius r_k evenly, so (r_j / r_k)^m
are ordered uniform numbers. Two results follow:

    m = ln 2 / median of ln(r_k / r_h), with h = k / 2, because (r_h / r_k)^m then has the median 1/2;
    P(r_1 < c r_k) ≤ (k − 1) c^m, so c = (α / (N (k − 1)))^(1/m) lets α rows look like a copy by chance.

A pair is near-identical if its distance is at most min(c, 1/2) times the r_k of both rows. Copies (distance 0) always
are. A group is a connected component of such pairs.

The logarithm of a row's mean distance to its k neighbours has a tail that is exponential or lighter for the usual
densities. A row is an outlier if it lies so far out that α rows in N are expected there, by an exponential tail that is
fitted to the middle of the largest values. Clean data has none, whatever its size.

Legend: N rows, B rows of a block, R features after projection, k neighbours, M pairs, K cells.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from pencil.estimates.whitening import Passes

K = 20
LEAST_ROWS, LEAST_ROWS_OF_OUTLIERS = 3 * K, 200
"""With fewer rows, distances to neighbours mean nothing, or their tail cannot be fitted."""
MOST_FEATURES = 384
"""Rows with more features are projected at random to this many, which keeps distances to about 4 %."""
EXACT_ROWS = 20_000
"""Up to this many rows, every row is compared with every other one; beyond, with the rows of the nearest cells."""
CELL, PROBED = 500, 8
"""The mean number of rows of a cell, and the cells that are searched for the neighbours of a row."""
EXPECTED_PAIRS, EXPECTED_OUTLIERS = 0.001, 0.01
"""α: near-identical rows, and outliers, that are expected by chance in the whole data."""
WIDEST = 0.5
"""The largest share of r_k at which rows are near-identical."""
LEAST_DIMENSION = 1.5
"""On data that is almost a line, distances in thin regions vary too much for a test."""
TAIL, LEAST_TAIL = 0.1, 50
"""The share of largest distances that the tail is fitted to, and the least number of rows in it."""
_SEED, _SAMPLE, _ROUNDS, _BLOCK, _GROUP = 20190, 32, 5, 1 << 22, 32
_LEAST = 1e-30  # mean distance whose logarithm is taken
_CANCELLED = 0.01  # below this share of |x|² + |y|², a distance is computed again from the difference


@dataclass(frozen=True)
class Neighbours:
    """The nearest rows of every row, in ascending order of distance.

    Attributes:
        rows: (N, k) their numbers.
        distances: (N, k) float32.
    """

    rows: Tensor
    distances: Tensor


def centred(passes: Passes, rows: int) -> Tensor:
    """All features (rows, R) float32: 0 where not finite, centred, projected if there are many."""
    kept, projection = torch.empty(0), None
    for places, features in passes():
        if not len(kept):
            width = features.shape[1]
            projection = _projection(width)
            kept = torch.empty(rows, min(width, MOST_FEATURES))
        finite = torch.nan_to_num(features.float(), nan=0.0, posinf=0.0, neginf=0.0)
        kept[places] = finite if projection is None else finite @ projection
    return kept - kept.double().mean(0).float() if len(kept) else kept


def nearest(features: Tensor, k: int = K, *, exact_rows: int = EXACT_ROWS) -> Neighbours:
    """Find the k nearest rows of every row; approximately if there are more than ``exact_rows``.

    Args:
        features: (N, R) float32, N > k.
        k: The number of neighbours.
        exact_rows: Compare all pairs of rows up to this many rows.
    """
    squares = features.square().sum(1)
    found = _compare_all if len(features) <= exact_rows else _compare_cells
    squared, rows = found(features, squares, k)
    near = squared < _CANCELLED * (squares[:, None] + squares[rows])
    row, place = near.nonzero(as_tuple=True)
    for some in torch.arange(len(row)).split(max(1, _BLOCK // features.shape[1])):
        at = row[some], place[some]
        squared[at] = (features[at[0]] - features[rows[at]]).square().sum(1)
    distances, order = squared.clamp_min(0).sqrt().sort(dim=1)
    return Neighbours(rows.gather(1, order), distances)


def duplicate_groups(found: Neighbours) -> Tensor:
    """The number of each row's group of near-identical rows (N,), from 0 in order of their first rows; −1 for none."""
    radius = found.distances[:, -1] * _reach(found.distances)
    row, place = (found.distances <= radius[:, None]).nonzero(as_tuple=True)
    other = found.rows[row, place]
    both = found.distances[row, place] <= radius[other]
    return _components(len(radius), row[both], other[both])


def outliers(found: Neighbours) -> Tensor:
    """How many times farther from its neighbours an outlier is than the median row (N,); 0 for other rows."""
    mean = found.distances.double().mean(1)
    if len(mean) < LEAST_ROWS_OF_OUTLIERS or _inverse_dimension(found.distances) > 1 / LEAST_DIMENSION:
        return torch.zeros(len(mean))
    value, size = mean.clamp_min(_LEAST).log(), max(round(TAIL * len(mean)), LEAST_TAIL)
    largest = value.topk(size + 1).values
    scale = float((largest[:-1] - largest[-1]).median()) / math.log(2)
    limit = float(largest[-1]) + scale * math.log(size / EXPECTED_OUTLIERS)
    times = mean / mean.median().clamp_min(_LEAST)
    return torch.where((value > limit) & (times > 1), times, 0.0).float()


def _reach(distances: Tensor) -> float:
    """min(c, 1/2), from the distances (N, k)."""
    rows, k = distances.shape
    inverse = _inverse_dimension(distances)
    if not inverse > 0:  # distances are tied, so only copies are near-identical
        return 0.0
    return min(WIDEST, float((EXPECTED_PAIRS / (rows * (k - 1))) ** inverse))


def _inverse_dimension(distances: Tensor) -> float:
    """1 / m, from the distances (N, k)."""
    half, last = distances[:, distances.shape[1] // 2 - 1], distances[:, -1]
    apart = half > 0
    return float((last[apart] / half[apart]).log().median()) / math.log(2) if bool(apart.any()) else 0.0


def _components(size: int, first: Tensor, second: Tensor) -> Tensor:
    """Numbers (size,) of the connected components with at least two members, from pairs (M,), (M,); −1 for others."""
    label = torch.arange(size)
    while True:
        least = label.scatter_reduce(0, first, label[second], "amin").scatter_reduce(
            0, second, label[first], "amin"
        )
        least = least[least]
        if torch.equal(least, label):
            break
        label = least
    linked = torch.zeros(size, dtype=torch.bool)
    linked[first] = linked[second] = True
    groups = torch.full((size,), -1)
    groups[linked] = label[linked].unique(return_inverse=True)[1]
    return groups


def _projection(width: int) -> Tensor | None:
    """Random directions (D, R) for D > ``MOST_FEATURES``."""
    if width <= MOST_FEATURES:
        return None
    normals = torch.randn(width, MOST_FEATURES, generator=torch.Generator().manual_seed(_SEED))
    scaled: Tensor = normals / MOST_FEATURES**0.5
    return scaled


def _compare_all(
    features: Tensor, squares: Tensor, k: int, asking: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Squared distances (M, k) and rows (M, k) nearest to the rows that ask, by default all; by blocks of the table."""
    parts = []
    asking = torch.arange(len(features)) if asking is None else asking
    for block in asking.split(max(1, _BLOCK // len(features))):
        table = _distances(features[block], squares[block], features, squares)
        table[torch.arange(len(block)), block] = math.inf
        parts.append(_smallest(table, k))
    return torch.cat([values for values, _ in parts]), torch.cat([rows for _, rows in parts])


def _compare_cells(features: Tensor, squares: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The same, but only between a row and the rows of the ``PROBED`` cells whose centres are nearest to it."""
    centres = _centres(features, max(PROBED, len(features) // CELL))
    probes = min(PROBED, len(centres))
    probed = _nearest_centres(features, centres, probes)
    members = list(_by_cell(probed[:, 0], torch.arange(len(features)), len(centres)))
    rows = torch.arange(len(features)).repeat_interleave(probes)
    best = torch.full((len(features), k), math.inf)
    found = torch.zeros(len(features), k, dtype=torch.long)
    for inside, asking in zip(members, _by_cell(probed.flatten(), rows, len(centres)), strict=True):
        for some in asking.split(max(1, _BLOCK // max(len(inside), 1))) if len(inside) else ():
            table = _distances(features[some], squares[some], features[inside], squares[inside])
            table.masked_fill_(some[:, None] == inside, math.inf)
            values, places = _smallest(table, min(k, len(inside)))
            best[some], kept = _smallest(torch.cat([best[some], values], dim=1), k)
            found[some] = torch.cat([found[some], inside[places]], dim=1).gather(1, kept)
    lacking = (~best.isfinite().all(1)).nonzero()[:, 0]  # the cells of these rows have too few others
    if len(lacking):
        best[lacking], found[lacking] = _compare_all(features, squares, k, lacking)
    return best, found


def _centres(features: Tensor, cells: int) -> Tensor:
    """Centres (K, R) of cells: k-means on a sample of the rows."""
    generator = torch.Generator().manual_seed(_SEED)
    sample = features[torch.randperm(len(features), generator=generator)[: _SAMPLE * cells]]
    centres: Tensor = sample[:cells].unique(dim=0)  # of equal ones all but one would be empty cells
    cells = len(centres)
    for _ in range(_ROUNDS):
        cell = _nearest_centres(sample, centres, 1)[:, 0]
        count = cell.bincount(minlength=cells)
        sums = torch.zeros_like(centres).index_add_(0, cell, sample)
        centres = torch.where(count[:, None] > 0, sums / count.clamp_min(1)[:, None], centres)
    return centres


def _nearest_centres(features: Tensor, centres: Tensor, number: int) -> Tensor:
    """The nearest centres (N, number) of every row, the nearest first."""
    squares, parts = centres.square().sum(1), []
    for block in features.split(max(1, _BLOCK // len(centres))):
        table = torch.addmm(squares, block, centres.T, alpha=-2)
        parts.append(table.argmin(1, keepdim=True) if number == 1 else _smallest(table, number)[1])
    return torch.cat(parts)


def _by_cell(cell: Tensor, rows: Tensor, cells: int) -> Iterator[Tensor]:
    """Yield the rows of each cell; ``cell`` and ``rows`` have the same length."""
    sizes = cell.bincount(minlength=cells).tolist()
    yield from rows[cell.argsort(stable=True)].split(sizes)


def _distances(first: Tensor, first_squares: Tensor, second: Tensor, second_squares: Tensor) -> Tensor:
    """Squared distances (B, M) between rows (B, R) and (M, R), whose squared lengths are known."""
    return torch.addmm(second_squares, first, second.T, alpha=-2).add_(first_squares[:, None])


def _smallest(table: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k smallest values (B, k) of every row (B, M) in ascending order, and their places.

    Only the k groups of columns with the smallest minima can have them, which is faster than a search of all columns.
    """
    width = table.shape[1] // _GROUP * _GROUP
    if width < 4 * k * _GROUP:
        values, places = table.topk(k, largest=False)
        return values, places
    groups = table[:, :width].view(len(table), -1, _GROUP)
    best = groups.amin(2).topk(k, largest=False).indices
    places = (best[:, :, None] * _GROUP + torch.arange(_GROUP)).flatten(1)
    rest = torch.arange(width, table.shape[1]).expand(len(table), -1)
    places = torch.cat([places, rest], dim=1)
    found = table.gather(1, places).topk(k, largest=False)
    return found.values, places.gather(1, found.indices)
