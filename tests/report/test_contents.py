"""What is gathered from a run: whole and cut rows, data that is there, gone or changed."""

import math
import shutil
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch

from pencil.estimates import Alarm
from pencil.report import gather, page, write_figures
from pencil.report import source as source_module
from pencil.report.tables import class_rows, confusions
from pencil.report.words import advice, headline, story, vanished
from pencil.results import read_estimates, write_estimates
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


def test_tables_of_classes_and_confusions_are_cut_to_the_largest(make_run, random_rows, tmp_path):
    logits, given = random_rows(ROWS, CLASSES)
    report = gathered(make_run(tmp_path / "run", logits, given), read_data=False)
    suggested, rows = logits.argmax(dim=1), class_rows(report, 5)
    wrong = 1 - logits.softmax(dim=1).gather(1, given[:, None])[:, 0].double()
    number = [float(wrong[given == index].sum()) for index in range(CLASSES)]
    assert [row.wrong.value * row.given for row in rows] == pytest.approx(
        sorted(number, reverse=True)[:5], rel=1e-3
    )
    for row in rows:
        mine = given == report.class_names.index(row.name)
        assert row.given == int(mine.sum())
        assert row.wrong.low <= row.wrong.value <= row.wrong.high
        other, count = row.confusion
        assert int((mine & (suggested == report.class_names.index(other))).sum()) == count
    shares = [each.share.value for each in confusions(report, 1000)]
    assert len(shares) == CLASSES * (CLASSES - 1)
    assert [each.share.value for each in confusions(report, 3)] == sorted(shares, reverse=True)[:3]


def test_a_method_that_learns_no_labels_has_suggestions_as_well(make_run, random_rows, tmp_path):
    directory = RunDirectory.open(make_run(tmp_path / "run", *random_rows(ROWS, CLASSES)))
    before = gathered(directory.path, read_data=False)
    directory.write_summary(directory.summary | {"learns_labels": False})
    after = gathered(directory.path, read_data=False)
    assert story(after) == story(before)
    assert after.totals == before.totals


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
    broken = gathered(copy)
    assert broken.corrections + broken.reviews


@pytest.mark.parametrize("metrics", ["", "{broken\n"])
def test_a_run_without_epochs_is_told_without_them(make_run, random_rows, tmp_path, metrics):
    folder = make_run(tmp_path / "run", *random_rows(20, 3))
    (folder / "metrics.jsonl").write_text(metrics)
    expected = pytest.warns(UserWarning, match=r"1 of 1 lines cannot be read") if metrics else nullcontext()
    with expected:
        told = gathered(folder, read_data=False)
    assert told.notes == ["No training curves: metrics.jsonl holds no epochs."]
    assert "for an unknown number of epochs" in story(told)[-1]
    assert "No epochs were recorded" in page(told)
    write_figures(told, tmp_path / "figures")


def test_the_words_say_what_was_found(make_run, random_rows, tmp_path):
    logits, given = random_rows(ROWS, CLASSES)
    report = gathered(make_run(tmp_path / "run", logits, given, alarms=["drift"]), read_data=False)
    rate = report.estimates.rate
    low, high = math.floor(rate.low * ROWS), math.ceil(rate.high * ROWS)
    assert headline(report) == f"About {round(rate.value * ROWS)} of 300 labels seem wrong ({low} to {high})"
    found, done = story(report)
    totals = report.totals
    assert f"{totals['relabel']} labels can be replaced with at most 10\u00a0% errors." in found
    assert f"{totals['review']} labels are doubtful" in found
    assert done.startswith("The network linear was trained on 300 examples of 12 classes for 6 epochs (")
    assert "(backbone 2, correction 3 and finetune 1)" in done
    steps = [step.words for step in advice(report)]
    assert steps[0].startswith("Resolve the alarms")
    assert any("with the verdict review" in step for step in steps)
    commands = [step.command for step in advice(report) if step.command]
    run = tmp_path / "run"
    assert commands == [
        f"pencil audit {run} --csv sample.csv",
        f"pencil labels {run} --out labels.csv",
        f"pencil review {run} --goal clean",
    ]


