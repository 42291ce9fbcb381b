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
    """Return the given classes, the learned distributions y^d, ids (N,) and class names (C,).

    cleanlab expects out-of-sample probabilities. y^d is learned on the rows themselves and is pulled towards the given
    labels, so it finds fewer issues than out-of-sample probabilities would.
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
