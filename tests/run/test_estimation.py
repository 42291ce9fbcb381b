"""The posterior of a run: when it is computed, that it is exact on resume, and alike for any number of ranks."""

import json
import shutil

import pytest
import torch

from pencil.algorithm import three_phases
from pencil.config import RunConfig
from pencil.errors import RunError
from pencil.identity import unsealed
from pencil.presets import preset
from pencil.run import LabelTable, RunDirectory, prepare_examples, resume, train
from pencil.run.passes import early_epoch
from support import runs
from support.ranks import on_ranks
from support.stopping import StopAfter

NOISE = {"kind": "symmetric", "rate": 0.3}


def posterior(run: RunDirectory) -> dict[str, bytes]:
    files = [*(run.path / "posterior").iterdir(), run.path / "estimates.json"]
    return {file.name: unsealed(file) for file in files}


def images(manifest, epochs=(1, 2, 1), **method) -> RunConfig:
    table = preset("manifest", str(manifest)).table()
    table["data"] |= {"size": 8, "augment": None, "validation": 0.0}
    table["plan"] = "fixed"
    table["model"] = {"name": "small_cnn", "args": {"widths": [4, 4, 4]}}
    table["train"] |= {"precision": "fp32", "batch_size": 4}
    for phase, count in zip(table["phases"], epochs, strict=True):
        phase["epochs"] = count
    return RunConfig.of(table | ({"method": method} if method else {}))


def test_vectors_are_their_own_features(make_config, tmp_path):
    run = train(make_config(data={"noise": NOISE}), tmp_path / "run")
    table = LabelTable.open(run)
    assert table.estimates.source == "inputs"
    judged = next(table.chunks())
    torch.testing.assert_close(judged.distribution.sum(1), torch.ones(len(judged)))
    truth = prepare_examples(run.config.data, run.config.seed).train.reference
    wrong = judged.given != truth
    assert table.estimates.rate.value == pytest.approx(float(wrong.float().mean()), abs=0.1)
    assert float(judged.p_wrong[wrong].mean()) > 0.5 > 0.2 > float(judged.p_wrong[~wrong].mean())


def test_the_posterior_does_not_depend_on_the_training(make_config, tmp_path):
    longer = train(make_config(data={"noise": NOISE}), tmp_path / "longer")
    other = make_config(epochs=(1, 0, 0), data={"noise": NOISE}).table() | {
        "method": {"name": "cross_entropy"}
    }
    shorter = train(RunConfig.of(other), tmp_path / "shorter")
    assert posterior(longer) == posterior(shorter)


@pytest.mark.parametrize(("backbone", "epoch"), [(0, 1), (1, 1), (4, 1), (5, 2), (8, 2), (18, 5), (70, 18)])
def test_features_are_used_after_a_quarter_of_the_backbone_phase(backbone, epoch):
    assert early_epoch(three_phases(backbone, 3, 2, learning_rate=0.1, finetune_rate=0.1)) == epoch


def test_images_use_the_network_early_in_training(manifest, tmp_path):
    constant = images(manifest).table()
    for phase in constant["phases"]:
        phase["learning_rate"] = 0.01

    def trained(*epochs):
        for phase, count in zip(constant["phases"], epochs, strict=True):
            phase["epochs"] = count
        return train(RunConfig.of(constant), tmp_path / str(epochs))

    short, long, longer = trained(5, 0, 0), trained(8, 3, 1), trained(9, 0, 0)
    assert LabelTable.open(long).estimates.source == "early epoch"
    assert posterior(short) == posterior(long)  # both after two epochs
    assert posterior(longer) != posterior(long)  # after three


@pytest.mark.parametrize("step", [3, 5, 6, 7])
def test_a_run_of_images_that_is_stopped_has_the_same_posterior(manifest, tmp_path, step):
    whole = train(images(manifest, (8, 1, 0)), tmp_path / "whole")  # three steps an epoch, features after six
    stopped = train(images(manifest, (8, 1, 0)), tmp_path / "stopped", (StopAfter(step),))
    assert not stopped.is_finished
    assert posterior(resume(stopped.path)) == posterior(whole)


@pytest.mark.parametrize("kind", ["vectors", "images"])
def test_results_that_are_lost_come_back_the_same(make_config, manifest, tmp_path, kind):
    config = make_config(data={"noise": NOISE}) if kind == "vectors" else images(manifest)
    run = train(config, tmp_path / "run")
    before = posterior(run)
    (run.path / "summary.json").unlink()
    if kind == "vectors":
        shutil.rmtree(run.path / "posterior")
    resume(run.path)
    assert posterior(run) == before


def test_network_features_that_are_lost_are_replaced_with_an_alarm(manifest, tmp_path):
    run = train(images(manifest), tmp_path / "run")
    assert [alarm.name for alarm in LabelTable.open(run).estimates.alarms] != ["late_features"]
    shutil.rmtree(run.path / "posterior")
    with pytest.raises(RunError, match=r"posterior cannot be read .*no labels found.*rm -f .*summary.json"):
        LabelTable.open(run)
    (run.path / "summary.json").unlink()
    resume(run.path)
    estimates = LabelTable.open(run).estimates
    assert estimates.source == "last epoch"
    assert estimates.alarms[-1].name == "late_features"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"store": "bag"}, "store: 'bag' is unknown"),
        ({"per_class": [[0.1, 0.0, 0.2]]}, "holds 1 classes instead of 3"),
        ({"pairs": [[0, 9, 0.1, 0.0, 0.2]]}, "classes must be from 0 to 2"),
        ({"rate": {"value": "much", "low": 0, "high": 1}}, "rate.value"),
    ],
)
def test_estimates_that_are_damaged_are_named(make_config, tmp_path, change, words):
    run = train(make_config(epochs=(1, 5, 0)), tmp_path / "run")
    file = run.path / "estimates.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    runs.reseal(file)
    with pytest.raises(RunError, match=r"estimates.json") as found:
        LabelTable.open(run)
    assert words in str(found.value)