def test_alarms_of_the_estimates_come_first_with_their_remedy(make_run, random_rows, tmp_path):
    folder = make_run(tmp_path / "run", *random_rows(20, 3), alarms=["drift"])
    found = read_estimates(folder, 3)
    alarm = Alarm("asymmetric", "the noise is not uniform", "audit a hundred rows: pencil audit RUN")
    write_estimates(folder, replace(found, alarms=[alarm]))
    report = gathered(folder, read_data=False)
    assert report.alarms == [
        "The noise is not uniform. Remedy: audit a hundred rows: pencil audit RUN.",
        "Drift. Remedy: use better features.",
    ]
    assert advice(report)[0].command == f"pencil review {folder} --ask 100"
    text = page(report)
    assert text.index("The noise is not uniform. Remedy: audit") < text.index('class="cards"')


def test_a_run_that_found_nothing_says_so(make_run, tmp_path):
    given = torch.arange(30) % 3
    logits = 12.0 * torch.nn.functional.one_hot(given, 3)
    report = gathered(make_run(tmp_path / "run", logits, given), read_data=False)
    assert headline(report) == "Hardly any of 30 labels seems wrong (0 to 2)"
    (step,) = advice(report)
    assert step.words.startswith("There is nothing to change.")
    assert report.corrections == report.reviews == []


def test_where_nothing_can_be_relabelled_the_report_says_what_to_do(make_run, random_rows, tmp_path):
    logits, given = random_rows(100, 5, scale=1.0)
    report = gathered(make_run(tmp_path / "run", logits, given), read_data=False, max_false_relabels=0.001)
    assert report.totals["relabel"] == 0 < report.totals["review"]
    assert "No label can be replaced with at most 0.1\u00a0% errors." in story(report)[0]
    assert "ask for a larger share with --max-false-relabels" in advice(report)[0].words


@pytest.mark.parametrize(("name", "told"), [("changes", False), ("drift", True)])
def test_labels_that_training_changed_are_no_suggestions(make_run, random_rows, tmp_path, name, told):
    report = gathered(make_run(tmp_path / "run", *random_rows(100, 5), alarms=["too many"]), read_data=False)
    (record,) = report.summary["alarms"]
    report = replace(report, summary={**report.summary, "alarms": [record | {"name": name}]})
    assert any(step.words.startswith("Resolve the alarms") for step in advice(report)) is told


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"source": "held-out rows", "surest": 0.85}, True),
        ({"source": "held-out rows"}, False),
        (
            {"source": "held-out rows", "surest": 0.85, "alarms": [Alarm("structure", "confused", "audit")]},
            False,
        ),
        ({"source": "early epoch", "surest": 0.85}, False),
    ],
)
def test_too_few_held_out_rows_are_named_with_the_remedy(make_run, random_rows, tmp_path, changed, told):
    report = gathered(make_run(tmp_path / "run", *random_rows(100, 5, scale=1.0)), max_false_relabels=0.001)
    report = replace(report, estimates=replace(report.estimates, **changed))
    steps = " ".join(step.words for step in advice(report))
    assert ("held-out rows are too few" in steps) is told
    assert ("hold out more rows, for example --set data.validation=0.2." in steps) is told


def test_a_class_that_all_but_vanished_is_named(make_run, tmp_path):
    given = torch.arange(60) % 3
    suggested = torch.where(given == 2, 0, given)
    report = gathered(
        make_run(tmp_path / "run", 12.0 * torch.nn.functional.one_hot(suggested, 3), given), read_data=False
    )
    assert vanished(report) == ["class 2"]
    assert any(step.words.startswith("Check examples of class 2: it is suggested") for step in advice(report))
