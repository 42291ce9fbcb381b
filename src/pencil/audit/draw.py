"""The random draw of an audit: a pure function of its seed, so that anyone can repeat it.

Random numbers are SHA-256 of the seed and a counter, taken modulo the range. They do not depend on the version of a
random number generator, and are easy to compute in any language.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")

REPEAT_EVERY = 10  # one blind repeat after this many labels
REPEAT_GAP = 5  # the newest labels are not repeated, because the auditor still remembers them


class Look(NamedTuple):
    """One item that the auditor sees.

    Attributes:
        number: From 1, in the order shown.
        stratum: The name of the stratum.
        place: The place of the label among the labels of its stratum, in row order.
        again: The number of the look that this one repeats; None for a new label.
    """

    number: int
    stratum: str
    place: int
    again: int | None


def random_below(limit: int, *key: object) -> int:
    """A random number from 0 to ``limit`` − 1, determined by the key."""
    digest = hashlib.sha256("/".join(map(str, key)).encode()).digest()
    return int.from_bytes(digest) % limit


def drawn(seed: int, stratum: str, size: int, count: int) -> list[int]:
    """Draw ``count`` of ``size`` places uniformly without replacement; a larger draw begins with the smaller one."""
    moved: dict[int, int] = {}  # Fisher-Yates, which stores only the places that it moved
    places = []
    for step in range(count):
        other = step + random_below(size - step, seed, stratum, step)
        places.append(moved.get(other, other))
        moved[other] = moved.get(step, step)
    return places


def shuffled(items: Sequence[T], *key: object) -> list[T]:
    """The items in an order determined by the key."""
    mixed = list(items)
    for step in range(len(mixed) - 1, 0, -1):
        other = random_below(step + 1, *key, step)
        mixed[step], mixed[other] = mixed[other], mixed[step]
    return mixed


def looks(seed: int, sizes: Mapping[str, int], draws: Sequence[Mapping[str, int]]) -> list[Look]:
    """All looks of an audit, in the order shown.

    Args:
        seed: The seed of the audit.
        sizes: The number of labels by stratum.
        draws: The number of labels drawn so far by stratum, after the first draw and after each extension.
    """
    queues = {name: iter(drawn(seed, name, sizes[name], count)) for name, count in draws[-1].items()}
    before = dict.fromkeys(queues, 0)
    found: list[Look] = []
    for number, counts in enumerate(draws):
        names = [name for name in queues for _ in range(counts[name] - before[name])]
        for name in shuffled(names, seed, "order", number):
            found.append(Look(len(found) + 1, name, next(queues[name]), None))
            found.extend(_repeat(seed, found))
        before = dict(counts)
    return found


def _repeat(seed: int, found: Sequence[Look]) -> list[Look]:
    """The blind repeat that follows the newest look, if one does."""
    first = [look for look in found if look.again is None]
    if len(first) % REPEAT_EVERY:
        return []
    repeated = {look.again for look in found}
    fresh = [look for look in first[:-REPEAT_GAP] if look.number not in repeated]
    chosen = fresh[random_below(len(fresh), seed, "again", len(first))]
    return [Look(len(found) + 1, chosen.stratum, chosen.place, chosen.number)]


def shares(sizes: Mapping[str, int], count: int) -> dict[str, int]:
    """Divide a sample among strata by size, with at least a tenth of it (or all labels) for each stratum."""
    total = sum(sizes.values())
    divided = {name: min(size, count // 10) for name, size in sizes.items()}
    for _ in range(min(count, total) - sum(divided.values())):
        free = [name for name, size in sizes.items() if divided[name] < size]
        divided[max(free, key=lambda name: count * sizes[name] / total - divided[name])] += 1
    return divided
