"""Runs tracked by the real MLflow and W&B, stopped and resumed, and what these then know."""

import json
import os
import signal
import struct
import sys
from types import SimpleNamespace

import pytest

from pencil.engine import read_json_lines
from pencil.errors import MissingExtraError
from pencil.run import resume, train

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def no_service(monkeypatch):
    for name in ("MLFLOW_TRACKING_URI", "WANDB_MODE", "WANDB_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")


def trained_in_two_parts(config, folder):
    """Stopped after three epochs, then resumed to the end; the numbers of every epoch, by step."""

    def stop(event):
        if event.kind == "epoch" and event.values["epoch"] == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    train(config, folder, [SimpleNamespace(handle=stop, close=lambda: None)])
    assert len(read_json_lines(folder / "metrics.jsonl")) == 3
    resume(folder)
    lines = read_json_lines(folder / "metrics.jsonl")
    assert len(lines) == 8
    return {
        line["step"]: {name: value for name, value in line.items() if isinstance(value, int | float)}
        for line in lines
    }


def test_mlflow_knows_settings_and_metrics(make_config, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="needs the extra mlflow")
    config = make_config(train={"mlflow": True, "batch_size": 60})
    expected = trained_in_two_parts(config, tmp_path / "a run")
    assert "MLFLOW_ALLOW_FILE_STORE" not in os.environ

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    client = mlflow.MlflowClient(tracking_uri=(tmp_path / "a run" / "mlflow").as_uri())
    experiment = client.get_experiment_by_name("pencil")
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.info.run_name, run.info.status) == ("a run", "FINISHED")
    assert run.data.params["train.batch_size"] == "60"
    assert run.data.params["method.name"] == "pencil"
    for name in ("loss", "labels_changed", "test_accuracy"):
        history = client.get_metric_history(run.info.run_id, name)
        assert [(each.step, each.value) for each in history] == [
            (step, numbers[name]) for step, numbers in expected.items()
        ]


def test_mlflow_goes_where_its_variable_says(make_config, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="needs the extra mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "elsewhere").as_uri())
    train(make_config(train={"mlflow": True}), tmp_path / "run")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    assert mlflow.MlflowClient().get_experiment_by_name("pencil") is not None


def test_wandb_has_the_history_offline(make_config, tmp_path):
    pytest.importorskip("wandb", reason="needs the extra wandb")
    config = make_config(train={"wandb": True, "batch_size": 60})
    expected = trained_in_two_parts(config, tmp_path / "a run")

    files = sorted((tmp_path / "a run" / "wandb").glob("offline-run-*/*.wandb"))
    assert len(files) == 2  # a folder for each process,
    assert len({file.name for file in files}) == 1  # of one run
    records = [record for file in files for record in wandb_records(file.read_bytes())]
    settings = {
        item.key: json.loads(item.value_json)
        for record in records
        if record.HasField("run")
        for item in record.run.config.update
    }
    assert settings["train"]["batch_size"] == 60
    lines = [
        {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
        for record in records
        if record.HasField("history")
    ]
    assert [line["_step"] for line in lines] == list(expected)
    for line, numbers in zip(lines, expected.values(), strict=True):
        assert {name: line[name] for name in numbers if name != "step"} == {
            name: value for name, value in numbers.items() if name != "step"
        }


def wandb_records(data):
    """The records of an offline run: LevelDB's log format after a header of seven bytes."""
    pb = pytest.importorskip("wandb.proto.wandb_internal_pb2")
    place, parts = 7, b""
    while place < len(data):
        left = 32768 - place % 32768
        if left < 7:
            place += left  # a block ends in zeros where no head fits
            continue
        _, size, kind = struct.unpack("<IHB", data[place : place + 7])
        parts += data[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # whole, or the last part
            record = pb.Record()
            record.ParseFromString(parts)
            yield record
            parts = b""


@pytest.mark.parametrize("tracker", ["mlflow", "wandb"])
def test_a_missing_tracker_is_named_with_its_extra(make_config, tmp_path, monkeypatch, tracker):
    monkeypatch.setitem(sys.modules, tracker, None)
    with pytest.raises(MissingExtraError, match=rf"pencil-labels\[{tracker}\]"):
        train(make_config(train={tracker: True}), tmp_path / "run")
    assert not (tmp_path / "run").exists()
