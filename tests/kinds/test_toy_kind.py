"""A kind of data from outside the package, as the how-to page has it: installed, it goes all the way."""

import csv
import json
import os
import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from pencil.cli.main import cli
from pencil.errors import ConfigError, DataError
from pencil.kinds import kinds, recognise
from pencil.review import Review
from pencil.run import RunDirectory
from support.kinds import kinds_restored
from support.ranks import under_torchrun

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "kind.md"
WORDS = {"billing": "check the <b>invoice</b>", "login": "reset the password", "other": "call me back"}
QUICK = ("--epochs", "2,8,2", "--set", "train.batch_size=16", "--set", "data.words=32", "--quiet")


def install(folder: Path, entry: str = "tickets_kind:TICKETS") -> Path:
    """The page's module as an installed package: a folder on the path with a distribution's metadata."""
    source = PAGE.read_text(encoding="utf-8")
    (module,) = re.findall(r"<!-- file: tickets_kind.py -->\n```python\n(.*?)```", source, re.DOTALL)
    info = folder / "tickets_kind-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "tickets_kind.py").write_text(module, encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tickets-kind\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[pencil.kinds]\ntickets = {entry}\n")
    return folder


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    return install(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def installed(package):
    """The package is on this process's path, and the table is read anew."""
    with pytest.MonkeyPatch.context() as patch, kinds_restored():
        patch.syspath_prepend(str(package))
        yield package
        sys.modules.pop("tickets_kind", None)


@pytest.fixture(scope="module")
def tickets(tmp_path_factory):
    """120 tickets, every tenth with a wrong class."""
    names, lines = list(WORDS), []
    for number in range(120):
        told = names[(number + (number % 10 == 0)) % 3]
        lines.append(f"{told}\tplease {WORDS[names[number % 3]]} number {number}")
    path = tmp_path_factory.mktemp("data") / "support.tickets"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def pencil(*words):
    result = CliRunner().invoke(cli, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def run(installed, tickets, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "tickets"
    pencil("train", tickets, "--out", out, *QUICK)
    return out


def test_it_is_recognised_and_its_settings_are_checked(installed, tickets):
    assert recognise(str(tickets)) is kinds()["tickets"]
    with pytest.raises(ConfigError, match=r"data.wrods: unknown setting; did you mean 'words'"):
        CliRunner().invoke(
            cli,
            ["train", str(tickets), "--set", "data.wrods=3"],
            catch_exceptions=False,
            standalone_mode=False,
        )


def test_it_trains_and_corrects_the_wrong_labels(run):
    config = RunDirectory.open(run).config
    assert (config.data.kind, config.data.words, config.model.name) == ("tickets", 32, "linear")
    pencil("labels", run, "--out", run / "labels.csv")
    rows = rows_of(run / "labels.csv")
    right = [row["suggested_label"] == list(WORDS)[number % 3] for number, row in enumerate(rows)]
    assert len(rows) == 120
    assert sum(right) > 110  # 108 came right


def test_the_report_shows_texts_escaped(run):
    pencil("report", run)
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "please check the &lt;b&gt;invoice&lt;/b&gt; number" in page
    assert "<b>invoice" not in page


def test_the_review_shows_texts(run):
    review = Review(RunDirectory.open(run), with_sure=True)
    try:
        start, item = review.start(), review.take("window")["items"][0]
        assert (start["images"], start["texts"], start["trouble"]) == (False, True, None)
        assert review.text(item["row"]).endswith(f" number {item['row']}")
        assert review.picture(item["row"]) is None
    finally:
        review.close()


def test_it_is_exported(run, tmp_path):
    pencil("export", run, "--to", "label-studio", "--out", tmp_path / "tasks.json")
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    assert len(tasks) == 120
    assert tasks[7]["data"]["pencil_id"] == "7"
    pencil("export", run, "--to", "fiftyone", "--out", tmp_path / "fiftyone")
    samples = json.loads((tmp_path / "fiftyone" / "samples.json").read_text())["samples"]
    assert samples[7]["filepath"] == "7"  # ids that are no files


def test_it_predicts_with_and_without_labels(run, tickets, tmp_path):
    new = tmp_path / "new.tickets"
    new.write_text("reset the password\nplease call me back\n")
    pencil("predict", run, new, "--out", tmp_path / "new.csv")
    assert [row["suggested_label"] for row in rows_of(tmp_path / "new.csv")] == ["login", "other"]
    pencil("predict", run, tickets, "--out", tmp_path / "old.csv")
    assert len(rows_of(tmp_path / "old.csv")) == 120
    new.write_text("login\treset\nno tab\n")
    with pytest.raises(DataError, match=r"new.tickets, line 2: no tab between class and text; add it"):
        CliRunner().invoke(
            cli,
            ["predict", str(run), str(new), "--out", str(tmp_path / "x.csv")],
            catch_exceptions=False,
            standalone_mode=False,
        )


def test_ranks_know_it_and_so_does_resume(installed, tickets, tmp_path):
    paths = os.pathsep.join([str(installed), *filter(None, [os.environ.get("PYTHONPATH")])])
    out = tmp_path / "run"
    under_torchrun(2, "train", tickets, "--out", out, *QUICK, "--set", "checkpoint.steps=5", PYTHONPATH=paths)
    before = json.loads((out / "summary.json").read_text())
    (out / "summary.json").unlink()  # as if it had been killed before the end
    pencil("resume", out, "--quiet")
    again = json.loads((out / "summary.json").read_text())
    assert again["labels_changed"] == before["labels_changed"] > 0
    assert again["last"]["loss"] == before["last"]["loss"]


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("tickets_kind:nothing", r"its package fails with AttributeError.*; fix or remove the package"),
        ("no_such_module:KIND", r"its package fails with ModuleNotFoundError.*; fix or remove the package"),
        ("tickets_kind:read_tickets", r"its package names a function, not a pencil.kinds.Kind"),
    ],
)
def test_a_package_that_fails_costs_a_warning_and_nothing_else(entry, problem, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(install(tmp_path / "site", entry)))
    with kinds_restored():
        with pytest.warns(UserWarning, match=rf"kind of data 'tickets' is left out: {problem}"):
            assert recognise("x.npz").name == "features"
        sys.modules.pop("tickets_kind", None)
