"""A method of the user's own in whole runs: trust, mistakes, and finished runs that are read without its code."""

import sys

import pytest

from pencil.config import RunConfig
from pencil.errors import ConfigError, RunError
from pencil.report import gather
from pencil.review import Review
from pencil.run import LabelTable, code_in, judged_labels, resume, train
from support.own_method import FILE, MODULE


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The module, and a function: whether it was imported since the last call."""
    (tmp_path / FILE).write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))

    def imports():
        found = (tmp_path / "trace").exists()
        (tmp_path / "trace").unlink(missing_ok=True)
        sys.modules.pop("toy", None)
        return found

    yield imports
    sys.modules.pop("toy", None)


def config_of(make_config, **method):
    table = make_config(epochs=(1, 4, 1), data={"noise": {"kind": "symmetric", "rate": 0.3}}).table()
    return RunConfig.of(table | {"method": {"name": "toy:Toy", **method}})


def test_a_finished_run_is_read_without_its_code(own, make_config, tmp_path):
    run = train(config_of(make_config, drift=0.5), tmp_path / "run")
    assert own()
    chunks = list(judged_labels(run)[0])
    assert sum(len(chunk.ids) for chunk in chunks) == 120
    assert any(int((chunk.suggested != chunk.given).sum()) for chunk in chunks)
    report = gather(run)
    assert report.counts.rows == 120
    changed = sum(int(chunk.changed.sum()) for chunk in LabelTable.open(run).learned_chunks())
    assert changed == run.summary["labels_changed"] > 0
    review = Review(run)
    assert review.take("somebody")
    review.close()
    assert not own()


def test_what_is_read_is_what_the_method_believed(own, make_config, tmp_path, monkeypatch):
    from pencil.run import LabelTable, finishing

    seen = {}
    keep = finishing.rows_to_keep

    def noted(config, learner, folder):
        seen["labels"] = learner.labels()
        return keep(config, learner, folder)

    monkeypatch.setattr(finishing, "rows_to_keep", noted)
    run = train(config_of(make_config), tmp_path / "run")
    chunks = list(LabelTable.open(run).learned_chunks())
    changed = sum(int((chunk.suggested != chunk.given).sum()) for chunk in chunks)
    assert changed == int((seen["labels"].suggested != seen["labels"].given).sum())
    assert sorted(float(value) for chunk in chunks for value in chunk.confidence) == sorted(
        seen["labels"].confidence.tolist()
    )


def test_one_that_learns_no_labels_keeps_the_given_ones(own, make_config, tmp_path):
    table = config_of(make_config).table() | {"method": {"name": "toy:Weighted"}}
    run = train(RunConfig.of(table), tmp_path / "run")
    assert run.summary["learns_labels"] is False
    assert not any(chunk.changed.any() for chunk in LabelTable.open(run).learned_chunks())


def test_resuming_imports_it_only_where_it_is_trusted(own, make_config, tmp_path):
    run = train(config_of(make_config), tmp_path / "run")
    (run.path / "summary.json").unlink()
    assert own()
    assert code_in(run.config) == {"method.name": "toy:Toy"}
    with pytest.raises(RunError, match=r"names code to run: method.name = 'toy:Toy'; .*--trust-code"):
        resume(run.path)
    assert not own()
    assert resume(run.path, trust_code=("toy:Toy",)).is_finished
    assert own()


def test_a_mistake_is_told_before_data_is_read_and_leaves_no_folder(own, make_config, tmp_path):
    with pytest.raises(ConfigError, match=r"method.drft: unknown setting; did you mean 'drift'"):
        train(config_of(make_config, drft=0.5), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "Mean",
            r"method 'toy:Mean': step returned losses of shape \(\) for \d+ examples; it must return one loss",
        ),
        ("Failing", r"method.name = 'toy:Failing' fails with KeyError: 'x' \(in toy.py, line \d+\)"),
    ],
)
def test_what_its_code_gets_wrong_is_told_in_a_sentence(own, make_config, tmp_path, name, words):
    table = config_of(make_config).table() | {"method": {"name": f"toy:{name}"}}
    with pytest.raises(ConfigError, match=words):
        train(RunConfig.of(table), tmp_path / "run")
