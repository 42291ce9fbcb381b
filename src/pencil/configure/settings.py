"""Build a RunConfig from the command line: recognise the data, choose a preset, apply options, validate once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pencil.config import RunConfig, assign, parse_assignment, read_table
from pencil.embed import default_encoder
from pencil.errors import ConfigError
from pencil.kinds import DataSection, Kind, kind_of, kinds, recognise
from pencil.kinds.built_in import has_columns
from pencil.presets import preset, start_from

VARIABLE = "PENCIL_EMBED"
"""The encoder to use where --embed is not given, such as a folder on a machine without a network."""
NONE = "none"
Settings = tuple[str | tuple[str, Any], ...]
"""Those of --set, ``name=value``, or names with their values."""
KIND_OF_ROLE = {"path": "manifest", "text": "text", "features": "features"}
"""The kinds of data that have a column of their own."""
SHARED = ("validation", "normalize", "augment", "noise", "size", "channels")
"""Data settings that a kind takes from another kind's preset, if it has them."""


OF_TRAINING = ("limit", "per_class", "noise", "trusted", "validation", "ceiling")
"""Data settings that choose rows and labels to train on; other commands take all rows as they are stored."""


def train_config(
    data: str | None,
    config: Path | None,
    preset_name: str | None,
    *,
    method: str | None = None,
    noise: str | None = None,
    trusted: str | None = None,
    epochs: str | None = None,
    seed: int | None = None,
    on_error: str | None = None,
    embed: str | None = None,
    start: str | None = None,
    base: dict[str, Any] | None = None,
    settings: Settings = (),
) -> RunConfig:
    """Combine settings from a file, a preset or the data, then options, then --set; one error lists all mistakes.

    ``base`` replaces the first of these, see ``continuing``.
    """
    table = _base_table(data, config, preset_name, embed, settings) if base is None else base
    if method is not None:
        _set_method(table, method)
    by_data = not any((config, preset_name, method, base))
    labels = start or (_default_start(table, settings) if by_data else None)
    if labels is not None:
        start_from(table, labels, own=bool(config or base))
    if noise is not None:
        assign(table, "data.noise", parse_noise(noise))
    if trusted is not None:
        assign(table, "data.trusted", {"path": trusted})
    if seed is not None:
        table["seed"] = seed
    if on_error is not None:
        assign(table, "data.on_error", on_error)
    if epochs is not None:
        _set_epochs(table, epochs)
    apply_settings(table, settings)
    return RunConfig.of(table)


def choose_encoder(
    data: str | None, embed: str | None, *decided: object, settings: Settings = ()
) -> tuple[str | None, str | None]:
    """The encoder to use, and a line about it if the user did not choose.

    Args:
        data: The path of the data.
        embed: The user's choice, "none" for training from scratch. Without one the variable ``PENCIL_EMBED`` decides,
            otherwise what is installed.
        decided: Settings from elsewhere, such as a file or a preset. If one is not None, no encoder is added.
        settings: Those of --set, which may name the kind of data.
    """
    if embed is not None:
        return (None if embed == NONE else embed), None
    if data is None or any(other is not None for other in decided):
        return None, None
    rows = _kind(data, settings).embeds(Path(data).expanduser())
    if rows is None:
        return None, None
    named = os.environ.get(VARIABLE)
    return default_encoder(rows) if named is None else choose_encoder(data, named)


def words_of(settings: Settings) -> set[str]:
    """The values of --set that are strings, which may name code."""
    return {value for _, value in pairs_of(settings) if isinstance(value, str)}


def pairs_of(settings: Settings) -> Iterator[tuple[str, Any]]:
    """The names of settings with their values."""
    return (parse_assignment(each) if isinstance(each, str) else each for each in settings)


def check_reading(settings: Settings, command: str, *, but: str | None = None) -> None:
    """Refuse settings that only training uses, except for those of the section ``but``.

    Raises:
        ConfigError: A command that takes all rows would ignore one of them.
    """
    for key, value in pairs_of(settings):
        name = key.removeprefix("data.").partition(".")[0]
        if name in OF_TRAINING and name != but:
            raise ConfigError(
                f"--set {key}={value}: only pencil train uses it; pencil {command} takes all rows as they are stored; "
                "leave it out"
            )


def data_section(
    path: str, settings: Settings = (), *, like: RunConfig | None = None, noise: str | None = None
) -> DataSection:
    """The section for the data at ``path``, with its kind recognised and the reading options of the run ``like``."""
    kind = _kind(path, settings)
    if like is not None and like.data.kind in kind.same_files:
        kind = kind_of(like.data)
    if like is not None and like.data.kind in (kind.name, *kind.like):
        table = like.table()
        table["data"] |= {"kind": kind.name, "path": path, "noise": None, "validation": 0.0}
        table["data"] |= {"limit": None, "per_class": None, "trusted": None}
        left_out = {*kind_of(like.data).own, *(table["data"].keys() - kind.section.model_fields.keys())}
        if kind.name != like.data.kind:
            left_out.add("columns")  # they name those of the run's own files
        table["data"] = {name: value for name, value in table["data"].items() if name not in left_out}
    else:
        table = _preset_table(_own_preset(kind, path) or "features", kind, path, settings)
    if noise is not None:
        table["data"]["noise"] = parse_noise(noise)
    for key, value in pairs_of(settings):
        assign(table, f"data.{key.removeprefix('data.')}", value)
    return RunConfig.of(table).data


