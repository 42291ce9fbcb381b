"""cleanlab: ``labels`` (N,) and ``pred_probs`` (N, C), the arguments of its functions.

arrays = numpy.load("run.npz")
cleanlab.filter.find_label_issues(arrays["labels"], arrays["pred_probs"])
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pencil.algorithm import TopRows
from pencil.results import Judged


def arrays(chunks: Iterable[Judged], class_names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Return the given classes, the posterior of the true classes, ids (N,) and class names (C,).

    cleanlab expects probabilities that do not know the given label. The posterior has already taken it into account, so
    cleanlab's thresholds find fewer issues in it; sort by ``p_wrong`` instead.
    """
    labels: list[int] = []
    ids: list[str] = []
    beliefs = [torch.empty(0, len(class_names))]
    for chunk in chunks:
        belief = chunk.distribution
        ids += chunk.ids
        labels += chunk.given.tolist()
        beliefs.append(belief.dense() if isinstance(belief, TopRows) else belief)
    return {
        "labels": np.array(labels, dtype=np.int64),
        "pred_probs": torch.cat(beliefs).numpy(),
        "ids": np.array(ids),
        "class_names": np.array(class_names),
    }
