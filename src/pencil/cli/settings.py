"""From the command line's words to a RunConfig: recognise the data, choose a preset, apply flags, validate once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pencil.config import RunConfig, assign, parse_assignment, read_table
from pencil.config.schema import Data
from pencil.data.shards import MANIFEST, ShardIndex
from pencil.errors import ConfigError
from pencil.presets import preset

IMPORT_PATH = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
IMAGE_FILES = ("folder", "manifest", "cub200", "clothing1m")
FIRST_OF_PAPER = {"cub200": "paper:cub200-lambda3000-alpha0", "clothing1m": "paper:clothing1m"}


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
    settings: tuple[str, ...] = (),
) -> RunConfig:
    """Settings from a file, a preset or the data itself, then flags, then --set; all mistakes in one error."""
    table = _base_table(data, config, preset_name)
    if method is not None:
        _set_method(table, method)
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
    _apply(table, settings)
    return RunConfig.of(table)


def words_of(settings: tuple[str, ...]) -> set[str]:
    """The values of --set that are words: names of code may be among them."""
    values = (parse_assignment(setting)[1] for setting in settings)
    return {value for value in values if isinstance(value, str)}


def data_section(
    path: str, settings: tuple[str, ...] = (), *, like: RunConfig | None = None, noise: str | None = None
) -> Data:
    """The data at ``path``, its kind recognised; read as the data of the run it is for."""
    kind = recognise(path)
    if like is not None and (like.data.kind == kind or _alike(like.data.kind, kind)):
        table = like.table()
        table["data"] |= {"kind": kind, "path": path, "noise": None, "validation": 0.0}
        table["data"] |= {"limit": None, "per_class": None, "trusted": None}
        for own in ("labels", "cache", "args"):  # those of the run's data, not of this
            table["data"].pop(own, None)
    else:
        table = _preset_table("features" if kind == "python" else _own_preset(kind, path), path)
    if noise is not None:
        table["data"]["noise"] = parse_noise(noise)
    for setting in settings:
        key, value = parse_assignment(setting)
        assign(table, f"data.{key.removeprefix('data.')}", value)
    return RunConfig.of(table).data


def recognise(path: str) -> str:
    """The kind of data at a path, by its name and content; mostly also the name of the preset for it."""
    place = Path(path).expanduser()
    if IMPORT_PATH.fullmatch(path) and not place.exists():
        return "python"
    if place.suffix in (".npz", ".npy"):
        return "features"
    if place.suffix in (".csv", ".parquet"):
        return "manifest"
    if not place.is_dir():
        problem = "is neither a folder nor" if place.exists() else "does not exist; give a folder or"
        raise ConfigError(
            f"data {path!r} {problem} a file ending in .npz, .npy, .csv or .parquet "
            "(your own data set goes by its function: package.module:function)"
        )
    if (place / MANIFEST).is_file():
        return "shards"
    for kind, patterns in _SIGNS.items():
        if any(next(place.glob(pattern), None) for pattern in patterns):
            return kind
    return "folder"


def parse_noise(text: str) -> dict[str, Any]:
    """``kind:rate`` as a noise section; a path to a label file is taken as one."""
    kind, separator, rate = text.rpartition(":")
    if Path(text).is_file():
        return {"kind": "file", "path": text}
    if separator and Path(kind).is_file():
        return {"kind": "file", "path": kind, "key": rate}
    try:
        return {"kind": kind, "rate": float(rate)}
    except ValueError:
        raise ConfigError(
            f"--noise {text!r}: no such file, and not kind:rate; write symmetric:0.4, or FILE[:KEY]"
        ) from None


_SIGNS = {
    "cifar100": ("cifar-100-*", "fine_label_names.txt"),
    "cifar10": ("cifar-10-*", "data_batch_1*"),
    "idx": ("*-images-idx3-ubyte*", "*-images.idx3-ubyte*"),
    "cub200": ("image_class_labels.txt", "CUB_200_2011/image_class_labels.txt"),
    "clothing1m": ("noisy_label_kv.txt", "annotations/noisy_label_kv.txt"),
}


def _base_table(data: str | None, config: Path | None, preset_name: str | None) -> dict[str, Any]:
    if config is not None and preset_name is not None:
        raise ConfigError("--config and --preset exclude each other; start from one of them")
    if config is not None:
        table = read_table(config)
        if data is not None:
            assign(table, "data.path", data)
        return table
    if data is None and preset_name is None:
        raise ConfigError(
            "nothing to train on: give DATA, --config FILE or --preset NAME (see: pencil train --help)"
        )
    if data is None:
        raise ConfigError(
            f"--preset {preset_name}: give the path of the data too: pencil train DATA --preset {preset_name}"
        )
    kind = recognise(data)
    if preset_name is None and kind == "python":
        raise ConfigError(
            f"data {data!r} is your own data set; say what to start from: --preset features, --preset folder "
            "(for images) or --config FILE"
        )
    return _preset_table(preset_name or _own_preset(kind, data), data)


def _preset_table(name: str, data: str) -> dict[str, Any]:
    """A preset's settings for the data; your own data set or shards take the place of the preset's kind."""
    table, kind = preset(name, data).table(), recognise(data)
    if kind == "python" or (kind == "shards" and name != kind):
        kept = (
            "validation",
            "normalize",
            "augment",
            "noise",
            *(("size", "channels") if kind == "shards" else ()),
        )
        table["data"] = {key: value for key, value in table["data"].items() if key in kept}
        table["data"] |= {"kind": kind, "path": data}
    return table


def _own_preset(kind: str, data: str) -> str:
    """The preset for a kind of data; shards may hold images or features, and two sets have the paper's only."""
    if kind == "shards" and ShardIndex.open(Path(data).expanduser()).kind == "features":
        return "features"
    return FIRST_OF_PAPER.get(kind, kind)


def _alike(known: str, kind: str) -> bool:
    """Whether data of one kind can be read with the settings of another."""
    return known in IMAGE_FILES and kind in (*IMAGE_FILES, "shards")


def _set_method(table: dict[str, Any], name: Any) -> None:
    """Another method has other settings."""
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


def _apply(table: dict[str, Any], settings: tuple[str, ...]) -> None:
    for setting in settings:
        path, value = parse_assignment(setting)
        if path == "method.name":
            _set_method(table, value)
        else:
            assign(table, path, value)
