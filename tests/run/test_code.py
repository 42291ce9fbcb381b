"""Code that a run's files name is not imported unless somebody says so."""

import json
import shutil
import sys

import pytest

from pencil.embed.finetune import trainable_encoder
from pencil.errors import ConfigError, RunError
from pencil.models import named_code
from pencil.report import gather
from pencil.review import Review
from pencil.run import RunDirectory, evaluate, predict, resume, train
from support import runs

OWN = """
from pathlib import Path

import torch

from pencil.data import Examples, RowNumbers, Splits, TensorInputs
from pencil.stores import GivenLabels
from support import runs

with Path(__file__).with_name("trace").open("a") as trace:
    trace.write("imported\\n")


def data():
    values = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
    labels = GivenLabels.of(values[:, :3].argmax(dim=1), 3)
    return Splits(Examples(TensorInputs(values), labels, ("a", "b", "c"), RowNumbers(60)))


def network(num_classes, input_shape):
    return torch.nn.Linear(input_shape[0], num_classes)
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module of somebody's, which tells when it is imported."""
    (tmp_path / "somebody.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))

    def imports():
        found = (tmp_path / "trace").exists()
        (tmp_path / "trace").unlink(missing_ok=True)
        sys.modules.pop("somebody", None)
        return found

    yield imports
    sys.modules.pop("somebody", None)


@pytest.fixture
def run(own, make_config, tmp_path):
    table = make_config(epochs=(1, 6, 1)).table()
    table["data"] = {"kind": "python", "path": "somebody:data", "normalize": "none"}
    table["model"] = {"name": "somebody:network"}
    from pencil.config import RunConfig

    made = train(RunConfig.of(table), tmp_path / "run")
    assert own()
    return made


def test_nothing_is_imported_unless_it_is_trusted(run, own, points, make_config):
    data = make_config().data
    for attempt in (lambda: evaluate(run, "train"), lambda: predict(run, data)):
        with pytest.raises(
            RunError, match=r"names code to run: model.name = 'somebody:network'.*--trust-code"
        ):
            attempt()
    (run.path / "summary.json").unlink()
    with pytest.raises(RunError, match=r"data.path = 'somebody:data', model.name = 'somebody:network'"):
        resume(run.path)
    assert not own()


def test_what_is_trusted_is_imported(run, own):
    assert evaluate(run, "train", trust_code=True)["examples"] == 60
    assert own()
    named = ("somebody:data", "somebody:network")
    assert evaluate(run, "train", trust_code=named)["examples"] == 60
    with pytest.raises(RunError, match=r"names code to run: data.path = 'somebody:data';"):
        evaluate(run, "train", trust_code=named[1:])
    (run.path / "summary.json").unlink()
    assert resume(run.path, trust_code=True).is_finished


def test_report_and_review_do_without(run, own):
    told = gather(run)
    assert "names code to run: data.path = 'somebody:data'" in told.notes[0]
    review = Review(run)
    assert "names code to run" in review.trouble
    assert review.take("somebody")
    review.close()
    assert not own()


def test_the_card_counts_whatever_the_settings_say(finished, own, tmp_path):
    copied = tmp_path / "copied"
    shutil.copytree(finished.path, copied)
    card = json.loads((copied / "model.json").read_text())
    (copied / "model.json").write_text(json.dumps({**card, "name": "somebody:network"}))
    runs.reseal(copied / "model.json")
    with pytest.raises(RunError, match="names code to run"):
        evaluate(RunDirectory.open(copied), "train")
    assert not own()


@pytest.mark.parametrize(
    ("name", "args", "code"),
    [
        ("linear", {}, None),
        ("torchvision:resnet18", {}, None),
        ("timm:resnet18", {"pretrained": True, "drop_rate": 0.1}, None),
        ("torchvision:resnet18", {"weights": "DEFAULT"}, "torchvision:resnet18"),
        ("timm:resnet18", {"checkpoint_path": "x.pth"}, "timm:resnet18"),
        ("timm:resnet18", {"pretrained_cfg": {"url": "x"}}, "timm:resnet18"),
        ("timm:hf-hub:somebody/net", {}, "timm:hf-hub:somebody/net"),
        ("torch.hub:load", {}, "torch.hub:load"),
        ("pair", {"name": "mlp", "args": {"hidden": [3]}}, None),
        ("pair", {"name": "os:system"}, "os:system"),
        ("pair", {"name": "pair", "args": {"name": "os:system"}}, "os:system"),
        ("pair", {"name": "timm:x", "args": 3}, None),
        ("pair", {"name": "timm:x", "args": [["checkpoint_path", "x.pth"]]}, "timm:x"),
        ("pair", {}, None),
    ],
)
def test_what_building_a_network_would_run(name, args, code):
    assert named_code(name, args) == code


@pytest.mark.parametrize(
    "part", [{"encoder": "somebody:network"}, {"encoder": "ngrams", "head": "somebody:network"}]
)
def test_the_parts_of_a_finetuned_network_count_too(finished, own, tmp_path, part):
    copied = tmp_path / "copied"
    shutil.copytree(finished.path, copied)
    card = json.loads((copied / "model.json").read_text())
    (copied / "model.json").write_text(json.dumps({**card, "name": "finetuned", "args": part}))
    runs.reseal(copied / "model.json")
    with pytest.raises(RunError, match=r"names code to run: model\.args\.\w+ = 'somebody:network'"):
        evaluate(RunDirectory.open(copied), "train")
    assert not own()


def test_a_function_is_not_imported_to_find_that_it_cannot_be_trained_further(own):
    with pytest.raises(ConfigError, match="'somebody:network' cannot be trained further"):
        trainable_encoder("somebody:network")
    assert not own()
