"""Ready settings: defaults for a kind of data, and the paper's experiments, as functions of the data's path."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pencil.config import RunConfig
from pencil.errors import ConfigError, did_you_mean
from pencil.presets import defaults, paper
from pencil.presets.defaults import KNOBS, start_from
from pencil.presets.experiment import Experiment

Preset = Callable[[str], RunConfig]
GROUPS: Mapping[str, Mapping[str, Preset]] = {"defaults, by kind of data": defaults.PRESETS, **paper.GROUPS}
PRESETS: dict[str, Preset] = {name: found for group in GROUPS.values() for name, found in group.items()}


def preset(name: str, path: str, columns: Mapping[str, str] | None = None) -> RunConfig:
    """The settings called ``name``, for the data at ``path``.

    ``columns`` are names by role, as in ``data.columns``: a manifest is read with them to choose the size of images.
    """
    found = _known(name)
    return defaults.manifest(path, columns) if found is defaults.manifest else found(path)


def describe(name: str) -> str:
    """One line about a preset."""
    found = _known(name)
    text = found.title if isinstance(found, Experiment) else found.__doc__ or ""
    return text.splitlines()[0]


def choices(name: str) -> tuple[str, ...]:
    """Where the preset had to choose; empty for defaults."""
    found = _known(name)
    return found.choices if isinstance(found, Experiment) else ()


def _known(name: str) -> Preset:
    if name not in PRESETS:
        raise ConfigError(
            f"--preset {name}: unknown{did_you_mean(name, PRESETS)} (list them with: pencil presets)"
        )
    return PRESETS[name]


__all__ = ["GROUPS", "KNOBS", "PRESETS", "choices", "describe", "preset", "start_from"]
