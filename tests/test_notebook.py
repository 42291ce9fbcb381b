"""A run opened in a notebook: arrays, data frames, figures and HTML, and nothing of the run is executed."""

import csv
import json
import sys
import tomllib
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner

import pencil
from pencil.cli.main import cli
from pencil.config.toml import to_toml
from pencil.errors import ConfigError, MissingExtraError, RunError
from pencil.presets import preset
from pencil.results.table import Table
from support import browser, runs

HOSTILE = ("<script>alert(1)</script>", 'a" onload="x', "b & c", "żółć \u202e\u0007")


@pytest.fixture(scope="module")
def trained(points, tmp_path_factory):
    """A run that was really trained, with test rows."""
    folder = tmp_path_factory.mktemp("notebook")
    names, numbers = np.unique(points.noisy, return_inverse=True)
    _, true = np.unique(points.test_true, return_inverse=True)
    np.savez(
        folder / "p.npz", X=points.values, y=numbers, names=names, X_test=points.test_values, y_test=true
    )
    config = preset("features", str(folder / "p.npz"))
    pencil.train(config, str(folder / "run"))
    return folder / "run"


@pytest.fixture
def hostile(tmp_path):
    logits, given = runs.random_rows(40, 4, scale=4.0)
    ids = [f"<img src=x onerror=alert({row})>\n{row}" for row in range(39)]
    ids.append(b"\xff\xfe.png".decode("utf-8", "surrogateescape"))
    return runs.run_of_logits(tmp_path / "a <b>run</b>", logits, given, names=HOSTILE, ids=ids)


