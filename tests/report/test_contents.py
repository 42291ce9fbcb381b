"""What is gathered from a run: whole and cut rows, data that is there, gone or changed."""

import shutil
from contextlib import nullcontext

import pytest
import torch

from pencil.config import RunConfig
from pencil.report import gather, page, write_figures
from pencil.report import source as source_module
from pencil.report.tables import class_rows, confusions
from pencil.report.words import advice, headline, story, vanished
from pencil.run import ChangedDataError, RunDirectory

pytestmark = pytest.mark.slow

ROWS, CLASSES = 300, 12


def gathered(folder, **options):
    return gather(RunDirectory.open(folder), **options)


@pytest.mark.parametrize("store", ["dense", "top:4", "top:1"])
def test_whole_and_cut_rows_are_told_alike(make_run, random_rows, tmp_path, store):
    logits, given = random_rows(ROWS, CLASSES)
    report = gathered(make_run(tmp_path / "run", logits, given, store=store), read_data=False)
    suggested = logits.argmax(dim=1)
    assert report.totals["examples"] == ROWS
    assert report.totals["labels_changed"] == int((suggested != given).sum())
    assert torch.equal(report.counts.suggested, suggested.bincount(minlength=CLASSES))
    assert sum(report.totals[verdict] for verdict in ("keep", "relabel", "review")) == ROWS


def test_tables_of_classes_and_confusions_are_cut_to_those_with_most_changes(make_run, random_rows, tmp_path):
    logits, given = random_rows(ROWS, CLASSES)
    report = gathered(make_run(tmp_path / "run", logits, given), read_data=False)
    suggested, rows = logits.argmax(dim=1), class_rows(report, 5)
    changed = [int(((given == index) & (suggested != index)).sum()) for index in range(CLASSES)]
    assert [row.changed for row in rows] == sorted(changed, reverse=True)[:5]
    for row in rows:
        index = report.class_names.index(row.name)
        mine = given == index
        assert row.given == int(mine.sum())
        assert row.share == changed[index] / row.given
        sure = logits.softmax(dim=1).max(dim=1).values[mine].mean()
        assert row.confidence == pytest.approx(float(sure), rel=1e-5)
        other, number = row.confusion
        assert int((mine & (suggested == report.class_names.index(other))).sum()) == number
    assert [each.count for each in confusions(report, 3)] == sorted(
        (each.count for each in confusions(report, 1000)), reverse=True
    )[:3]


@pytest.mark.parametrize(
    ("method", "learns", "words"),
    [
        ({"name": "pencil"}, True, "or raise method.label_rate"),
        ({"name": "early_learning"}, True, "more epochs, or change [method]"),
        ({"name": "dividemix"}, False, "train with a method that learns labels"),
    ],
    ids=lambda value: value.get("name") if isinstance(value, dict) else None,
)
def test_advice_where_nothing_changed_fits_the_method(make_run, tmp_path, method, learns, words):
    given = torch.arange(20) % 2
    directory = RunDirectory.open(make_run(tmp_path / "run", 10 * torch.eye(2)[given], given))
    config = RunConfig.of(directory.config.table() | {"method": method})
    (directory.path / "config.toml").write_text(config.toml())
    directory.write_summary(directory.summary | {"learns_labels": learns})
    report = gathered(directory.path, read_data=False)
    assert words in advice(report)[0].words
    assert any("does not learn labels" in each for each in story(report)) != learns


def test_data_that_is_gone_costs_thumbnails_only(make_run, random_rows, tmp_path):
    report = gathered(make_run(tmp_path / "run", *random_rows(ROWS, CLASSES)))
    assert len(report.notes) == 1
    assert report.notes[0].startswith("No thumbnails: the run's data cannot be read: ")
    assert "nowhere.npz" in report.notes[0]
    assert report.counts.truth.rows == 0
    assert len(report.corrections) == 24
    assert not any(example.thumbnail for example in report.corrections)


