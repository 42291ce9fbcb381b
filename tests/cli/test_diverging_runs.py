"""Runs that leave the finite numbers end with one line, exit code 2 and good checkpoints; they deliver nothing."""

import json
from typing import get_args

import numpy as np
import pytest

from pencil.engine.checkpoint import damage
from pencil.errors import PlanWarning
from pencil.methods import BuiltIn, CoTeaching, DivideMix

pytestmark = pytest.mark.slow

QUICK = ("--epochs", "1,6,1", "--quiet", "--set", "train.batch_size=10", "--set", "checkpoint.steps=3")
TOO_FAST = ("backbone", "correction", "finetune")
DELIVERED = ("summary.json", "model.safetensors", "model.json", "labels")


def settings(method, *more):
    pair = ("model.name=pair", "model.args.name=linear") if method in (CoTeaching, DivideMix) else ()
    return [word for setting in (*pair, *more) for word in ("--set", setting)]


def assert_stopped(out, told):
    """One line, nothing delivered, no epoch with a number that is not finite, every checkpoint whole."""
    code, stdout, stderr = told
    assert (code, stdout) == (2, "")
    assert stderr.startswith("error: training stopped after step ")
    assert stderr.count("\n") == 1
    assert not [name for name in DELIVERED if (out / name).exists()]
    for line in (out / "metrics.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=pytest.fail)
    found = sorted(out.glob("checkpoints/*"))
    assert [damage(path) for path in found] == [None] * len(found)
    return [path.name for path in found]


@pytest.mark.filterwarnings(f"ignore::{PlanWarning.__module__}.{PlanWarning.__name__}")
@pytest.mark.parametrize("method", get_args(BuiltIn), ids=lambda method: method.__name__)
def test_a_learning_rate_that_is_too_large_stops_every_method(main_program, points, tmp_path, method):
    out, rates = tmp_path / "run", [f"phases.{phase}.learning_rate=1e6" for phase in TOO_FAST]
    words = ("train", points, "--out", out, "--method", method().name, *QUICK, *settings(method, *rates))
    told = main_program(*words)
    kept = assert_stopped(out, told)
    assert "lower phases." in told[2]
    again = main_program("resume", out, "--quiet")
    assert again == told
    assert assert_stopped(out, again) == kept


def test_features_that_are_too_large_are_blamed(main_program, tmp_path):
    rng = np.random.default_rng(0)
    values = (3e38 * rng.uniform(-1, 1, size=(90, 5))).astype(np.float32)
    np.savez(tmp_path / "huge.npz", X=values, y=rng.integers(3, size=90))
    out = tmp_path / "run"
    told = main_program("train", tmp_path / "huge.npz", "--out", out, *QUICK, "--set", "data.normalize=none")
    assert not assert_stopped(out, told)
    assert "is not finite: inputs reach 2.8e+38; scale them" in told[2]
    assert told[2].endswith("there is no checkpoint yet\n")


def test_a_run_goes_on_with_another_setting_from_its_last_good_checkpoint(main_program, points, tmp_path):
    out = tmp_path / "run"
    words = ("train", points, "--out", out, *QUICK, "--set", "phases.correction.learning_rate=1e6")
    assert_stopped(out, main_program(*words))
    config = out / "config.toml"
    config.write_text(config.read_text().replace("1000000.0", "0.02"))
    assert main_program("resume", out, "--quiet")[0] == 0
    assert (out / "summary.json").exists()


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("method.label_rate=nan", "method.label_rate: nan should be finite"),
        ("method.label_rate=1e30", "method.label_rate: 1e+30 must be a number of at most 1,000,000"),
        ("phases.backbone.learning_rate=inf", "phases.0.learning_rate: inf should be finite"),
        ("phases.backbone.learning_rate=1e30", "learning_rate: 1e+30 must be a number of at most 1,000,000"),
        ("optimizer.weight_decay=-inf", "optimizer.weight_decay: -inf should be finite"),
        ("checkpoint.seconds=inf", "checkpoint.seconds: inf should be finite"),
    ],
)
def test_settings_out_of_bounds_are_refused_before_anything_is_made(
    main_program, points, tmp_path, setting, told
):
    code, _, stderr = main_program("train", points, "--out", tmp_path / "run", "--set", setting)
    assert code == 2
    assert told in stderr
    assert not (tmp_path / "run").exists()
