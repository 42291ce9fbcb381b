"""Which row is which: matches the rows of the data with those of an earlier run or a file.

Ids that the data has are the identity of a row, as long as its content is the same. Ids that were generated are row
numbers, which move when a row is added or removed: they say nothing, and the content is the identity.

N: rows of the data. M: known rows, such as those of an earlier run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from pencil.data.examples import SubsetNames

NEW = -1
"""In place of a known row: there is none."""


def has_own_ids(ids: Sequence[str]) -> bool:
    """Whether ids come from the data, and were not generated."""
    return not getattr(all_ids(ids), "are_generated", False)


def all_ids(ids: Sequence[str]) -> Sequence[str]:
    """The ids of all rows that a reader found, of which ``ids`` may be some."""
    return ids.base if isinstance(ids, SubsetNames) else ids


def match_rows(
    ids: Sequence[str],
    known: Sequence[str],
    *,
    keys: Tensor | None = None,
    known_keys: Tensor | None = None,
    own: bool = True,
    seen: Tensor | None = None,
) -> Tensor:
    """The known row (N,) that each row is; ``NEW`` for the others.

    Args:
        ids: The ids (N,) of the rows.
        known: The ids (M,) of the known rows.
        keys: The keys (N,) of the rows' contents (see ``keys.row_keys``), if they are known.
        known_keys: Those of the known rows (M,).
        own: Whether both have ids of their own. If not, only content matches.
        seen: The keys of all rows that the known ones are from. If no row has one of them, as after features were
            computed anew, ids of their own alone count.
    """
    if keys is None or known_keys is None:
        return _places(ids, known) if own else torch.full((len(ids),), NEW)
    if own:
        found = _places(ids, known)
        anew = seen is not None and not bool(torch.isin(keys, seen).any())
        return found if anew else _same_content(found, keys, known_keys)
    by_number = _same_content(_places(ids, known), keys, known_keys)
    by_content = _places(keys.tolist(), known_keys.tolist())
    return torch.where(by_number == NEW, by_content, by_number)


def _places(names: Iterable[object], known: Sequence[object]) -> Tensor:
    """The place of each name among the known ones; names that several rows have match nothing."""
    names, counts = list(names), Counter(known)
    twice = {name for name, count in Counter(names).items() if count > 1}
    places = {name: place for place, name in enumerate(known) if counts[name] == 1 and name not in twice}
    return torch.tensor([places.get(name, NEW) for name in names], dtype=torch.int64)


def _same_content(found: Tensor, keys: Tensor, known_keys: Tensor) -> Tensor:
    seen = known_keys[found] if len(known_keys) else found
    return torch.where((found != NEW) & (seen == keys), found, NEW)
