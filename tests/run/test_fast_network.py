"""The fast network in a run: what its whitening is computed from, alike on resume, when loaded and on ranks."""

import pytest
import torch
from safetensors.torch import load_file

from pencil.config import RunConfig
from pencil.engine import Runtime, network_features
from pencil.models import PatchWhitening
from pencil.presets import preset
from pencil.run import prepare_examples, resume, train
from pencil.run.build import build_training
from pencil.run.network import build_network, build_preparation, trained_network
from support.ranks import on_ranks
from support.stopping import StopAfter

RUNTIME = Runtime(device=torch.device("cpu"))


@pytest.fixture
def config(manifest):
    table = preset("manifest", str(manifest)).table()
    table["data"] |= {"size": 16, "augment": {"pad": 2, "crop": 16, "flip": True}, "validation": 0.0}
    table["plan"] = "fixed"
    table["model"] = {"name": "fast", "args": {"widths": [4, 6, 5]}}
    table["train"] |= {"precision": "fp32", "batch_size": 4}
    for phase in table["phases"]:
        phase["epochs"] = 1
    return RunConfig.of(table | {"store": "dense"})


def weights(run):
    return load_file(run.path / "model.safetensors")


def built(config):
    train_rows = prepare_examples(config.data, config.seed).train
    preparation = build_preparation(config, train_rows, RUNTIME)
    return build_network(config, train_rows, preparation, RUNTIME), train_rows, preparation


def test_the_whitening_comes_from_normalised_training_images(config):
    model, train_rows, preparation = built(config)
    wanted = PatchWhitening(3)
    wanted.prepare(preparation.evaluation(train_rows.inputs.fetch(torch.arange(len(train_rows)))))
    assert torch.equal(model.whitening.weight, wanted.weight)


def test_few_rows_of_large_data_are_enough(config, monkeypatch):
    monkeypatch.setattr("pencil.run.network.SEEN_BEFORE", 3)
    model, train_rows, preparation = built(config)
    wanted = PatchWhitening(3)
    wanted.prepare(preparation.evaluation(train_rows.inputs.fetch(torch.tensor([0, 4, 8]))))
    assert torch.equal(model.whitening.weight, wanted.weight)


def test_the_posterior_uses_the_features_before_its_linear_layer(config):
    training = build_training(config, prepare_examples(config.data, config.seed), None, RUNTIME)
    batch, features = next(network_features(training))
    assert features.shape == (len(training.train), 5)
    training.model.eval()
    prepared = training.preparation.evaluation(training.train.inputs.fetch(batch))
    logits = training.model.fc(features) / 9
    torch.testing.assert_close(logits, training.model(prepared), rtol=1e-4, atol=1e-5)


def test_a_stopped_run_resumes_exactly_and_is_loaded_with_its_whitening(config, tmp_path):
    whole = train(config, tmp_path / "whole")
    stopped = train(config, tmp_path / "stopped", (StopAfter(4),))
    assert not stopped.is_finished
    resumed = weights(resume(stopped.path))
    for name, value in weights(whole).items():
        assert torch.equal(resumed[name], value), name
    loaded, _, _ = trained_network(whole, RUNTIME)
    assert torch.equal(loaded.whitening.weight, weights(whole)["whitening.weight"])
    assert torch.equal(loaded.whitening.weight, built(config)[0].whitening.weight)


@pytest.mark.ranks
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_two_ranks_have_the_whitening_of_one_process(config, tmp_path, parallel):
    table = config.table()
    table["train"] |= {"parallel": parallel}
    (tmp_path / "config.toml").write_text(RunConfig.of(table).toml())
    on_ranks(2, "train", "--config", tmp_path / "config.toml", "--out", tmp_path / "together")
    together = load_file(tmp_path / "together" / "model.safetensors")
    assert torch.equal(together["whitening.weight"], built(config)[0].whitening.weight)