@pytest.mark.parametrize("asked", [0.0, 0.02, 0.3])
def test_the_asked_share_replaces_that_of_the_run(make_config, tmp_path, asked):
    run = train(make_config(epochs=(1, 5, 0), data={"noise": NOISE}), tmp_path / "run")
    judged = next(LabelTable.open(run, asked).chunks())
    relabelled = judged.verdict == 1
    assert float((1 - judged.confidence[relabelled]).sum()) <= asked * int(relabelled.sum())


@pytest.mark.ranks
@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("store", ["dense", "top:2"])
def test_ranks_estimate_what_one_process_does(points, make_config, tmp_path, ranks, store):
    alone = train(make_config(data={"noise": NOISE}, store=store), tmp_path / "alone")
    (tmp_path / "config.toml").write_text(alone.config.toml())
    on_ranks(ranks, "train", "--config", tmp_path / "config.toml", "--out", tmp_path / "together")
    one, several = (LabelTable.open(run) for run in (alone, RunDirectory.open(tmp_path / "together")))
    assert several.estimates.rate.value == pytest.approx(one.estimates.rate.value, abs=1e-6)
    mine, theirs = next(one.chunks()), next(several.chunks())
    assert mine.ids == theirs.ids
    torch.testing.assert_close(theirs.p_wrong, mine.p_wrong, atol=2e-3 if store != "dense" else 1e-5, rtol=0)
    assert torch.equal(theirs.verdict, mine.verdict)


# calibrated on held-out rows


def of_digits(digits, validation=0.25, **data) -> RunConfig:
    table = preset("idx", str(digits)).table()
    table["data"] |= {"augment": None, "validation": validation, "noise": NOISE} | data
    table["plan"] = "auto" if validation else "fixed"
    table["model"] = {"name": "small_cnn", "args": {"widths": [4, 4, 4]}}
    table["train"] |= {"precision": "fp32", "batch_size": 50}
    for phase, (epochs, rate) in zip(table["phases"], ((4, 0.05), (2, 0.01), (1, 0.01)), strict=True):
        phase |= {"epochs": epochs, "learning_rate": rate}
    return RunConfig.of(table)


def test_a_trained_network_is_calibrated_on_held_out_rows(digits, tmp_path):
    run = train(of_digits(digits), tmp_path / "run")
    table = LabelTable.open(run)
    assert table.estimates.source == "held-out rows"
    judged, truth = next(table.chunks()), prepare_examples(run.config.data, run.config.seed).train.reference
    wrong = judged.given != truth
    assert table.estimates.rate.value == pytest.approx(float(wrong.float().mean()), abs=0.08)
    assert float((judged.suggested == truth).float().mean()) > 0.95 > float((~wrong).float().mean())


@pytest.mark.parametrize("validation", [0.0, 0.1])
def test_few_held_out_rows_do_not_calibrate(digits, tmp_path, validation):
    run = train(of_digits(digits, validation), tmp_path / "run")
    assert LabelTable.open(run).estimates.source == "early epoch"


def test_a_network_that_has_memorised_its_labels_is_not_asked(digits, tmp_path, monkeypatch):
    monkeypatch.setattr("pencil.estimates.held_out.MEMORISED", -50.0)
    run = train(of_digits(digits), tmp_path / "run")
    assert LabelTable.open(run).estimates.source == "early epoch"


@pytest.mark.parametrize("lost", ["posterior", "estimates.json", "summary.json"])
def test_a_calibrated_posterior_that_is_lost_comes_back_the_same(digits, tmp_path, lost):
    run = train(of_digits(digits), tmp_path / "run")
    before = posterior(run)
    (run.path / "summary.json").unlink()
    if lost == "posterior":
        shutil.rmtree(run.path / lost)
    else:
        (run.path / lost).unlink(missing_ok=True)
    resume(run.path)
    assert posterior(run) == before


def test_a_stopped_run_is_calibrated_alike(digits, tmp_path):
    whole = train(of_digits(digits), tmp_path / "whole")
    stopped = train(of_digits(digits), tmp_path / "stopped", (StopAfter(80),))
    assert not stopped.is_finished
    assert posterior(resume(stopped.path)) == posterior(whole)


@pytest.mark.ranks
@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_calibrate_what_one_process_does(digits, tmp_path, ranks):
    alone = train(of_digits(digits), tmp_path / "alone")
    shutil.copytree(alone.path, tmp_path / "together")  # the same trained network
    together = RunDirectory.open(tmp_path / "together")
    shutil.rmtree(together.path / "posterior")
    for name in ("estimates.json", "summary.json"):
        (together.path / name).unlink()
    on_ranks(ranks, "resume", together.path)
    one, several = LabelTable.open(alone), LabelTable.open(together)
    assert several.estimates.source == one.estimates.source == "held-out rows"
    assert several.estimates.rate.value == pytest.approx(one.estimates.rate.value, abs=1e-5)
    mine, theirs = next(one.chunks()), next(several.chunks())
    assert mine.ids == theirs.ids
    torch.testing.assert_close(theirs.p_wrong, mine.p_wrong, atol=1e-3, rtol=0)
