"""Ready settings: defaults for a kind of data, and the paper's experiments, as functions of the data's path."""

from __future__ import annotations

from collections.abc import Callable

from pencil.config import RunConfig
from pencil.errors import ConfigError, did_you_mean
from pencil.presets import defaults, paper

PRESETS: dict[str, Callable[[str], RunConfig]] = {**defaults.PRESETS, **paper.PRESETS}


def preset(name: str, path: str) -> RunConfig:
    """The settings called ``name``, for the data at ``path``."""
    if name not in PRESETS:
        raise ConfigError(
            f"--preset {name}: unknown{did_you_mean(name, PRESETS)} (list them with: pencil presets)"
        )
    return PRESETS[name](path)


def describe(name: str) -> str:
    """One line about a preset."""
    function = PRESETS[name]
    text = getattr(function, "func", function).__doc__ or ""
    return text.splitlines()[0]


__all__ = ["PRESETS", "describe", "preset"]
