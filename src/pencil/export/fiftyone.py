"""FiftyOne: a run's labels as a dataset on disk, ``metadata.json`` and ``samples.json`` (fo.types.FiftyOneDataset).

It is the form without a ``version`` in its metadata, which FiftyOne reads sample by sample and which needs none of its
database's keys. A sample has the label it came with as ``ground_truth``, the suggested one as ``pencil``, both
Classifications, and its verdict as a tag.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pencil.results import LabelRow


def metadata(class_names: Sequence[str]) -> dict[str, Any]:
    """What ``metadata.json`` holds; FiftyOne makes the classes the dataset's ``default_classes``."""
    return {"media_type": "image", "info": {"classes": list(class_names)}}


def sample(row: LabelRow, prefix: str) -> dict[str, Any]:
    """One sample; its image is ``prefix`` and the row's id, relative to the dataset's folder unless absolute."""
    return {
        "filepath": f"{prefix}{row.id}",
        "tags": [row.verdict],
        "metadata": None,
        "ground_truth": _classification(row.given),
        "pencil": _classification(row.suggested, row.confidence),
        "pencil_id": row.id,
    }


def _classification(label: str, confidence: float | None = None) -> dict[str, Any]:
    return {"_cls": "Classification", "tags": [], "label": label, "confidence": confidence, "logits": None}
