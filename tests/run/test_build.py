"""Settings become objects: seeded, normalised, checked before the first step."""

import pytest
import torch

from pencil.config import RunConfig
from pencil.data import Order
from pencil.engine import Loop, Runtime
from pencil.errors import ConfigError, DataError
from pencil.run import RunDirectory, prepare_examples, train
from pencil.run.build import (
    build_runtime,
    build_sampler,
    build_training,
)

RUNTIME = Runtime(device=torch.device("cpu"))


def test_a_batch_larger_than_the_data_is_one_batch(make_config):
    sampler = build_sampler(make_config(train={"batch_size": 4096}), Order(120), RUNTIME)
    assert [len(batch) for batch in sampler.batches(0)] == [120]


def test_a_batch_that_cannot_be_divided_is_refused(make_config, tmp_path):
    config = make_config(train={"batch_size": 2, "accumulate": 3})
    prepared = prepare_examples(config.data, config.seed)
    with pytest.raises(ConfigError, match=r"train.batch_size: 2 is less than 1 ranks × 3 passes .*raise it"):
        build_training(config, prepared, RunDirectory(tmp_path), RUNTIME)


def test_a_plan_without_epochs_is_refused(make_config, tmp_path):
    config = make_config(epochs=(0, 0, 0))
    prepared = prepare_examples(config.data, config.seed)
    with pytest.raises(ConfigError, match="phases: no phase has an epoch; set"):
        build_training(config, prepared, RunDirectory(tmp_path), RUNTIME)


def test_without_a_directory_training_leaves_nothing_on_disk(make_config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = make_config(store="dense")
    prepared = prepare_examples(config.data, config.seed)
    training = build_training(config, prepared, None, RUNTIME)
    assert training.checkpoints is None
    assert Loop(training).run()
    assert list(tmp_path.iterdir()) == []


def test_each_rank_owns_its_rows(make_config, tmp_path, monkeypatch):
    monkeypatch.setattr(Runtime, "network", lambda _, model: model)  # needs the other rank
    monkeypatch.setattr(Runtime, "new_group", lambda _: None)  # so do the lines between them
    monkeypatch.setattr(Runtime, "total", lambda runtime, values: runtime.world_size * values)
    config = make_config(store="dense")
    prepared = prepare_examples(config.data, config.seed)
    trainings = [
        build_training(
            config,
            prepared,
            RunDirectory(tmp_path),
            Runtime(device=torch.device("cpu"), rank=rank, world_size=2),
        )
        for rank in range(2)
    ]
    assert sorted(torch.cat([training.indices for training in trainings]).tolist()) == list(range(120))
    assert [training.owned for training in trainings] == [range(60), range(60, 120)]
    for training in trainings:
        assert torch.equal(training.learner.given.values, prepared.train.labels.values[training.indices])
        assert torch.equal(
            training.train.inputs.fetch(torch.arange(60)), prepared.train.inputs.fetch(training.indices)
        )
        assert list(training.train.ids) == [prepared.train.ids[row] for row in training.indices.tolist()]
        assert training.sampler.steps == 1


def test_more_ranks_than_a_step_can_feed_are_refused(make_config, tmp_path, monkeypatch):
    monkeypatch.setattr(Runtime, "total", lambda runtime, values: runtime.world_size * values)
    config = make_config(train={"batch_size": 7}, store="dense")
    prepared = prepare_examples(config.data, config.seed)
    runtime = Runtime(device=torch.device("cpu"), rank=0, world_size=7)
    with pytest.raises(DataError, match=r"120 rows in batches of 7 .*of 7 ranks .*larger train.batch_size"):
        build_training(config, prepared, RunDirectory(tmp_path), runtime)


def test_the_device_is_checked(make_config):
    with pytest.raises(ConfigError, match=r"train.device: 'gpu' is not a device"):
        build_runtime(make_config(train={"device": "gpu"}))


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (
            {"name": "forward", "transition": [[0.9, 0.1], [0.2, 0.8]]},
            r"method\.transition: '2 × 2' must be 3 × 3",
        ),
        (
            {"name": "joint_optimization", "prior_weight": 1.0, "prior": [0.5, 0.5]},
            r"method\.prior: .* must have one frequency for each of 3 classes",
        ),
    ],
)
def test_settings_of_other_classes_are_refused_by_name(make_config, tmp_path, method, message):
    config = RunConfig.of(make_config().table() | {"method": method})
    with pytest.raises(ConfigError, match=message):
        train(config, tmp_path / "run")
