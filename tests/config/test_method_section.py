"""A method of the user's own in the settings: kept and read back without being imported, explained when it is built."""

import sys

import pytest

from pencil.algorithm import CosineSchedule, Pencil
from pencil.config import RunConfig
from pencil.config.methods import OwnMethod
from pencil.errors import ConfigError
from pencil.presets import preset

MODULE = """
from dataclasses import dataclass

import torch

from pencil.algorithm import Schedule, cross_entropy
from pencil.methods import Method, Step


@dataclass(frozen=True)
class Toy(Method):
    strength: float = 1.0
    rate: Schedule = 0.5
    sizes: tuple[int, ...] = (1, 2)
    word: str | None = None

    def __post_init__(self):
        if self.strength < 0:
            raise ValueError(f"strength: {self.strength} must not be negative")

    def step(self, logits, rows, given, moment):
        return Step(self.strength * cross_entropy(logits, given))


@dataclass(frozen=True)
class Demanding(Method):
    must: int


@dataclass(frozen=True)
class Odd(Method):
    tensor: torch.Tensor


@dataclass
class NoMethod:
    strength: float = 1.0


class Plain(Method):
    pass


word = "a word"
"""


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """The name of a module of the user's own."""
    (tmp_path / "toy_methods.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "toy_methods"
    sys.modules.pop("toy_methods", None)


def config(**method):
    return RunConfig.of(preset("features", "x.npz").table() | {"method": method})


def test_it_is_read_and_written_without_being_imported(tmp_path):
    found = config(name="nowhere.to_be.found:Toy", strength=2, rate={"kind": "cosine", "start": 1.0})
    assert isinstance(found.method, OwnMethod)
    (tmp_path / "config.toml").write_text(found.toml())
    assert RunConfig.read(tmp_path / "config.toml") == found
    assert "[method]\nname = " in found.toml()
    assert not any(name.startswith("nowhere") for name in sys.modules)


def test_its_fields_are_settings(toy):
    method = config(
        name=f"{toy}:Toy", strength=2, rate={"kind": "cosine", "start": 1.0}, sizes=[3]
    ).load_method()
    assert type(method) is sys.modules[toy].Toy
    assert (method.strength, method.rate, method.sizes, method.word) == (2.0, CosineSchedule(1.0), (3,), None)
    assert method.name == f"{toy}:Toy"
    assert config(name="pencil").load_method() == Pencil()


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"strenth": 1.0}, "method.strenth: unknown setting; did you mean 'strength'?"),
        ({"colour": 1.0}, "method.colour: unknown setting; known: rate, sizes, strength, word"),
        ({"strength": "much"}, "method.strength: 'much' should be a number"),
        ({"strength": -1}, "method.strength: -1.0 must not be negative"),
        ({"sizes": [1.5]}, "method.sizes.0: 1.5 should be a whole number"),
        ({"rate": {"kind": "cosin"}}, "method.rate.kind: 'cosin' is unknown; did you mean 'cosine'?"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_mistakes_are_explained_as_those_of_the_built_in_methods(toy, settings, line):
    with pytest.raises(ConfigError) as caught:
        config(name=f"{toy}:Toy", **settings).load_method()
    assert str(caught.value).splitlines() == ["1 setting is wrong:", f"  {line}"]


def test_all_mistakes_are_listed_at_once(toy):
    with pytest.raises(ConfigError, match=r"2 settings are wrong:\n  method.strength: .*\n  method.sizes: "):
        config(name=f"{toy}:Toy", strength="x", sizes=3).load_method()
    with pytest.raises(
        ConfigError, match=r"method.must: missing; set it in the config or with --set method.must="
    ):
        config(name=f"{toy}:Demanding").load_method()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("toy_methods:Toi", r"method.name = 'toy_methods:Toi': .*no attribute 'Toi'; did you mean 'Toy'"),
        ("toy_method:Toy", r"method.name = 'toy_method:Toy': no module 'toy_method' found"),
        ("toy_methods:NoMethod", r"not a method; use a dataclass that derives from pencil.methods.Method"),
        ("toy_methods:Plain", r"not a method; use a dataclass that derives from pencil.methods.Method"),
        ("toy_methods:word", r"not a method; use a dataclass that derives from pencil.methods.Method"),
        ("toy_methods:", r"is not an import path"),
        (
            "toy_methods:Odd",
            r"method.name = 'toy_methods:Odd': a field has a type that settings do not support",
        ),
    ],
)
def test_what_is_no_method_is_refused_by_name(toy, name, words):
    with pytest.raises(ConfigError, match=words):
        config(name=name).load_method()


def test_an_unknown_name_tells_of_import_paths():
    with pytest.raises(
        ConfigError, match=r"'zzz' is unknown; known: .*, or your own as package.module:Name$"
    ):
        config(name="zzz")


def test_an_object_becomes_its_import_path_and_settings(toy):
    import toy_methods

    method = toy_methods.Toy(strength=3.0, sizes=(7,))
    base = preset("features", "x.npz")
    found = RunConfig(data=base.data, model=base.model, phases=base.phases, method=method)
    assert found.table()["method"] == {"name": f"{toy}:Toy", "strength": 3.0, "rate": 0.5, "sizes": [7]}
    assert found.load_method() == method
    assert RunConfig.of(found.table()) == found
