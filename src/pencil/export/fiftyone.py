"""FiftyOne: a run's labels as a dataset on disk, ``metadata.json`` and ``samples.json`` (fo.types.FiftyOneDataset).

The metadata has no ``version``, so FiftyOne reads the dataset sample by sample and needs no keys of its database. Each
sample has the Classifications ``ground_truth`` (given label) and ``pencil`` (suggested label), and a verdict as tag.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pencil.results import LabelRow


def metadata(class_names: Sequence[str]) -> dict[str, Any]:
    """The contents of ``metadata.json``; the classes become the dataset's ``default_classes``."""
    return {"media_type": "image", "info": {"classes": list(class_names)}}


def sample(row: LabelRow, prefix: str) -> dict[str, Any]:
    """One sample. Its image path is ``prefix`` plus the row's id, relative to the dataset's folder unless absolute."""
    return {
        "filepath": f"{prefix}{row.id}",
        "tags": [row.verdict],
        "metadata": None,
        "ground_truth": _classification(row.given),
        "pencil": _classification(row.suggested, row.confidence),
        "pencil_id": row.id,
        "p_wrong": row.p_wrong,
    }


def _classification(label: str, confidence: float | None = None) -> dict[str, Any]:
    return {"_cls": "Classification", "tags": [], "label": label, "confidence": confidence, "logits": None}
