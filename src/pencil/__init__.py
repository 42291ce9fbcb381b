"""pencil: train on noisy labels, and find out which of them are wrong.

One training run gives a robust model and, for every example, a distribution over its possible labels.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pencil._version import __version__

if TYPE_CHECKING:
    from pencil import methods
    from pencil.algorithm import (
        CosineSchedule,
        LinearSchedule,
        Pencil,
        Phase,
        PiecewiseSchedule,
        flip_certificates,
        three_phases,
    )
    from pencil.config import RunConfig
    from pencil.data.example import example
    from pencil.engine import LabelLearner, LearnedLabels
    from pencil.errors import PencilError
    from pencil.estimates import prototype_start
    from pencil.finding import find_errors
    from pencil.frames import train
    from pencil.integrations.sklearn import PencilClassifier as PencilClassifier
    from pencil.methods import CrossEntropy
    from pencil.notebook import Run, open_run
    from pencil.results import VerdictRule
    from pencil.results.label_errors import LabelErrors
    from pencil.stores import GivenLabels

__all__ = [
    "CosineSchedule",
    "CrossEntropy",
    "GivenLabels",
    "LabelErrors",
    "LabelLearner",
    "LearnedLabels",
    "LinearSchedule",
    "Pencil",
    "PencilError",
    "Phase",
    "PiecewiseSchedule",
    "Run",
    "RunConfig",
    "VerdictRule",
    "__version__",
    "example",
    "find_errors",
    "flip_certificates",
    "methods",
    "open_run",
    "prototype_start",
    "three_phases",
    "train",
]

_MODULES = {
    "CosineSchedule": "pencil.algorithm",
    "CrossEntropy": "pencil.methods",
    "GivenLabels": "pencil.stores",
    "LabelErrors": "pencil.results.label_errors",
    "LabelLearner": "pencil.engine",
    "LearnedLabels": "pencil.engine",
    "LinearSchedule": "pencil.algorithm",
    "Pencil": "pencil.algorithm",
    "PencilClassifier": "pencil.integrations.sklearn",  # not in __all__: import * must work without scikit-learn
    "PencilError": "pencil.errors",
    "Phase": "pencil.algorithm",
    "PiecewiseSchedule": "pencil.algorithm",
    "Run": "pencil.notebook",
    "RunConfig": "pencil.config",
    "VerdictRule": "pencil.results",
    "example": "pencil.data.example",
    "find_errors": "pencil.finding",
    "flip_certificates": "pencil.algorithm",
    "open_run": "pencil.notebook",
    "prototype_start": "pencil.estimates",
    "three_phases": "pencil.algorithm",
    "train": "pencil.frames",
}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use, so that ``import pencil`` and ``pencil --help`` do not wait for torch."""
    if name == "methods":
        return importlib.import_module("pencil.methods")
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'pencil' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, without the imports of this module."""
    return sorted({*__all__, *_MODULES})
