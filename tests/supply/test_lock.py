"""The lock answers what the project asks for, and lets nothing else in."""

import hashlib
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def lock(program):
    return program("lock")


@pytest.fixture(scope="module")
def versions(lock):
    return {pin.name: pin.version for pin in lock.read(lock.LOCK / "ci.txt")}


@pytest.fixture(scope="module")
def constraints():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return [Requirement(line) for line in lines if not line.startswith("#")]


def _answered(requirement, versions):
    return requirement.specifier.contains(versions[requirement.name], prereleases=True)


def test_every_requirement_of_the_project_is_answered(lock, versions):
    asked = [Requirement(line) for line in lock.wanted(PROJECT)]
    assert len(asked) > 40
    assert [str(requirement) for requirement in asked if not _answered(requirement, versions)] == []


def test_every_constraint_is_kept_and_every_requirement_has_one(lock, versions, constraints):
    assert [str(constraint) for constraint in constraints if not _answered(constraint, versions)] == []
    asked = {Requirement(line).name for line in lock.wanted(PROJECT)}
    assert asked <= {constraint.name for constraint in constraints}


def test_only_named_extras_are_left_out(lock):
    assert set(PROJECT["project"]["optional-dependencies"]) >= lock.NOT_INSTALLED


def test_no_package_is_locked_twice(lock):
    names = [pin.name for pin in lock.read(lock.LOCK / "ci.txt")]
    assert len(names) == len(set(names))
    assert {Requirement(line).name for line in PROJECT["project"]["dependencies"]} <= {
        pin.name for pin in lock.read(lock.LOCK / "core.txt")
    }


@pytest.mark.parametrize(
    "line",
    [
        "torch==2.13.0",
        "torch>=2.13.0 --hash=sha256:" + 64 * "0",
        "torch @ https://files.example/torch.whl",
        "--extra-index-url https://index.example/simple",
        "--find-links /elsewhere",
        "-e .",
        "",
    ],
)
def test_a_line_without_version_and_hash_is_refused(lock, tmp_path, line):
    (tmp_path / "lock.txt").write_text(f"# a comment\n{line}\n")
    with pytest.raises(ValueError, match="neither a pinned package"):
        list(lock.read(tmp_path / "lock.txt"))


def test_the_continuous_integration_installs_by_the_lock_alone():
    text = (ROOT / ".ci" / "run").read_text()
    lines = [line.strip() for line in text.splitlines() if "pip" in line and " install " in line]
    others = [line for line in lines if "-c constraints.txt" in line or "oldest.txt" in line]
    assert len(others) == 3, "versions, not hashes, and not in the run that releases"
    hashes = "--require-hashes --no-deps --only-binary :all: -r"
    assert f'files=({hashes} ".ci/lock/$2.txt")' in text
    locked = [line for line in lines if line not in others]
    assert len(locked) == 5, "uv; the lock, by uv or by pip; this tree; the wheel"
    hashed = [line for line in locked if hashes in line or '"${files[@]}"' in line]
    assert len(hashed) == 3
    rest = [line for line in locked if line not in hashed]
    assert all("--no-deps" in line and line.endswith(("-e .", '"$release"/*.whl')) for line in rest)


@pytest.fixture
def shop(tmp_path, monkeypatch) -> Path:
    """A folder with one wheel, the only one that pip can find."""
    wheel = tmp_path / "tiny_thing-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        folder = "tiny_thing-1.0.dist-info"
        archive.writestr(f"{folder}/METADATA", "Metadata-Version: 2.1\nName: Tiny_Thing\nVersion: 1.0\n")
        archive.writestr(f"{folder}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{folder}/RECORD", "")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    return wheel


def test_pip_resolves_to_the_hash_of_the_file_and_refuses_a_changed_one(lock, shop, tmp_path):
    empty = tmp_path / "constraints.txt"
    empty.touch()
    (pin,) = lock.resolve(["tiny-thing>=1"], empty)
    assert pin == ("tiny-thing", "1.0", hashlib.sha256(shop.read_bytes()).hexdigest())

    written = tmp_path / "lock.txt"
    written.write_text(f"tiny-thing==1.0 --hash=sha256:{pin.sha256}\n")
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--dry-run",
        "--ignore-installed",
        "--require-hashes",
        "-r",
    ]
    assert subprocess.run([*command, written], capture_output=True, check=False).returncode == 0
    with zipfile.ZipFile(shop, "a") as archive:
        archive.writestr("tiny_thing.py", "print('let in')")
    ran = subprocess.run([*command, written], capture_output=True, text=True, check=False)
    assert ran.returncode != 0
    assert "DO NOT MATCH THE HASHES" in ran.stderr
