"""Label rows cut to their k largest entries, and PENCIL on them: for so many classes that whole rows do not fit.

All classes outside the k share one value, the log-mean-exp of theirs, so a cut row has the same log-sum-exp as the
whole one. The equations are those of ``losses`` and ``update``; a group of classes that share a value counts as many
times as it has members.

Legend: B examples, C classes, k kept entries; a *column* is one class, or all classes that share a value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from pencil.algorithm.losses import Direction, Form
from pencil.algorithm.update import gradient_of_columns, start_label_logits


class Largest(NamedTuple):
    """The result of ``TopRows.max``, as of ``Tensor.max(dim)``: the largest value of each row and its class."""

    values: Tensor
    indices: Tensor


@dataclass(frozen=True)
class TopRows:
    """B rows of C entries, of which k are kept apart. Behaves like the (B, C) tensor that it represents.

    Attributes:
        classes: (B, k) int64, which classes; no class twice in a row.
        values: (B, k), their entries.
        rest: (B, 1), the entry of every other class.
        num_classes: C.
    """

    classes: Tensor
    values: Tensor
    rest: Tensor
    num_classes: int

    def __len__(self) -> int:
        return self.values.shape[0]

    def __getitem__(self, indices: Tensor) -> TopRows:
        return TopRows(self.classes[indices], self.values[indices], self.rest[indices], self.num_classes)

    @property
    def device(self) -> torch.device:
        """Where the rows are."""
        return self.values.device

    def to(self, device: torch.device) -> TopRows:
        """The rows on a device."""
        return TopRows(
            self.classes.to(device), self.values.to(device), self.rest.to(device), self.num_classes
        )

    def detach(self) -> TopRows:
        """The rows without a graph; they never have one."""
        return self

    def dense(self) -> Tensor:
        """The (B, C) tensor itself."""
        return self.rest.repeat(1, self.num_classes).scatter_(1, self.classes, self.values)

    def log_probabilities(self) -> Callable[[Tensor], Tensor]:
        """What makes log y^d of entries (B, ...) of these rows.

        The largest entry becomes 0 first: at 60,000 float32 has few digits left for the logarithm of a sum.
        """
        largest = torch.maximum(self.values.amax(dim=1, keepdim=True), self.rest)
        shared = self.rest - largest + math.log(self.num_classes - self.values.shape[1])
        total = torch.cat([self.values - largest, shared], dim=1).logsumexp(dim=1, keepdim=True)
        return lambda entries: entries - largest - total

    def softmax(self) -> TopRows:
        """Eq. 7: y^d, each entry the probability of one class."""
        logs = self.log_probabilities()
        return TopRows(self.classes, logs(self.values).exp(), logs(self.rest).exp(), self.num_classes)

    def max(self, dim: int = 1) -> Largest:
        """The largest entry of each row and its class, as of the (B, C) tensor."""
        assert dim == 1, "rows are the first dimension"
        best = self.values.max(dim=1)
        found = self.classes.gather(1, best.indices[:, None])[:, 0]
        shared = self.rest[:, 0] > best.values  # then the first class that is not kept apart
        return Largest(
            torch.where(shared, self.rest[:, 0], best.values),
            torch.where(shared, self._first_shared(), found),
        )

    def at(self, classes: Tensor) -> Tensor:
        """The entries (B, M) of some classes (B, M)."""
        same = classes[:, :, None] == self.classes[:, None, :]
        kept = torch.where(same, self.values[:, None, :], 0.0).sum(dim=2)
        return torch.where(same.any(dim=2), kept, self.rest)

    def _first_shared(self) -> Tensor:
        first = torch.arange(self.classes.shape[1] + 1, device=self.device)
        kept = (first[None, :, None] == self.classes[:, None, :]).any(dim=2)
        return kept.long().argmin(dim=1)


def cut(rows: Tensor, k: int) -> TopRows:
    """Whole rows (B, C) cut to their ``k`` < C largest entries."""
    best = rows.topk(k, dim=1)
    others = rows.scatter(1, best.indices, -torch.inf)
    rest = others.logsumexp(dim=1, keepdim=True) - math.log(rows.shape[1] - k)
    return TopRows(best.indices, best.values, rest, rows.shape[1])


def start_top_rows(given: Tensor, num_classes: int, k: int, initial_gap: float) -> TopRows:
    """Eq. 8 for hard labels: K at the given class, 0 at all others, of which k - 1 are kept apart."""
    if given.dim() == 2:
        return cut(start_label_logits(given, num_classes, initial_gap), k)
    classes = (given.long()[:, None] + torch.arange(k, device=given.device)) % num_classes
    values = torch.zeros(len(given), k, device=given.device)
    values[:, 0] = initial_gap
    return TopRows(classes, values, torch.zeros(len(given), 1, device=given.device), num_classes)


def top_network_loss(
    log_probs: Tensor, probs: Tensor, rows: TopRows, entropy_weight: float, direction: Direction
) -> Tensor:
    """L_c + β L_e per example (B,), as ``losses.network_loss``, from log f and f; β = 0 is L_c alone."""
    logs = rows.log_probabilities()
    at_top, at_rest = logs(rows.values), logs(rows.rest)[:, 0]
    negative_entropy = (probs * log_probs).sum(dim=1)
    if direction == "prediction_label":
        kept = probs.gather(1, rows.classes)
        cross = (kept * at_top).sum(dim=1) + (1 - kept.sum(dim=1)) * at_rest
        return (1 - entropy_weight) * negative_entropy - cross
    kept = log_probs.gather(1, rows.classes)
    others = rows.num_classes - rows.values.shape[1]
    top = (at_top.exp() * (at_top - kept)).sum(dim=1)
    rest = at_rest.exp() * (others * at_rest - (log_probs.sum(dim=1) - kept.sum(dim=1)))
    return top + rest - entropy_weight * negative_entropy


def updated_top_rows(
    rows: TopRows,
    probs: Tensor,
    given: Tensor,
    *,
    label_rate: float,
    pull: float,
    form: Form = "reference",
    direction: Direction = "prediction_label",
) -> TopRows:
    """One visit, as ``update.updated_label_logits``, then cut again: a newly likely class takes the least one's place.

    The classes that may enter are the given one and the prediction's likeliest 2k. All others move together, by the
    gradient at their mean prediction; what they differ by is far below what half precision can hold.
    """
    columns = torch.cat([rows.classes, _candidates(probs, given, rows.classes.shape[1])], dim=1)
    counts = _first_occurrence(columns).to(rows.values.dtype)
    others = rows.num_classes - counts.sum(dim=1, keepdim=True)
    counts = torch.cat([counts, others], dim=1)
    now = torch.cat([rows.at(columns), rows.rest], dim=1)
    gradient = gradient_of_columns(
        rows.log_probabilities()(now).exp(),
        _with_mean(probs.gather(1, columns), counts),
        _with_mean(_given_at(given, columns), counts),
        pull=pull,
        form=form,
        direction=direction,
        counts=counts,
    )
    return _cut_columns(now - label_rate * gradient, columns, counts, rows)


def _candidates(probs: Tensor, given: Tensor, k: int) -> Tensor:
    """Classes (B, M) that may be kept apart from now on."""
    likely = largest(probs, min(2 * k, probs.shape[1]))
    hinted = given.long()[:, None] if given.dim() == 1 else given.topk(k, dim=1).indices
    return torch.cat([hinted, likely], dim=1)


def largest(values: Tensor, count: int, block: int = 64) -> Tensor:
    """The places (B, count) of the largest of many values (B, C), as ``topk`` in less time.

    The largest values lie in the ``count`` blocks with the largest maxima, or in the rest that fills no block.
    """
    blocks = values.shape[1] // block
    if blocks <= 2 * count:
        return values.topk(count, dim=1).indices
    maxima = values[:, : blocks * block].unflatten(1, (blocks, block)).amax(dim=2)
    place = torch.arange(block, device=values.device)
    within = (maxima.topk(count, dim=1).indices[:, :, None] * block + place).flatten(1)
    rest = torch.arange(blocks * block, values.shape[1], device=values.device).expand(len(values), -1)
    candidates = torch.cat([within, rest], dim=1)
    return candidates.gather(1, values.gather(1, candidates).topk(count, dim=1).indices)


def _first_occurrence(classes: Tensor) -> Tensor:
    """(B, M) bool: False where an earlier column names the same class."""
    same = classes[:, :, None] == classes[:, None, :]
    return ~same.tril(diagonal=-1).any(dim=2)


def _given_at(given: Tensor, classes: Tensor) -> Tensor:
    if given.dim() == 1:
        return (classes == given[:, None]).float()
    return given.gather(1, classes)


def _with_mean(entries: Tensor, counts: Tensor) -> Tensor:
    """A distribution's entries (B, M), and as one more column the mean of its other classes."""
    left = 1 - (entries * counts[:, :-1]).sum(dim=1, keepdim=True)
    return torch.cat([entries, left.clamp_min(0) / counts[:, -1:].clamp_min(1)], dim=1)


def _cut_columns(moved: Tensor, columns: Tensor, counts: Tensor, rows: TopRows) -> TopRows:
    """The k largest columns; all others, dropped now or shared before, join the shared entry."""
    k = rows.classes.shape[1]
    alone = torch.where(counts[:, :-1] > 0, moved[:, :-1], -torch.inf)
    best = alone.topk(k, dim=1)
    left = torch.cat(
        [alone.scatter(1, best.indices, -torch.inf), moved[:, -1:] + counts[:, -1:].log()], dim=1
    )
    rest = left.logsumexp(dim=1, keepdim=True) - math.log(rows.num_classes - k)
    return TopRows(columns.gather(1, best.indices), best.values, rest, rows.num_classes)
