"""The backbone on disk: plain weights that need nothing of this package."""

import csv
import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file
from torch import nn

from pencil.cli.main import cli
from pencil.errors import RunError
from pencil.results import ModelCard, load_weights, read_card, save_model

pytestmark = pytest.mark.slow

CARD = ModelCard(
    name="mlp",
    args={"hidden": [4]},
    input_shape=(3,),
    class_names=("żółć", "b, c"),
    mean=(0.0, 1.0, 2.0),
    std=(1.0, 1.0, 1.0),
)
WITHOUT_PENCIL = """
import json, sys
sys.modules["pencil"] = None  # any import of it fails from here on
import numpy as np
import torch
from safetensors.torch import load_file

card, weights = json.load(open(sys.argv[1] + "/model.json")), load_file(sys.argv[1] + "/model.safetensors")
layer = torch.nn.Linear(card["input_shape"][0], len(card["class_names"]))
layer.load_state_dict({name.removeprefix("1."): value for name, value in weights.items()})
inputs = torch.from_numpy(np.load(sys.argv[2])["X"])
inputs = (inputs - torch.tensor(card["mean"])) / torch.tensor(card["std"])
print(json.dumps(layer(inputs).softmax(dim=1).tolist()))
"""


def test_card_and_weights_come_back(tmp_path):
    model = nn.Linear(3, 2)
    save_model(tmp_path, model.state_dict(), CARD)
    assert read_card(tmp_path) == CARD
    assert "żółć" in (tmp_path / "model.json").read_text(encoding="utf-8")
    other = nn.Linear(3, 2)
    load_weights(tmp_path, other)
    assert torch.equal(other.weight, model.weight)


def test_a_card_without_normalisation_comes_back(tmp_path):
    card = ModelCard(name="m", args={}, input_shape=(3, 8, 8), class_names=("a", "b"), crop=8)
    save_model(tmp_path, nn.Linear(1, 1).state_dict(), card)
    assert read_card(tmp_path) == card


def test_tied_and_channels_last_weights_are_saved(tmp_path):
    model = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.Linear(3, 3), "c": nn.Conv2d(2, 4, 3)})
    model["b"].weight = model["a"].weight
    model = model.to(memory_format=torch.channels_last)
    save_model(tmp_path, model.state_dict(), CARD)
    weights = load_file(tmp_path / "model.safetensors")
    assert torch.equal(weights["a.weight"], weights["b.weight"])
    assert torch.equal(weights["c.weight"], model["c"].weight)


def test_a_missing_card_or_weights_of_another_network_are_named(tmp_path):
    with pytest.raises(RunError, match=r"model.json is missing.*pencil resume"):
        read_card(tmp_path)
    save_model(tmp_path, nn.Linear(3, 2).state_dict(), CARD)
    with pytest.raises(RunError, match=r"do not fit the network that model.name builds now"):
        load_weights(tmp_path, nn.Linear(3, 5))


def test_a_plain_module_predicts_the_same_without_this_package(tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=60)
    points = (4 * np.eye(5)[labels] + rng.normal(size=(60, 5))).astype(np.float32)
    data, run, table = (str(tmp_path / name) for name in ("points.npz", "run", "predictions.csv"))
    np.savez(data, X=points, y=labels)
    for words in (
        ["train", data, "--out", run, "--epochs", "1,5,1", "--quiet"],
        ["predict", run, data, "--out", table, "--distribution"],
    ):
        CliRunner().invoke(cli, words, catch_exceptions=False)
    command = [sys.executable, "-c", WITHOUT_PENCIL, run, data]
    plain = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    with open(table, newline="") as file:  # noqa: PTH123
        told = [[float(row[f"p_{name}"]) for name in range(3)] for row in csv.DictReader(file)]
    torch.testing.assert_close(torch.tensor(plain), torch.tensor(told), atol=2e-6, rtol=0)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", 1),
        ("name", None),
        ("args", []),
        ("input_shape", None),
        ("input_shape", []),
        ("input_shape", [0]),
        ("input_shape", [3, -1]),
        ("input_shape", [1 << 20, 1 << 20]),
        ("input_shape", [1, 1, 1, 1, 1]),
        ("input_shape", [3.5]),
        ("input_shape", "3"),
        ("class_names", []),
        ("class_names", "ab"),
        ("class_names", ["a", 1]),
        ("mean", None),
        ("mean", [0.0]),
        ("mean", [0.0, 1.0, float("nan")]),
        ("std", [1.0, 1.0, 0.0]),
        ("std", "abc"),
        ("crop", 0),
        ("crop", "8"),
    ],
)
def test_a_card_that_no_run_wrote_is_one_error(tmp_path, field, value):
    save_model(tmp_path, {}, CARD)
    card = json.loads((tmp_path / "model.json").read_text())
    (tmp_path / "model.json").write_text(json.dumps(card | {field: value}))
    with pytest.raises(RunError, match=r"model\.json cannot be read \(.*write the results again"):
        read_card(tmp_path)


def test_a_card_may_lack_what_is_optional_and_say_more(tmp_path):
    card = {"name": "m", "args": {}, "input_shape": [3], "class_names": ["a"], "made_by": "a later version"}
    (tmp_path / "model.json").write_text(json.dumps(card))
    assert read_card(tmp_path) == ModelCard(name="m", args={}, input_shape=(3,), class_names=("a",))
    del card["args"]
    (tmp_path / "model.json").write_text(json.dumps(card))
    with pytest.raises(RunError, match=r"args: "):
        read_card(tmp_path)
