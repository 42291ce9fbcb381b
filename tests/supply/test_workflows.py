"""The workflows of ``.github``: what they run, and that they run nothing else."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")


def workflow(name):
    return yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text())


def commands(name, job):
    return [step["run"] for step in workflow(name)["jobs"][job]["steps"] if "run" in step]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_action_is_pinned_by_hash_with_its_version_beside_it(path):
    used = [line.partition("uses:")[2].strip() for line in path.read_text().splitlines() if "uses:" in line]
    assert used
    assert [action for action in used if not PINNED.fullmatch(action)] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_may_read_and_nothing_else_unless_a_job_says_so(path):
    read = yaml.safe_load(path.read_text())
    assert read["permissions"] == {"contents": "read"}
    granted = {
        right
        for job in read["jobs"].values()
        for right, level in job.get("permissions", {}).items()
        if level == "write"
    }
    assert granted <= {"id-token", "attestations"}
    assert "secrets." not in path.read_text()


def test_every_supported_python_and_the_oldest_packages_are_tested():
    legs = workflow("ci")["jobs"]["check"]["strategy"]["matrix"]["include"]
    tested = {(leg["python"], leg["packages"]) for leg in legs}
    oldest = min((leg["python"] for leg in legs), key=Version)
    assert PROJECT["project"]["requires-python"] == f">={oldest}"
    assert {(oldest, "locked"), (oldest, "oldest")} <= tested
    listed = [line.rpartition(" :: ")[2] for line in PROJECT["project"]["classifiers"]]
    assert {python for python, _ in tested} == {name for name in listed if name.startswith("3.")}


def test_the_workflows_run_the_steps_of_ci_run():
    assert ".ci/run ${{ matrix.packages }}" in commands("ci", "check")
    assert ".ci/run locked release" in commands("release", "build")
    told = subprocess.run([ROOT / ".ci" / "run", "nothing"], capture_output=True, text=True, check=False)
    assert told.returncode == 2
    for leg in workflow("ci")["jobs"]["check"]["strategy"]["matrix"]["include"]:
        assert f".ci/run {leg['packages']} " in told.stdout or leg["packages"] == "locked"


def test_what_is_published_is_attested_and_needs_no_password():
    jobs = workflow("release")["jobs"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["publish"]["environment"] == "pypi"
    (publish,) = [step for step in jobs["publish"]["steps"] if "pypi-publish" in step.get("uses", "")]
    assert publish["with"] == {"attestations": True}
    assert any("attest-build-provenance" in step.get("uses", "") for step in jobs["build"]["steps"])


@pytest.mark.parametrize("name", ["v0.1.0", "v0.2.0", "0.1.0x"])
def test_a_tag_must_be_the_version(name, tmp_path):
    (check,) = [line for line in commands("release", "build") if "_version.py" in line]
    (tmp_path / "src" / "pencil").mkdir(parents=True)
    (tmp_path / "src" / "pencil" / "_version.py").write_text('"""One place."""\n\n__version__ = "0.1.0"\n')
    ran = subprocess.run(
        [shutil.which("bash"), "-c", check], cwd=tmp_path, env={"GITHUB_REF_NAME": name}, check=False
    )
    assert (ran.returncode == 0) == (name == "v0.1.0")


def test_hooks_use_tools_of_the_development_environment():
    read = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    (local,) = read["repos"]
    assert local["repo"] == "local"
    tools = {hook["entry"].split()[0] for hook in local["hooks"]}
    assert tools == {"ruff", "lint-imports", "mypy", "pytest"}


def test_forms_for_issues_are_forms():
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    assert [path.stem for path in forms] == ["bug", "config", "idea"]
    for form in (yaml.safe_load(path.read_text()) for path in forms if path.stem != "config"):
        assert {"name", "description", "body"} <= set(form)
        assert all(entry["type"] in ("markdown", "textarea", "input") for entry in form["body"])
        assert any(entry.get("validations", {}).get("required") for entry in form["body"])


def test_the_oldest_versions_are_the_lower_bounds(program):
    lines = (ROOT / ".ci" / "oldest.txt").read_text().splitlines()
    versions = dict(line.split("==") for line in lines if not line.startswith("#"))
    lock = program("lock")
    extras = PROJECT["project"]["optional-dependencies"].items()
    asked = [line for extra, lines in extras if extra not in lock.NOT_INSTALLED for line in lines]
    for requirement in map(Requirement, [*PROJECT["project"]["dependencies"], *asked]):
        (floor,) = [each.version for each in requirement.specifier if each.operator in (">=", "==")]
        found = Version(versions[lock.canonical(requirement.name)])
        assert found.release[: len(Version(floor).release)] == Version(floor).release, requirement
