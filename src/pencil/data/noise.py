"""Seeded label noise: labels in, noisy labels out. No file and no global random state is touched.

T (C, C) is a transition matrix (``algorithm.transition``).

Shapes: labels (N,) int64; C classes; S values in one flattened input.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from pencil.algorithm.transition import check_rate, wrong_row
from pencil.data.inputs import Inputs
from pencil.errors import DataError

_RATE_STD = 0.1  # Xia et al.: the spread of the flip rate over instances
_CHUNK = 2**22  # input values held as float64 at a time: 32 MB


def transition_noise(labels: Tensor, matrix: Tensor, generator: torch.Generator | int) -> Tensor:
    """Labels (N,) redrawn, each from its row of the transition matrix.

    Args:
        labels: (N,) class indices; left as they are.
        matrix: T (C, C), rows that are not negative and sum to 1.
        generator: A CPU generator, or a seed for a new one.
    """
    matrix = _checked_matrix(matrix)
    classes = matrix.shape[0]
    known = _checked_labels(labels, classes)
    # Row i of the cumulated matrix is lifted by i, so that one sorted list of C * C numbers serves all labels.
    # Draws of 32 bits keep draw + label exact in float64: no rounding reaches into a row of another label.
    cumulated = matrix.cumsum(dim=1)
    steps = cumulated / cumulated[:, -1:] + torch.arange(classes, dtype=torch.float64)[:, None]
    found = torch.searchsorted(
        steps.flatten(), known + _draws(len(known), _as_generator(generator)), right=True
    )
    return (found - known * classes).to(labels.device)


def instance_dependent_noise(
    labels: Tensor,
    inputs: Inputs,
    num_classes: int,
    rate: float,
    generator: torch.Generator | int,
    batch: int = 1024,
) -> Tensor:
    """Labels (N,) whose flips depend on the inputs: Xia et al., Part-dependent Label Noise, 2020, Algorithm 2.

    Instance i flips with probability q_i, drawn from a normal around the rate (std 0.1, truncated to [0, 1]),
    and then to class j != y_i in proportion to exp(x_i W_y), where each class y has its own W_y (S, C) of
    standard normals. Truncation lifts the mean of q_i where the rate is near 0 (0.129 for a rate of 0.1), as in
    the paper; a rate of 0 leaves all labels as they are.

    Here x_i is the flattened input less the mean input, scaled to length 1, so that x_i W_y has variance 1 whatever
    the inputs' size and unit. Unscaled, its spread would grow as the square root of S, and the softmax would name
    one class with certainty; not centred, all inputs would share a direction and flip alike. The flips are thus
    spread over more classes than with unscaled inputs: an easier noise, not to be compared with numbers for that one.

    Two passes over the inputs, in batches; at no time are they all held.

    Args:
        labels: (N,) class indices; left as they are.
        inputs: The N inputs, uint8 or any float.
        num_classes: C.
        rate: The mean flip rate, about.
        generator: A CPU generator, or a seed for a new one.
        batch: How many inputs to fetch at a time; does not change the labels.
    """
    check_rate(num_classes, rate)
    known = _checked_labels(labels, num_classes)
    _check_paired(known, inputs)
    if num_classes < 2 or rate == 0 or not len(known):
        return labels.long().clone()
    generator = _as_generator(generator)
    flip_rates = _truncated_normal(_draws(len(known), generator), rate)
    draws = _draws(len(known), generator)
    class_seeds = torch.randint(2**62, (num_classes,), generator=generator).tolist()
    center = _mean_input(inputs, batch)
    noisy = known.clone()
    for label, indices in _indices_by_class(known, num_classes):
        weights = _normals(class_seeds[label], (len(center), num_classes))
        for part in torch.split(indices, batch):
            scores = torch.cat([_directions(chunk, center) @ weights for chunk in _flat(inputs, part)])
            noisy[part] = _flipped(scores, label, flip_rates[part], draws[part])
    return noisy.to(labels.device)


def _flipped(scores: Tensor, label: int, flip_rates: Tensor, draws: Tensor) -> Tensor:
    """Labels (B,) for instances of one class from their scores (B, C), flip rates (B,) and draws (B,)."""
    scores[:, label] = -math.inf
    chances = scores.softmax(dim=1) * flip_rates[:, None]
    chances[:, label] = 1 - flip_rates
    cumulated = chances.cumsum(dim=1)
    return (cumulated <= draws[:, None] * cumulated[:, -1:]).sum(dim=1)


def _directions(values: Tensor, center: Tensor) -> Tensor:
    """Inputs (B, S) less their mean (S,), each of length 1; one that is the mean itself stays 0."""
    return torch.nn.functional.normalize(values - center, dim=1)


def _mean_input(inputs: Inputs, batch: int) -> Tensor:
    """The mean (S,) of the flattened inputs."""
    total = torch.zeros((), dtype=torch.float64)
    for indices in torch.split(torch.arange(len(inputs)), batch):
        for values in _flat(inputs, indices):
            total = total + values.sum(dim=0)
    if not bool(torch.isfinite(total).all()):
        raise DataError(
            "the inputs hold values that are not finite; instance-dependent noise cannot weigh them"
        )
    return total / len(inputs)


def _flat(inputs: Inputs, indices: Tensor) -> Iterator[Tensor]:
    """The inputs of these rows, flattened to (b, S) float64, a bounded number of values at a time."""
    fetched = inputs.fetch(indices).cpu().flatten(1)
    for chunk in torch.split(fetched, max(1, _CHUNK // max(1, fetched.shape[1]))):
        yield chunk.double()


def _indices_by_class(labels: Tensor, num_classes: int) -> Iterator[tuple[int, Tensor]]:
    """Each class that occurs, with the indices of its rows in order."""
    order = labels.argsort(stable=True)
    counts = torch.bincount(labels, minlength=num_classes).tolist()
    for label, indices in enumerate(torch.split(order, counts)):
        if len(indices):
            yield label, indices


def _truncated_normal(draws: Tensor, mean: float) -> Tensor:
    """Normals around the mean with std 0.1, truncated to [0, 1], from uniform draws by the inverse of Φ."""
    low, high = (0.5 + 0.5 * math.erf((end - mean) / (_RATE_STD * math.sqrt(2))) for end in (0.0, 1.0))
    quantiles = low + (high - low) * draws
    return (mean + _RATE_STD * math.sqrt(2) * torch.erfinv(2 * quantiles - 1)).clamp(0.0, 1.0)


def _draws(count: int, generator: torch.Generator) -> Tensor:
    """Uniform float64 numbers in [0, 1), each a multiple of 2^-32."""
    return torch.randint(2**32, (count,), generator=generator).double() / 2**32


def _normals(seed: int, shape: tuple[int, ...]) -> Tensor:
    # float64: the float32 normals of different processors differ in their last bits, and with them a label might
    return torch.randn(shape, generator=_as_generator(seed), dtype=torch.float64)


def _as_generator(generator: torch.Generator | int) -> torch.Generator:
    if isinstance(generator, torch.Generator):
        return generator
    return torch.Generator().manual_seed(generator)


def _checked_labels(labels: Tensor, classes: int) -> Tensor:
    if labels.dim() != 1 or labels.is_floating_point():
        raise DataError(f"noise takes class indices (N,), got {labels.dtype} of shape {tuple(labels.shape)}")
    known = labels.long().cpu()
    if len(known) and not 0 <= int(known.min()) <= int(known.max()) < classes:
        raise DataError(
            f"labels from {int(known.min())} to {int(known.max())} do not fit {classes} classes (0 to C - 1)"
        )
    return known


def _check_paired(labels: Tensor, inputs: Inputs) -> None:
    if len(inputs) != len(labels):
        raise DataError(
            f"{len(labels)} labels for {len(inputs)} inputs; instance-dependent noise needs one each"
        )


def _checked_matrix(matrix: Tensor) -> Tensor:
    if matrix.dim() != 2 or matrix.shape[0] != matrix.shape[1]:
        raise DataError(f"a transition matrix must be square (C, C), got shape {tuple(matrix.shape)}")
    values = matrix.cpu().double()
    row = wrong_row(values)
    if row is not None:
        raise DataError(
            f"row {row} of the transition matrix must not be negative and must sum to 1, got {_shown(values[row])}"
        )
    return values


def _shown(row: Tensor) -> str:
    """A row for a message: its values, cut where there are many, and their sum."""
    values = ", ".join(f"{value:g}" for value in row[:10].tolist())
    return f"[{values}{', ...' if len(row) > 10 else ''}] with sum {float(row.sum()):g}"
