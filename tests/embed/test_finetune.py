"""A pretrained network that learns too: it starts where the run on its features ended; only what is asked learns."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from pencil.configure import continued, train_config
from pencil.data import Image as Shown
from pencil.embed import open_encoder
from pencil.embed.finetune import Finetuned, finetuned, last_block, trainable_encoder
from pencil.errors import ConfigError
from pencil.run import evaluate, train
from pencil.run.joining import start_network

SIDE = 16


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """A tiny vision transformer with random weights, as transformers saves one."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("vit")
    config = transformers.ViTConfig(
        image_size=SIDE,
        patch_size=8,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=3,
        num_attention_heads=2,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        transformers.ViTModel(config, add_pooling_layer=False).save_pretrained(folder)
    steps = {"size": {"height": SIDE, "width": SIDE}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(steps))
    return f"transformers:{folder}"


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    random, place = np.random.default_rng(0), tmp_path_factory.mktemp("photos")
    for split, rows in (("train", 20), ("test", 8)):
        for name, colour in (("blue", (30, 30, 180)), ("red", (180, 30, 30))):
            (place / split / name).mkdir(parents=True)
            for row in range(rows):
                pixels = np.clip(np.array(colour) + random.normal(0, 30, (SIDE, SIDE, 3)), 0, 255)
                Image.fromarray(pixels.astype(np.uint8)).save(place / split / name / f"{row}.png")
    return place


@pytest.fixture(scope="module")
def head(encoder, photos, tmp_path_factory):
    """A run on the features."""
    place = tmp_path_factory.mktemp("head")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PENCIL_CACHE", str(place / "cache"))
        config = train_config(str(photos), None, None, embed=encoder, epochs="2,6,2")
        return train(config, place / "run")


def built(encoder, layers="last"):
    return finetuned(2, (3, SIDE, SIDE), {"encoder": encoder, "layers": layers})


def test_its_features_are_those_of_the_encoder(encoder):
    model = built(encoder).eval()
    pixels = torch.randint(0, 256, (2, 3, SIDE, SIDE), dtype=torch.uint8)
    seen = []
    model.head.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model(pixels.float())
    wanted = open_encoder(encoder).encode([Shown(each) for each in pixels])
    torch.testing.assert_close(seen[0], wanted, atol=1e-5, rtol=1e-4)


def test_only_what_is_asked_learns(encoder):
    last, every = built(encoder, "last"), built(encoder, "all")
    learning = {name for name, each in last.named_parameters() if each.requires_grad}
    names = [name for name, _ in last.named_parameters()]
    begin = next(number for number, name in enumerate(names) if "layers.2." in name or "layer.2." in name)
    assert begin > 0
    assert learning == set(names[begin:])  # the last block and what follows it, with the head
    assert all(each.requires_grad for each in every.parameters())


def test_a_network_without_blocks_learns_as_a_whole():
    model = torch.nn.Linear(3, 2)
    assert last_block(model) == list(model.parameters())


def test_the_pretrained_network_stays_as_it_evaluates(encoder):
    model = built(encoder)
    model.train()
    assert model.head.training
    assert not model.network.training


def test_it_starts_where_the_head_ended_and_learns(encoder, photos, head, tmp_path):
    base = continued(str(photos), head.path, "last")
    config = train_config(str(photos), None, None, base=base)
    assert config.data.embed is None
    run = train(config, tmp_path / "tuned")
    weights, before = load_file(run.path / "model.safetensors"), load_file(head.path / "model.safetensors")
    assert not torch.equal(weights["head.1.weight"], before["1.weight"])
    torch.testing.assert_close(weights["head.1.weight"], before["1.weight"], atol=0.1, rtol=0)
    assert evaluate(run)["accuracy"] >= evaluate(head)["accuracy"]


def test_before_it_learns_it_predicts_as_the_run_before(encoder, photos, head):
    model = built(encoder)
    start_network(model, head, ("blue", "red"))
    assert isinstance(model, Finetuned)
    files = sorted((photos / "test").glob("*/*.png"))
    pixels = torch.stack([torch.from_numpy(np.array(Image.open(file))).permute(2, 0, 1) for file in files])
    right = model.eval()(pixels.float()).argmax(dim=1) == torch.tensor(
        [file.parent.name == "red" for file in files]
    )
    assert float(right.float().mean()) == pytest.approx(evaluate(head)["accuracy"])


def test_mistakes_are_named(encoder):
    with pytest.raises(ConfigError, match="layers"):
        finetuned(2, (3, SIDE, SIDE), {"encoder": encoder, "layers": "first"})
    with pytest.raises(ConfigError, match=r"set data\.size = 16"):
        finetuned(2, (3, 32, 32), {"encoder": encoder})


def test_an_encoder_that_is_no_network_for_images_is_refused(tmp_path, monkeypatch):
    (tmp_path / "lengths.py").write_text(
        "def encode(images):\n    return [[1.0]] * len(images)\n\n\nencode.size = 1\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match="cannot be trained further"):
        trainable_encoder("lengths:encode")
