"""What is released: the same bytes from the same tree, nothing but the package, and a bill of materials that holds."""

import hashlib
import json
import os
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

import pencil

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def wheel(dist) -> Path:
    return next(dist.glob("*.whl"))


@pytest.fixture(scope="module")
def archive(dist) -> Path:
    return next(dist.glob("*.tar.gz"))


def _digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_another_folder_time_umask_and_tool_build_the_same_bytes(built, dist, archive, tmp_path):
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    (tree,) = tmp_path.iterdir()
    for number, path in enumerate(sorted(tree.rglob("*"))):
        os.utime(path, (10**9 + number, 10**9 + number))
        path.chmod(path.stat().st_mode & 0o700)
    again = tmp_path / "again"
    words = ("hatchling", "build", "--directory", str(again))
    built(tree, *words, umask=0o077, seed=1, zone="Pacific/Kiritimati")
    assert len(_digests(dist)) == 2
    assert _digests(again) == _digests(dist)


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    package = {name for name in names if name.startswith("pencil/")}
    files = (path for path in (ROOT / "src" / "pencil").rglob("*") if path.is_file())
    assert package == {
        path.relative_to(ROOT / "src").as_posix() for path in files if path.parent.name != "__pycache__"
    }
    assert {Path(name).suffix for name in package} == {".py", ".html", ".css", ".js", ".typed"}
    facts = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    assert set(names) - package == {f"pencil_labels-{pencil.__version__}.dist-info/{name}" for name in facts}


def test_the_source_archive_holds_what_is_listed(archive):
    with tarfile.open(archive) as tar:
        members = tar.getmembers()
    top = {Path(member.name).parts[1] for member in members}
    listed = set(PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"])
    assert top == listed | {".gitignore", "LICENSE", "PKG-INFO", "pyproject.toml"}
    assert all(member.isfile() for member in members)
    assert max(member.size for member in members) < 2_000_000


@pytest.fixture(scope="module")
def sbom(program):
    return program("sbom")


@pytest.fixture(scope="module")
def bill(sbom, wheel, archive) -> dict:
    return sbom.bill(wheel, archive)


def test_the_bill_is_valid_and_the_same_each_time(sbom, bill, wheel, archive, dist):
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(bill)) is None
    assert sbom.bill(wheel, archive) == bill
    assert str(dist) not in json.dumps(bill)


def test_a_file_that_differs_gives_another_bill(sbom, bill, wheel, archive, tmp_path):
    other = tmp_path / archive.name
    other.write_bytes(archive.read_bytes() + b"\0")
    assert sbom.bill(wheel, other)["serialNumber"] != bill["serialNumber"]


def test_the_bill_names_the_files_of_the_release(bill, dist):
    files = bill["metadata"]["component"]["externalReferences"]
    assert {file["url"]: file["hashes"][0]["content"] for file in files} == _digests(dist)


def test_the_bill_lists_the_lock_as_far_as_the_wheel_needs_it(bill, program):
    lock = program("lock")
    locked = {pin.name: pin for pin in lock.read(lock.LOCK / "ci.txt")}
    for component in bill["components"]:
        pin = locked[component["name"]]
        assert (component["version"], component["hashes"][0]["content"]) == (pin.version, pin.sha256)
    scopes = {component["name"]: component["scope"] for component in bill["components"]}
    core = {pin.name for pin in lock.read(lock.LOCK / "core.txt")}
    assert {name for name, scope in scopes.items() if scope == "required"} == core
    assert {"fastapi", "starlette", "pyarrow"} <= set(scopes), "extras, and what they need"
    assert not {"pytest", "ruff", "sphinx"} & set(scopes), "tools of ours"


def test_everybody_who_is_needed_is_listed(bill):
    listed = {component["bom-ref"] for component in bill["components"]}
    root = bill["metadata"]["component"]["bom-ref"]
    edges = {entry["ref"]: set(entry["dependsOn"]) for entry in bill["dependencies"]}
    assert set(edges) == listed | {root}
    assert set().union(*edges.values()) == listed
    assert any(reference.startswith("pkg:pypi/torch@") for reference in edges[root])


def test_a_bill_that_the_schema_refuses_is_not_written(sbom, dist, wheel, archive, tmp_path, monkeypatch):
    for path in (wheel, archive):
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.setattr(sbom, "licence", lambda fields: 7)
    with pytest.raises(SystemExit, match=r"not CycloneDX 1\.6"):
        sbom.main(tmp_path)
    monkeypatch.undo()
    assert not list(tmp_path.glob("*.cdx.json"))
    sbom.main(tmp_path)
    assert len(list(tmp_path.glob("pencil_labels-*.cdx.json"))) == 1
