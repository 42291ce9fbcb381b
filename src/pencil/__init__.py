"""pencil: learn from labels nobody should trust.

One training run gives a plain robust model and, for every example, a distribution over its possible labels.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pencil._version import __version__

if TYPE_CHECKING:
    from pencil.algorithm import Cosine, Linear, Pencil, Phase, Piecewise, flip_certificates, three_phases
    from pencil.engine import LabelLearner, LearnedLabels
    from pencil.errors import PencilError
    from pencil.methods import CrossEntropy
    from pencil.stores import GivenLabels

__all__ = [
    "Cosine",
    "CrossEntropy",
    "GivenLabels",
    "LabelLearner",
    "LearnedLabels",
    "Linear",
    "Pencil",
    "PencilError",
    "Phase",
    "Piecewise",
    "__version__",
    "flip_certificates",
    "three_phases",
]

_ROOMS = {
    "pencil.algorithm": (
        "Cosine",
        "Linear",
        "Pencil",
        "Phase",
        "Piecewise",
        "flip_certificates",
        "three_phases",
    ),
    "pencil.engine": ("LabelLearner", "LearnedLabels"),
    "pencil.errors": ("PencilError",),
    "pencil.methods": ("CrossEntropy",),
    "pencil.stores": ("GivenLabels",),
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for: ``pencil --help`` need not wait for torch."""
    for room, names in _ROOMS.items():
        if name in names:
            return getattr(importlib.import_module(room), name)
    raise AttributeError(f"module 'pencil' has no attribute {name!r}")