class Tags(HTMLParser):
    """The elements of a page, and whether all were closed."""

    def __init__(self, page):
        super().__init__()
        self.found, self.open = [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag != "img":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def assert_harmless(page):
    tags = Tags(page)
    assert tags.open == []
    assert {name for name, _ in tags.found} <= {*("p", "strong", "table", "thead", "tbody", "tr", "th")} | {
        *("td", "img", "code")
    }
    assert all(set(attrs) <= {"alt", "width", "src"} for _, attrs in tags.found)
    page.encode("utf-8")  # no half characters


def test_labels_are_those_of_the_label_table(trained, tmp_path):
    result = CliRunner().invoke(cli, ["labels", str(trained), "--out", str(tmp_path / "labels.csv")])
    assert result.exit_code == 0, result.output
    with (tmp_path / "labels.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    labels = pencil.open_run(trained).labels
    assert labels.num_rows == len(rows) == 200
    for ours, theirs in {"id": "id", "given": "given_label", "suggested": "suggested_label"}.items():
        assert labels[ours].tolist() == [row[theirs] for row in rows]
    assert labels["verdict"].tolist() == [row["verdict"] for row in rows]
    assert set(labels["verdict"]) >= {"keep", "relabel"}
    np.testing.assert_allclose(labels["confidence"], [float(row["confidence"]) for row in rows], atol=1e-6)
    assert not labels["trusted"].any()
    assert set(labels["decision"]) == {""}


def test_the_distribution_is_that_of_the_labels(trained):
    run = pencil.open_run(trained)
    whole = run.label_distribution()
    assert whole.shape == (200, 4)
    assert whole.dtype == np.float32
    assert np.array(run.class_names)[whole.argmax(axis=1)].tolist() == run.labels["suggested"].tolist()
    np.testing.assert_array_equal(whole.max(axis=1), run.labels["confidence"])


def test_cut_rows_become_whole_ones(tmp_path):
    logits, given = runs.random_rows(30, 9)
    run = pencil.Run(runs.run_of_logits(tmp_path / "run", logits, given, store="top:3"))
    whole = run.label_distribution()
    assert whole.shape == (30, 9)
    np.testing.assert_allclose(whole.sum(axis=1), 1, atol=2e-3)
    assert (whole.argmax(axis=1) == logits.argmax(dim=1).numpy()).all()


def test_metrics_are_arrays_by_epoch(trained):
    run = pencil.open_run(str(trained))
    lines = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
    assert run.metrics.num_rows == len(lines) == 50
    assert list(run.metrics) == list(lines[0])
    assert run.metrics["epoch"].dtype == np.int64
    assert run.metrics["phase"].tolist() == [line["phase"] for line in lines]
    np.testing.assert_array_equal(run.metrics["test_accuracy"], [line["test_accuracy"] for line in lines])
    assert run.summary["last"]["test_accuracy"] == run.metrics["test_accuracy"][-1]
    assert run.config.method.name == "pencil"


def test_numbers_that_an_epoch_does_not_have_are_nan(tmp_path):
    logits, given = runs.random_rows(8, 3)
    lines = runs.make_lines(2)
    del lines[0]["test_accuracy"]
    del lines[1]["test_accuracy"]
    run = pencil.open_run(runs.run_of_logits(tmp_path / "run", logits, given, lines=lines))
    assert np.isnan(run.metrics["test_accuracy"]).tolist() == [True, True, False, False, False, False]


def test_a_run_in_training_shows_metrics_and_how_to_continue(trained, tmp_path):
    folder = tmp_path / "half"
    folder.mkdir()
    for name in ("config.toml", "metrics.jsonl", "environment.json"):
        (folder / name).write_bytes((trained / name).read_bytes())
    run = pencil.open_run(folder)
    assert not run.is_finished
    assert repr(run).endswith("half', not finished)")
    assert run.metrics.num_rows == 50
    assert "50 epochs so far" in run._repr_html_()
    assert f"pencil resume {folder}" in run._repr_html_()
    for part in ("labels", "summary", "figures"):
        with pytest.raises(RunError, match="is not finished; continue it with: pencil resume"):
            getattr(run, part)


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(RunError, match=r"is not a run \(config.toml is missing\)"):
        pencil.open_run(tmp_path)


def test_figures_are_the_reports_as_svg(trained):
    run = pencil.open_run(trained)
    assert list(run.figures) == ["verdicts", "by_class", "transition", "p_wrong", "changes", "accuracy"]
    for name in run.figures:
        drawn = ElementTree.fromstring(run.figure(name)._repr_svg_())
        assert drawn.tag == "{http://www.w3.org/2000/svg}svg"
        assert drawn.find("{http://www.w3.org/2000/svg}style") is not None
    with pytest.raises(ConfigError, match="figure: 'curves' is unknown; use verdicts, by_class, transition"):
        run.figure("curves")


def test_html_is_short_and_says_what_was_found(trained):
    page = pencil.open_run(trained)._repr_html_()
    assert_harmless(page)
    assert "labels seem wrong (" in page
    assert "Test accuracy" in page
    assert len(page) < 20_000


def test_hostile_names_and_ids_are_text(hostile):
    run = pencil.open_run(hostile)
    assert run.labels["id"][0] == "<img src=x onerror=alert(0)>\n0"
    assert run.class_names == HOSTILE
    for page in (run._repr_html_(), run.labels._repr_html_(), run.metrics._repr_html_()):
        assert_harmless(page)
    assert "&lt;script&gt;" in run.labels._repr_html_()
    assert "10 of 40 rows" in run.labels._repr_html_()
    for figure in run.figures.values():
        drawn = ElementTree.fromstring(figure._repr_svg_())
        assert not [each for each in drawn.iter() if each.tag.endswith("script")]


def test_data_frames_hold_the_same(hostile):
    pandas = pytest.importorskip("pandas")
    run = pencil.open_run(hostile)
    for table in (run.labels, run.metrics):
        frame = table.to_pandas()
        assert isinstance(frame, pandas.DataFrame)
        assert list(frame) == list(table)
        for name, column in table.items():
            assert frame[name].tolist() == column.tolist()
            assert frame[name].dtype == column.dtype


def test_without_pandas_the_pip_command_is_given(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'pencil-labels\[pandas\]'"):
        Table({"a": np.arange(3)}).to_pandas()


def test_a_table_is_a_mapping_of_its_columns():
    table = Table({"verdict": np.arange(3), "id": np.arange(3.0)})
    assert dict(table).keys() == {"verdict", "id"}
    assert len(table) == 2
    assert repr(table) == "Table(3 rows: verdict, id)"
    with pytest.raises(KeyError, match="'verdicts' is not a column; did you mean 'verdict'"):
        table["verdicts"]
    assert Table({}).num_rows == 0
    assert_harmless(Table({})._repr_html_())


@pytest.mark.parametrize("named", ["model", "method"])
def test_code_that_a_run_names_is_not_imported(named, tmp_path, monkeypatch):
    """A run of unknown origin may name modules in its own folder, as its network or its method."""
    logits, given = runs.random_rows(20, 3)
    rows = (
        logits.softmax(dim=1) if named == "method" else logits
    )  # a method of one's own leaves probabilities
    folder = runs.run_of_logits(tmp_path / "run", rows, given)
    for place in (folder, tmp_path):
        (place / "planted.py").write_text("raise SystemExit('imported')\n")
    settings = tomllib.loads((folder / "config.toml").read_text())
    settings[named] = {"name": "planted:Planted"}
    (folder / "config.toml").write_text(to_toml(settings))
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(tmp_path))
    run = pencil.open_run(folder)
    assert getattr(run.config, named).name == "planted:Planted"
    assert run.labels.num_rows == 20
    assert run._repr_html_()
    assert run.figure("transition").svg
    np.testing.assert_allclose(run.label_distribution().sum(axis=1), 1, atol=1e-5)
    assert "planted" not in sys.modules


@pytest.mark.browser
def test_a_browser_runs_nothing_of_hostile_names(hostile, tmp_path):
    run = pencil.open_run(hostile)
    parts = [run._repr_html_(), run.labels._repr_html_(), run.metrics._repr_html_()]
    parts += [figure._repr_svg_() for figure in run.figures.values()]
    page = f"<!doctype html><html lang='en'><meta charset='utf-8'><title>x</title>{''.join(parts)}"
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    driver = browser.chromium()
    try:
        with browser.serving(tmp_path) as (address, asked):
            browser.requested(driver)
            driver.get(f"{address}/page.html")
            assert driver.execute_script("return document.querySelectorAll('script, [onload]').length") == 0
            wide = "return document.querySelector('img').naturalWidth"
            assert driver.execute_script(wide) == 760
            assert asked in (["/page.html"], ["/page.html", "/favicon.ico"])  # the browser's own question
    finally:
        driver.quit()