def test_images_have_thumbnails_and_only_as_many_as_fit(image_run, monkeypatch):
    report = gathered(image_run, examples=5)
    examples = report.corrections + report.reviews
    assert examples
    assert report.notes == []
    assert all(example.thumbnail.width == 24 for example in examples)
    monkeypatch.setattr(source_module, "THUMBNAIL_BYTES", 5000)
    crowded = gathered(image_run, examples=5)
    shown = [example.thumbnail for example in crowded.corrections + crowded.reviews if example.thumbnail]
    assert 0 < sum(len(each.uri) for each in shown) <= 5000
    assert crowded.notes == ["Some thumbnails are left out to limit the size of this file."]


def test_data_that_changed_since_the_run_is_refused_or_not_shown(image_run, tmp_path):
    copy = shutil.copytree(image_run, tmp_path / "run")
    config = (copy / "config.toml").read_text()
    data = RunDirectory.open(image_run).config.data.path
    moved = shutil.copytree(data, tmp_path / "data")
    (copy / "config.toml").write_text(config.replace(data, str(moved)))
    assert gathered(copy).notes == []
    for file in sorted(moved.glob("*/*.png")):
        file.rename(file.with_name(f"new-{file.name}"))
    with pytest.raises(ChangedDataError, match="train: ids differ"):
        gathered(copy)
    changed = gathered(copy, changed_data=True)
    assert changed.notes == ["No thumbnails: the data has changed since the run."]
    shutil.copy(next(moved.glob("*/*.png")), moved / "owl" / "more.png")
    assert "a different number of rows" in gathered(copy, changed_data=True).notes[0]
    for file in moved.glob("owl/*.png"):
        file.write_bytes(b"broken")
    assert gathered(copy).corrections


@pytest.mark.parametrize("metrics", ["", "{broken\n"])
def test_a_run_without_epochs_is_told_without_them(make_run, random_rows, tmp_path, metrics):
    folder = make_run(tmp_path / "run", *random_rows(20, 3))
    (folder / "metrics.jsonl").write_text(metrics)
    expected = pytest.warns(UserWarning, match=r"1 of 1 lines cannot be read") if metrics else nullcontext()
    with expected:
        told = gathered(folder, read_data=False)
    assert told.notes == ["No training curves: metrics.jsonl holds no epochs."]
    assert "for an unknown number of epochs" in story(told)[0]
    assert "No epochs were recorded" in page(told)
    write_figures(told, tmp_path / "figures")


def test_the_words_say_what_was_found(make_run, random_rows, tmp_path):
    logits, given = random_rows(ROWS, CLASSES)
    report = gathered(make_run(tmp_path / "run", logits, given, alarms=["drift"]), read_data=False)
    changed = int((logits.argmax(dim=1) != given).sum())
    assert headline(report) == f"{changed} of 300 labels seem wrong"
    assert story(report)[0].startswith(
        "The network linear was trained on 300 examples of 12 classes for 6 epochs ("
    )
    assert "(backbone 2, correction 3 and finetune 1)" in story(report)[0]
    steps = [step.words for step in advice(report)]
    assert steps[0].startswith("Resolve the alarms first")
    assert any("with the verdict review" in step for step in steps)
    assert next(step.command for step in advice(report) if step.command) == (
        f"pencil labels {tmp_path / 'run'} --out labels.csv"
    )


def test_a_run_that_changed_nothing_says_so(make_run, tmp_path):
    given = torch.arange(30) % 3
    logits = 12.0 * torch.nn.functional.one_hot(given, 3)
    report = gathered(make_run(tmp_path / "run", logits, given), read_data=False)
    assert headline(report) == "None of the 30 labels seems wrong"
    (step,) = advice(report)
    assert "more epochs" in step.words
    assert report.corrections == report.reviews == []


def test_a_class_that_all_but_vanished_is_named(make_run, tmp_path):
    given = torch.arange(60) % 3
    suggested = torch.where(given == 2, 0, given)
    report = gathered(
        make_run(tmp_path / "run", 12.0 * torch.nn.functional.one_hot(suggested, 3), given), read_data=False
    )
    assert vanished(report) == ["class 2"]
    assert any(step.words.startswith("Check examples of class 2 ") for step in advice(report))
