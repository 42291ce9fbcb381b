"""Runs on features of an encoder: the head learns from features, people see originals, and everything continues."""

import os
import shutil
import sys

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image
from safetensors.torch import load_file

from pencil.cli.main import cli
from pencil.config import RunConfig
from pencil.configure import choose_encoder
from pencil.errors import RunError
from pencil.identity import unsealed
from pencil.presets import preset
from pencil.review import Review
from pencil.run import (
    ChangedDataError,
    RunDirectory,
    evaluate,
    judged_labels,
    own_examples,
    predict,
    resume,
    rows_to_show,
    train,
)
from support.own_encoder import FILE, MODULE, NAME, SIZE
from support.ranks import under_torchrun

CLASSES = {"blue": (20, 20, 200), "green": (20, 200, 20), "red": (200, 20, 20)}
ROWS = 12  # a class


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """Photos of three colours in several sizes and modes, a tenth of them in the wrong folder; and their encoder."""
    random = np.random.default_rng(0)
    for name, colour in CLASSES.items():
        (tmp_path / "photos" / name).mkdir(parents=True)
        for row in range(ROWS):
            size = (int(random.integers(8, 40)), int(random.integers(8, 40)), 3)
            pixels = np.clip(np.array(colour) + random.normal(0, 20, size), 0, 255).astype(np.uint8)
            image = Image.fromarray(pixels)
            mode = ("RGB", "RGBA", "P")[row % 3]
            image.convert(mode).save(tmp_path / "photos" / name / f"{row}.png")
    shutil.copy(tmp_path / "photos/red/0.png", tmp_path / "photos/blue/wrong.png")
    (tmp_path / FILE).write_text(MODULE)
    monkeypatch.setenv("PENCIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("colours", None)
    yield tmp_path / "photos"
    sys.modules.pop("colours", None)


def config_of(photos, epochs=(1, 8, 2)):
    table = preset("features", str(photos)).table()
    for phase, count in zip(table["phases"], epochs, strict=True):
        phase["epochs"] = count
    table["data"] = {"kind": "folder", "path": str(photos), "embed": NAME}
    return RunConfig.of(table)


def encoded(photos):
    """How many images were encoded so far."""
    return len((photos.parent / "encoded").read_text())


def test_the_head_learns_from_features_and_people_see_the_originals(photos, tmp_path):
    run = train(config_of(photos), tmp_path / "run")
    (rows,) = judged_labels(run)[0]
    place = rows.ids.index("blue/wrong.png")
    assert rows.suggested[place] == 2  # red
    assert rows.p_wrong[place] > 0.5
    review = Review(run)
    item = review.take("somebody")
    assert item
    review.close()
    # The copy in the wrong folder has the content of its original, which is encoded once.
    assert encoded(photos) == 3 * ROWS


def test_a_second_run_encodes_nothing_and_new_rows_alone_are_encoded(photos, tmp_path):
    train(config_of(photos), tmp_path / "run")
    before = encoded(photos)
    train(config_of(photos), tmp_path / "again")
    assert encoded(photos) == before
    Image.new("RGB", (9, 9), (21, 22, 201)).save(photos / "blue" / "new.png")
    train(config_of(photos), tmp_path / "more")
    assert encoded(photos) == before + 1


def test_a_resumed_run_is_the_same_and_needs_the_code_to_be_trusted(photos, tmp_path):
    whole = train(config_of(photos), tmp_path / "whole")
    table = config_of(photos).table()
    table["checkpoint"] = {"steps": 1}
    part = train(RunConfig.of(table), tmp_path / "part")
    (part.path / "summary.json").unlink()
    for checkpoint in sorted((part.path / "checkpoints").iterdir())[1:]:
        shutil.rmtree(checkpoint)
    with pytest.raises(RunError, match=r"data\.embed = 'colours:encode'"):
        resume(part.path)
    resume(part.path, trust_code=True)
    weights = [unsealed(run.path / "model.safetensors") for run in (whole, part)]
    assert weights[0] == weights[1]


def test_another_encoder_of_the_same_name_is_noticed(photos, tmp_path):
    run = train(config_of(photos), tmp_path / "run")
    (photos.parent / FILE).write_text(MODULE + "\n# other\n")
    sys.modules.pop("colours", None)
    for use in (
        lambda: evaluate(run, "train", trust_code=True),
        lambda: predict(run, run.config.data, trust_code=True),
    ):
        with pytest.raises(ChangedDataError, match="'colours:encode' is not the encoder"):
            use()


def test_the_encoder_that_a_run_names_is_imported_for_predictions_only_if_trusted(photos, tmp_path):
    train(config_of(photos), tmp_path / "run")
    words = ["predict", str(tmp_path / "run"), str(photos), "--out", str(tmp_path / "new.csv")]
    sys.modules.pop("colours")
    refused = CliRunner().invoke(cli, words)
    assert "names code to run: data.embed = 'colours:encode'" in str(refused.exception)
    assert "colours" not in sys.modules
    trusted = CliRunner().invoke(cli, [*words, "--trust-code"])
    assert "importing colours:encode" in trusted.output
    for further in (["--trust-code"], ["--set", f"embed={NAME}"]):
        assert CliRunner().invoke(cli, [*words, *further]).exit_code == 0


def test_a_network_that_timm_would_fetch_from_somebody_must_be_trusted(photos, tmp_path):
    run = train(config_of(photos), tmp_path / "run")
    settings = (run.path / "config.toml").read_text()
    (run.path / "config.toml").write_text(settings.replace(NAME, "timm:hf-hub:somebody/net"))
    run = RunDirectory.open(run.path)
    for use in (lambda: evaluate(run, "train"), lambda: predict(run, run.config.data)):
        with pytest.raises(RunError, match=r"names code to run: data\.embed = 'timm:hf-hub:somebody/net'"):
            use()


def test_rows_are_shown_without_their_encoder(photos, tmp_path):
    run = train(config_of(photos), tmp_path / "run")
    sys.modules.pop("colours")
    assert rows_to_show(run).train.ids == own_examples(run, to_encode=False).train.ids
    assert "colours" not in sys.modules


def test_predicting_encodes_new_images(photos, tmp_path):
    run = train(config_of(photos), tmp_path / "run")
    (tmp_path / "new").mkdir()
    for number, colour in enumerate(CLASSES.values()):
        Image.new("RGB", (50, 30), colour).save(tmp_path / "new" / f"{number}.png")
    section = config_of(photos).data.model_copy(update={"path": str(tmp_path / "new")})
    (rows,), names = (lambda found: (list(found[0]), found[1]))(predict(run, section, trust_code=True))
    assert [names[label] for label in rows.suggested.tolist()] == list(CLASSES)
    assert evaluate(run, "train", trust_code=True)["accuracy"] > 0.9


def test_the_model_takes_features(photos, tmp_path):
    run = train(config_of(photos), tmp_path / "run")
    assert load_file(run.path / "model.safetensors")["1.weight"].shape == torch.Size([3, SIZE])


@pytest.mark.ranks
def test_ranks_divide_the_rows_and_train_as_one_process_does(photos, tmp_path):
    one = train(config_of(photos), tmp_path / "one")
    shutil.rmtree(tmp_path / "cache")
    (tmp_path / "encoded").unlink()
    settings = tmp_path / "settings.toml"
    settings.write_text(config_of(photos).toml())
    words = ("train", "--config", settings, "--out", tmp_path / "two", "--trust-code")
    under_torchrun(2, *words, PYTHONPATH=f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    two = RunDirectory(tmp_path / "two")
    weights = [load_file(run.path / "model.safetensors")["1.weight"] for run in (one, two)]
    torch.testing.assert_close(*weights, atol=1e-4, rtol=1e-4)
    assert len((tmp_path / "encoded").read_text()) == 3 * ROWS


def test_the_encoder_is_chosen_by_the_user_then_by_the_machine(photos, monkeypatch):
    monkeypatch.setattr(
        "pencil.configure.settings.default_encoder", lambda rows: (f"best for {rows}", "a line")
    )
    monkeypatch.delenv("PENCIL_EMBED")
    path = str(photos)
    assert choose_encoder(path, None) == ("best for images", "a line")
    assert choose_encoder(path, "none") == (None, None)
    assert choose_encoder(path, "mine:encode") == ("mine:encode", None)
    assert choose_encoder(path, None, "a preset") == (None, None)
    assert choose_encoder("features.npz", None) == (None, None)
    monkeypatch.setenv("PENCIL_EMBED", "transformers:/models/vit")
    assert choose_encoder(path, None) == ("transformers:/models/vit", None)
    assert choose_encoder("features.npz", None) == (None, None)


def test_the_command_trains_on_features_and_takes_code_that_it_names(photos, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["train", "photos", "--embed", NAME, "--out", "run", "--epochs", "1,8,2", "--json", "--quiet"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    assert RunDirectory(tmp_path / "run").config.data.embed == NAME
