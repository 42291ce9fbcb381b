"""A comparison in one TOML file: data × noise × method × variant × seed, each a run of its own.

seeds = 5                      # 0 to 4, or a list
validation = 0.1               # held out of the training rows, noisy too: best epochs are chosen there
ceilings = true                # two methods more: clean and oracle

[base]
preset = "features"            # and any settings of a run

[[data]]
name = "cub"
data.path = "${PENCIL_DATA}/cub.npz"

[[noise]]
name = "symmetric_40"
data.noise = { kind = "symmetric", rate = 0.4 }

[[method]]
name = "pencil"                # method.name is the same where it is not set

[[variant]]
name = "slow"
methods = ["pencil"]           # all where it is not set
method.label_rate = 0.1
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from pencil.bench.checks import AXES, CEILINGS, CLEAN, DEFAULT, check_grid, listed
from pencil.bench.layers import Table, expand_variables, lay_over, resolve_settings
from pencil.config import RunConfig, read_table
from pencil.errors import ConfigError, did_you_mean
from pencil.presets import preset

NO_NOISE = {"kind": "symmetric", "rate": 0.0}  # labels as they are, known to be the truth
_OWN = {  # fields of the tables themselves; everything else is settings
    "base": ("preset",),
    "data": ("name", "preset"),
    "noise": ("name",),
    "method": ("name",),
    "variant": ("name", "methods"),
}


@dataclass(frozen=True)
class Cell:
    """One place in the grid.

    Attributes:
        data, noise, method, variant, seed: Where.
        config: The settings of its run.
        config_hash: Of the settings before variables of the environment are put in: alike on every machine.
    """

    data: str
    noise: str
    method: str
    variant: str
    seed: int
    config: RunConfig
    config_hash: str

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        """Identifies the cell."""
        return (self.data, self.noise, self.method, self.variant, self.seed)

    def __str__(self) -> str:
        method = self.method if self.variant == DEFAULT else f"{self.method}/{self.variant}"
        return f"{self.data} {self.noise} {method} seed {self.seed}"


@dataclass(frozen=True)
class Grid:
    """The tables of a checked grid file."""

    table: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> Grid:
        """From a TOML file; raises one ``ConfigError`` that lists every mistake."""
        return cls.of(read_table(path), str(path))

    @classmethod
    def of(cls, table: Mapping[str, Any], source: str = "grid") -> Grid:
        """From plain values; raises one ``ConfigError`` that lists every mistake, those of the settings included."""
        mistakes = check_grid(table)
        if not mistakes:
            mistakes = cls(table)._wrong_settings()
        if mistakes:
            raise ConfigError(listed(source, mistakes))
        return cls(table)

    @property
    def seeds(self) -> list[int]:
        """All seeds."""
        seeds = self.table.get("seeds", 1)
        return list(range(seeds)) if isinstance(seeds, int) else list(seeds)

    def cells(self, only: Sequence[str] = (), seeds: int | Sequence[int] | None = None) -> list[Cell]:
        """All cells, or those whose names on an axis are among its ``axis=name,name`` in ``only``.

        ``seeds``: the first so many seeds of the grid, or these seeds, which the grid need not have.
        """
        asked: dict[str, list[str]] = {}
        for axis, names in map(self._filter, only):
            asked.setdefault(axis, []).extend(names)  # of one axis, any of them
        chosen = self._names | asked
        places = [place for place in self._places() if all(place[axis] in chosen[axis] for axis in AXES)]
        if not places:
            raise ConfigError(f"--only {' --only '.join(only)}: no cell of the grid is left; leave one out")
        chosen_seeds = self._chosen_seeds(seeds)
        settings = ((place, self._settings(place)) for place in places)
        return [_cell(place, table | {"seed": seed}) for place, table in settings for seed in chosen_seeds]

    def _chosen_seeds(self, seeds: int | Sequence[int] | None) -> Sequence[int]:
        if not isinstance(seeds, int):
            return self.seeds if seeds is None else seeds
        if not 1 <= seeds <= len(self.seeds):
            raise ConfigError(
                f"--seeds {seeds}: the grid has {len(self.seeds)}; write seeds = {seeds} there, "
                f"or --seeds {seeds}, with a comma for this seed alone"
            )
        return self.seeds[:seeds]

    @cached_property
    def _names(self) -> dict[str, list[str]]:
        names = {axis: [layer["name"] for layer in self.table.get(axis, [])] for axis in AXES}
        names["method"] += CEILINGS if self.table.get("ceilings") else []
        names["variant"].insert(0, DEFAULT)
        return names

    def _filter(self, text: str) -> tuple[str, list[str]]:
        axis, separator, words = text.partition("=")
        if not separator or axis not in AXES:
            raise ConfigError(f"--only {text!r}: write it as {', '.join(AXES[:-1])} or {AXES[-1]}=NAME,NAME")
        names = [word.strip() for word in words.split(",")]
        for name in names:
            if name not in self._names[axis]:
                hint = did_you_mean(name, self._names[axis]) or f"; known: {', '.join(self._names[axis])}"
                raise ConfigError(f"--only {text!r}: the grid has no {axis} {name!r}{hint}")
        return axis, names

    def _places(self) -> Iterator[dict[str, str]]:
        for names in itertools.product(*(self._names[axis] for axis in AXES)):
            place = dict(zip(AXES, names, strict=True))
            methods = self._layer("variant", place["variant"]).get("methods")
            if methods is None or place["method"] in methods:
                yield place

    def _layer(self, axis: str, name: str) -> Table:
        layers: list[Table] = self.table.get(axis, [])
        return next((layer for layer in layers if layer["name"] == name), {"name": name})

    def _settings(self, place: Mapping[str, str]) -> Table:
        """The settings of a place's cells but their seed, each table of the grid laid over those before."""
        base, data = self.table.get("base", {}), self._layer("data", place["data"])
        name = data.get("preset", base.get("preset"))
        table = preset(name, "").table() if name else {}
        table = lay_over(table, _settings_of("base", base))
        for axis in ("data", "noise"):
            table = lay_over(table, _settings_of(axis, self._layer(axis, place[axis])))
        table = self._with_method(table, place["method"])
        table = lay_over(table, _settings_of("variant", self._layer("variant", place["variant"])))
        if "validation" in self.table:
            table = lay_over(table, {"data": {"validation": self.table["validation"]}})
        return resolve_settings(table)

    def _with_method(self, table: Table, method: str) -> Table:
        if method not in CEILINGS or not self.table.get("ceilings"):
            settings = _settings_of("method", self._layer("method", method))
            own = settings.get("method", {})
            return lay_over(
                table, {**settings, "method": {"name": method, **own} if isinstance(own, dict) else own}
            )
        table = lay_over(table, {"method": {"name": "cross_entropy"}, "data": {"ceiling": method}})
        if method == CLEAN and table["data"].get("noise"):
            table["data"]["noise"] = dict(NO_NOISE)  # so that one training serves every noise
        return table

    def _wrong_settings(self) -> list[str]:
        """Mistakes in the settings of any cell, each listed once, with the first cell that has it."""
        found: dict[str, str] = {}
        for place in self._places():
            where = " ".join(place[axis] for axis in AXES if place[axis] != DEFAULT)
            for line in self._mistakes(place):
                found.setdefault(line, where)
        return [f"{line} (in {where})" for line, where in found.items()]

    def _mistakes(self, place: Mapping[str, str]) -> Iterator[str]:
        try:
            table = self._settings(place) | {"seed": self.seeds[0]}
        except ConfigError as error:
            yield str(error)
            return
        for check in (expand_variables, RunConfig.of):
            try:
                check(table)
            except ConfigError as error:
                lines = str(error).splitlines()
                yield from (line.strip() for line in lines if not line.endswith("wrong:"))


