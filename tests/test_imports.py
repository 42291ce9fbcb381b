"""Optional packages by name, and objects by import path: found, and every way of missing them."""

import math
import sys
from collections import OrderedDict

import pytest

from pencil.errors import ConfigError, MissingExtraError
from pencil.imports import import_object, need


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of a user's own, importable for this test."""
    folder = tmp_path / "their_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "nets.py").write_text("class Net:\n    size = 3\n\ndef build_net():\n    return Net()\n")
    (folder / "needy.py").write_text("import a_package_that_is_not_there\n")
    (folder / "broken.py").write_text("raise ValueError('no luck')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in [name for name in sys.modules if name.startswith("their_package")]:
        del sys.modules[name]


def test_need_returns_the_module_that_is_there():
    assert need("math", extra="none", purpose="count") is math


@pytest.mark.parametrize("module", ["no_such_package", "no_such_package.inner"])
def test_need_says_how_to_install_what_is_missing(module):
    with pytest.raises(MissingExtraError) as caught:
        need(module, extra="tables", purpose="write Parquet")
    message = str(caught.value)
    assert message.startswith("no_such_package is needed to write Parquet")
    assert "pip install 'pencil-labels[tables]'" in message
    assert isinstance(caught.value.__cause__, ImportError)


def test_finds_attributes_and_dotted_attributes(package):
    assert import_object("collections:OrderedDict", field="f") is OrderedDict
    assert import_object("their_package.nets:Net.size", field="f") == 3


def test_sees_a_file_written_after_the_package_was_imported(package):
    import_object("their_package.nets:Net", field="f")
    (package / "late.py").write_text("value = 5\n")
    assert import_object("their_package.late:value", field="f") == 5


@pytest.mark.parametrize("path", ["resnet", "a.b", ":x", "a:", "a b:c", "a:b:c", "../nets:Net", "a..b:c", ""])
def test_what_is_no_import_path_is_refused(path):
    with pytest.raises(ConfigError, match=r"model\.name = .*'package\.module:attribute'"):
        import_object(path, field="model.name")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nowhere_at_all:x", r"no module 'nowhere_at_all' found; run from the folder"),
        ("their_package.nots:Net", r"no module 'their_package\.nots' found"),
        ("nowhere_at_all.deep.er:x", r"no module 'nowhere_at_all' found"),
        ("their_package.needy:x", r"imports 'a_package_that_is_not_there', which is not installed"),
        ("their_package.broken:x", r"importing their_package\.broken failed.*ValueError: no luck"),
        ("their_package.nets:build_nett", r"no attribute 'build_nett'; did you mean 'build_net'\?"),
        ("their_package.nets:Net.xyzzy", r"Net has no attribute 'xyzzy'; check the name"),
    ],
)
def test_messages_name_the_field_the_path_and_the_remedy(package, path, message):
    with pytest.raises(ConfigError, match=message) as caught:
        import_object(path, field="data.name")
    assert str(caught.value).startswith(f"data.name = {path!r}")
    assert caught.value.__cause__ is not None
