"""cleanlab: ``labels`` (N,) and ``pred_probs`` (N, C), as its functions take them.

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
    """Given classes, the belief y^d about the true ones, ids (N,) and class names (C,).

    cleanlab is made for probabilities by networks that have not seen a row. y^d has seen it, and is held to its given
    label by the pull; what it doubts is doubted all the same.
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