def _cell(place: Mapping[str, str], table: Table) -> Cell:
    config = RunConfig.of(expand_variables(table))
    return Cell(**place, seed=config.seed, config=config, config_hash=_hash(RunConfig.of(table)))


def _settings_of(kind: str, layer: Mapping[str, Any]) -> Table:
    return {key: value for key, value in layer.items() if key not in _OWN[kind]}


def _hash(config: RunConfig) -> str:
    text = json.dumps(_chosen(config, config.table()), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _chosen(section: object, table: Table) -> Table:
    """What differs from the defaults, so that a setting added later does not make old results another run's."""
    kept = {}
    for name, default in _defaults(section).items():
        value = getattr(section, name)
        if name in ("name", "kind") or value != default:  # these decide which defaults apply
            kept[name] = _chosen_of(value, table.get(name))
    return kept | (getattr(section, "model_extra", None) or {})


def _chosen_of(value: object, plain: Any) -> Any:
    """Of a section, or of each section of a tuple, what differs from the defaults; anything else as it is."""
    if isinstance(value, tuple) and all(map(_defaults, value)):
        return [_without_defaults(each, table) for each, table in zip(value, plain, strict=True)]
    return _chosen(value, plain) if _defaults(value) else plain


def _without_defaults(section: object, table: Table) -> Table:
    defaults = _defaults(section)
    return {name: value for name, value in table.items() if getattr(section, name) != defaults[name]}


def _defaults(section: object) -> Table:
    """The fields of a section with their defaults; of anything else none."""
    kind: Any = type(section)  # mypy does not take type[object] for hashable
    return _defaults_of(kind)


@cache
def _defaults_of(kind: type) -> Table:
    if issubclass(kind, BaseModel):
        fields = kind.model_fields
        return {name: field.get_default(call_default_factory=True) for name, field in fields.items()}
    if dataclasses.is_dataclass(kind):
        return {field.name: field.default for field in dataclasses.fields(kind)}
    return {}
