"""Licences as packages write them, and what is not on the list."""

from importlib import metadata

import pytest


@pytest.fixture(scope="module")
def licences(program):
    return program("licences")


@pytest.fixture
def fields(tmp_path):
    """The metadata of a package with these lines."""

    def read(lines: str, name: str = "thing"):
        (tmp_path / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: 1\n{lines}\n")
        return metadata.Distribution.at(tmp_path).metadata

    return read


MIT = "Classifier: License :: OSI Approved :: MIT License\n"
GPL = "Classifier: License :: OSI Approved :: GNU General Public License (GPL)\n"


@pytest.mark.parametrize(
    ("lines", "expression"),
    [
        ("License-Expression: MIT OR Apache-2.0", "MIT OR Apache-2.0"),
        ("License-Expression: GPL-3.0-only\n" + MIT, "GPL-3.0-only"),
        ("License: Apache 2.0", "Apache-2.0"),
        ("License: GPL-3.0\n" + MIT, "GPL-3.0"),
        ("License: MIT License\n        \n        Copyright", "MIT"),
        ("License: Copyright of somebody\n        All rights\n" + MIT, "MIT"),
        ("License: Copyright of somebody\n        All rights", ""),
        (MIT + GPL, "GNU General Public License (GPL) AND MIT"),
        ("Classifier: License :: OSI Approved :: BSD License", "LicenseRef-BSD"),
        ("", ""),
    ],
)
def test_a_licence_is_read_from_the_metadata(licences, fields, lines, expression):
    assert licences.licence(fields(lines)) == expression


def test_what_was_read_in_a_packages_own_files_comes_first(licences, fields):
    assert "BSD-2-Clause" in licences.licence(fields(GPL, name="docutils"))


@pytest.mark.parametrize(
    "expression",
    ["MIT", "(MIT OR Apache-2.0) AND BSD-3-Clause", "Apache-2.0 WITH LLVM-exception AND MPL-2.0"],
)
def test_licences_on_the_list_pass(licences, expression):
    assert licences.licence_faults("thing", expression) == []


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("", "no licence in its metadata"),
        ("GPL-3.0-only", "'GPL-3.0-only'"),
        ("MIT AND (GPL-3.0-only OR AGPL-3.0-only)", "'AGPL-3.0-only' and 'GPL-3.0-only'"),
        ("Apache-2.0 WITH Some-exception", "'Apache-2.0 WITH Some-exception'"),
        ("MIT and what not", "'MIT and what not'"),
    ],
)
def test_a_licence_that_is_not_on_the_list_is_named(licences, expression, named):
    (fault,) = licences.licence_faults("thing", expression)
    assert fault.startswith(f"thing: {named}, not on the list")


def test_an_environment_that_is_not_the_lock_fails(licences, tmp_path, monkeypatch, capsys):
    version = metadata.version("pytest")
    digest = "--hash=sha256:" + 64 * "0"
    (tmp_path / "ci.txt").write_text(
        f"click==0.1 {digest}\nno-such-thing==1 {digest}\npytest=={version} {digest}\n"
    )
    monkeypatch.setattr(licences, "LOCK", tmp_path)
    assert licences.main() == 1
    lines = capsys.readouterr().out.splitlines()
    assert f"click: {metadata.version('click')} is installed, the lock has 0.1" in lines
    assert "no-such-thing: is in the lock, but not installed" in lines
    assert "numpy: is installed, but not in the lock" in lines
    assert not [line for line in lines if line.startswith("pytest:")]