def parse_noise(text: str) -> dict[str, Any]:
    """Parse ``kind:rate`` or the path of a label file into a noise section."""
    kind, separator, rate = text.rpartition(":")
    if Path(text).is_file():
        return {"kind": "file", "path": text}
    if separator and Path(kind).is_file():
        return {"kind": "file", "path": kind, "key": rate}
    if kind == "asymmetric":
        maps = f"cifar10:{rate} for the usual map of CIFAR-10, circular:{rate} for each class to the next"
        raise ConfigError(f"--noise {text!r}: asymmetric noise is named by its map of classes; use {maps}")
    try:
        return {"kind": kind, "rate": float(rate)}
    except ValueError:
        raise ConfigError(
            f"--noise {text!r}: no such file, and not kind:rate; write symmetric:0.4, or FILE[:KEY]"
        ) from None


def _base_table(
    data: str | None,
    config: Path | None,
    preset_name: str | None,
    embed: str | None,
    settings: Settings,
) -> dict[str, Any]:
    if config is not None and preset_name is not None:
        raise ConfigError("--config and --preset cannot be combined; use one of them")
    if config is not None:
        return _file_table(config, data, embed)
    if data is None and preset_name is None:
        raise ConfigError("no data; give DATA, --config FILE or --preset NAME (see: pencil train --help)")
    if data is None:
        raise ConfigError(
            f"--preset {preset_name}: the path of the data is missing; use pencil train DATA --preset {preset_name}"
        )
    kind = _kind(data, settings)
    if embed is not None:
        return _embedded_table(preset_name or "features", kind, data, embed)
    start = preset_name or _own_preset(kind, data)
    if start is None:
        raise ConfigError(
            f"data {data!r} has no default settings; choose some: --preset features, --preset folder (for images) "
            "or --config FILE"
        )
    return _preset_table(start, kind, data, settings)


def _kind(data: str, settings: Settings) -> Kind:
    """The kind of data that --set data.kind=NAME names, otherwise the one that is recognised.

    In a file of columns, a role that only one kind has chooses that kind: --set data.columns.text=NAME.
    """
    named = {key.removeprefix("data."): value for key, value in pairs_of(settings)}.get("kind")
    if isinstance(named, str) and named in kinds():
        return kinds()[named]
    found, columns = recognise(data), _columns(settings)
    chosen = {kind for role, kind in KIND_OF_ROLE.items() if columns.get(role)}
    return kinds()[chosen.pop()] if len(chosen) == 1 and has_columns(found, data) else found


def _file_table(config: Path, data: str | None, embed: str | None) -> dict[str, Any]:
    table = read_table(config)
    for field, value in {"data.path": data, "data.embed": embed}.items():
        if value is not None:
            assign(table, field, value)
    return table


def _preset_table(start: str | RunConfig, kind: Kind, data: str, settings: Settings) -> dict[str, Any]:
    """A preset's settings for the data; kinds that work with any preset replace its data section."""
    table = (preset(start, data, _columns(settings)) if isinstance(start, str) else start).table()
    if kind.any_preset and table["data"]["kind"] != kind.name:
        kept = [name for name in SHARED if name in kind.section.model_fields]
        table["data"] = {name: value for name, value in table["data"].items() if name in kept}
        table["data"] |= {"kind": kind.name, "path": data}
    return table


def _columns(settings: Settings) -> dict[str, str]:
    """The columns that --set names by role; what is no name is reported when all settings are checked."""
    table: dict[str, Any] = {}
    for key, value in pairs_of(settings):
        if key.removeprefix("data.").partition(".")[0] == "columns":
            assign(table, key.removeprefix("data."), value)
    found = table.get("columns")
    named = found if isinstance(found, dict) else {}
    return {role: name for role, name in named.items() if isinstance(name, str)}


def _embedded_table(start: str, kind: Kind, data: str, embed: str) -> dict[str, Any]:
    """A preset for features, with the data that they are made from."""
    table = preset(start, data).table()
    table["data"] = {"kind": kind.name, "path": data, "embed": embed}
    return table


def _default_start(table: dict[str, Any], settings: Settings) -> str | None:
    """Prototypes where the inputs are features and nothing else was chosen; a baseline learns from the given labels."""
    chosen, data = {name for name, _ in pairs_of(settings)}, table["data"]
    has_features = "embed" in data or _own_preset(kinds()[data["kind"]], data["path"]) == "features"
    return "prototypes" if has_features and not chosen & {"method.name", "start.labels"} else None


def _own_preset(kind: Kind, data: str) -> str | RunConfig | None:
    """The default settings for data of this kind: a preset's name, or the settings themselves."""
    start: str | RunConfig | None = kind.preset(data) if callable(kind.preset) else kind.preset
    return start


def _set_method(table: dict[str, Any], name: Any) -> None:
    """Set the method's name and remove settings of another method."""
    section = table.get("method")
    if not isinstance(section, dict) or section.get("name") != name:
        table["method"] = {"name": name}


def _set_epochs(table: dict[str, Any], epochs: str) -> None:
    phases = table.get("phases")
    if not isinstance(phases, list) or not all(isinstance(phase, dict) for phase in phases):
        raise ConfigError(f"--epochs {epochs!r}: the settings have no [[phases]]; write them in the config")
    counts = epochs.split(",")
    if len(counts) != len(phases) or not all(count.strip().isdigit() for count in counts):
        names = ",".join(str(phase.get("name")) for phase in phases)
        raise ConfigError(f"--epochs {epochs!r}: give {len(phases)} whole numbers for {names}")
    for phase, count in zip(phases, counts, strict=True):
        phase["epochs"] = int(count)


def apply_settings(table: dict[str, Any], settings: Settings) -> None:
    """Set settings by name; a method's name comes first, because it removes the settings of another method."""
    for path, value in sorted(pairs_of(settings), key=lambda pair: pair[0] != "method.name"):
        if path == "method.name":
            _set_method(table, value)
        else:
            assign(table, path, value)
