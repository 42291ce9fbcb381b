"""Models of transformers from folders: features equal those of the network itself, and what is refused."""

import json

import numpy as np
import pytest
import torch
from PIL import Image as Pillow

from pencil.data import Image, Record, Text
from pencil.embed import open_encoder
from pencil.errors import ConfigError

pytest.importorskip("transformers", reason="the extra transformers is not installed")
pytestmark = pytest.mark.slow

from support import towers  # noqa: E402 - imports transformers

VISION = ("dinov2", "vit", "clip", "siglip", "resnet")
TEXTS = [
    Text("the cat sat on the mat"),
    Text("a dog"),
    Text(""),
    Text("the dog ran far away on a mat unknown"),
]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Folders and models by kind."""
    made = {}
    for kind in (*VISION, "bert"):
        folder = tmp_path_factory.mktemp("models") / kind
        made[kind] = (folder, towers.save(kind, folder))
    return made


def pictures(sizes=((40, 50), (28, 28), (100, 30), (31, 77))):
    generator = np.random.default_rng(0)
    return [generator.integers(0, 256, (*size, 3), dtype=np.uint8) for size in sizes]


def rows():
    return [Image(torch.from_numpy(pixels).permute(2, 0, 1)) for pixels in pictures()]


def inputs_of(pixels, settings):
    """Preprocessing written out for one image."""
    image = Pillow.fromarray(pixels)
    if "shortest_edge" in settings["size"]:
        scale = settings["size"]["shortest_edge"] / min(image.size)
        edges = [int(edge * scale) if edge > min(image.size) else 32 for edge in image.size]
        image = image.resize(edges, settings["resample"])
        left, top = (image.width - 28) // 2, (image.height - 28) // 2
        image = image.crop((left, top, left + 28, top + 28))
    else:
        image = image.resize((28, 28), settings["resample"])
    values = np.asarray(image).astype(np.float64) / 255
    values = (values - settings["image_mean"]) / settings["image_std"]
    return torch.from_numpy(values).permute(2, 0, 1).float()[None]


def own_features(kind, model, pixels):
    """What the network itself returns for one image, pooled by hand."""
    settings = towers.SETTINGS if kind in ("dinov2", "clip") else towers.SQUARE
    values = inputs_of(pixels, settings)
    with torch.no_grad():
        if kind == "dinov2":
            return model(values).last_hidden_state[:, 0]
        if kind == "vit":
            return model.vit(values).last_hidden_state[:, 0]
        if kind == "resnet":
            return model(values).last_hidden_state.mean((2, 3))
        return model.vision_model(values).pooler_output


@pytest.mark.parametrize("kind", VISION)
def test_features_are_those_of_the_network_whatever_the_batch(models, kind):
    folder, model = models[kind]
    encoder = open_encoder(f"transformers:{folder}")
    assert (encoder.takes, encoder.size) == ("images", 24)
    found = encoder.encode(rows())
    assert found.dtype == torch.float32
    assert not found.requires_grad
    expected = torch.cat([own_features(kind, model, pixels) for pixels in pictures()])
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(
        torch.cat([encoder.encode([row]) for row in rows()]), found, atol=1e-5, rtol=1e-4
    )


def test_preprocessing_is_that_of_transformers_own_processors(models):
    pillow = pytest.importorskip(
        "transformers.models.clip.image_processing_pil_clip", reason="another transformers"
    )
    processor = pillow.CLIPImageProcessorPil(**towers.SETTINGS)
    encoder = open_encoder(f"transformers:{models['clip'][0]}")
    for pixels, row in zip(pictures(), rows(), strict=True):
        expected = processor(Pillow.fromarray(pixels), return_tensors="pt")["pixel_values"]
        torch.testing.assert_close(encoder.prepare([row])["pixel_values"], expected, atol=1e-5, rtol=1e-5)


def test_texts_are_pooled_over_their_own_tokens(models):
    folder, model = models["bert"]
    encoder = open_encoder(f"transformers:{folder}")
    assert (encoder.takes, encoder.size) == ("texts", 24)
    ids = {word: number for number, word in enumerate(towers.WORDS)}
    alone = []
    for text in TEXTS:
        tokens = [ids["[CLS]"], *(ids.get(word, 1) for word in text.text.split()), ids["[SEP]"]]
        with torch.no_grad():
            alone.append(model(torch.tensor([tokens])).last_hidden_state.mean(1))
    torch.testing.assert_close(encoder.encode(TEXTS), torch.cat(alone), atol=1e-5, rtol=1e-4)
    record, text = Record({"the": "cat"}), Text("the: cat")
    torch.testing.assert_close(encoder.encode([record]), encoder.encode([text]))


def copied(folder, to, **files):
    """The same model with further files."""
    to.mkdir()
    for file in folder.iterdir():
        (to / file.name).write_bytes(file.read_bytes())
    for name, content in files.items():
        path = to / name.replace("__", "/").replace("_json", ".json")
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content))
    return to


def test_pooling_and_length_come_from_the_models_own_files(models, tmp_path):
    folder, model = models["bert"]
    modules = [
        {"type": f"sentence_transformers.models.{name}", "path": path}
        for name, path in (("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize"))
    ]
    plain = open_encoder(f"transformers:{folder}").encode(TEXTS)
    old = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    marks = {open_encoder(f"transformers:{folder}").mark}
    for number, pooling in enumerate((old, {"pooling_mode": "cls"})):
        other = copied(folder, tmp_path / str(number), **{"1_Pooling__config_json": pooling})
        encoder = open_encoder(f"transformers:{other}")
        with torch.no_grad():
            expected = model(**encoder.prepare(TEXTS)).last_hidden_state[:, 0]
        torch.testing.assert_close(encoder.encode(TEXTS), expected, atol=1e-5, rtol=1e-4)
        marks.add(encoder.mark)
    normal = copied(folder, tmp_path / "normal", modules_json=modules)
    encoder = open_encoder(f"transformers:{normal}")
    torch.testing.assert_close(
        encoder.encode(TEXTS), torch.nn.functional.normalize(plain), atol=1e-5, rtol=1e-4
    )
    short = copied(folder, tmp_path / "short", sentence_bert_config_json={"max_seq_length": 4})
    cut = open_encoder(f"transformers:{short}").encode([Text("the cat sat on the mat")])
    whole = open_encoder(f"transformers:{folder}").encode([Text("the cat")])
    torch.testing.assert_close(cut, whole, atol=1e-5, rtol=1e-4)
    assert len(marks | {encoder.mark}) == 3  # both ways of writing CLS are the same


def test_the_mark_changes_with_weights_and_preprocessing_alone(models, tmp_path):
    folder, model = models["dinov2"]
    mark = open_encoder(f"transformers:{folder}").mark
    assert open_encoder(f"transformers:{copied(folder, tmp_path / 'same')}").mark == mark
    other = {**towers.SETTINGS, "resample": 2}
    assert (
        open_encoder(f"transformers:{copied(folder, tmp_path / 'a', preprocessor_config_json=other)}").mark
        != mark
    )
    with torch.no_grad():
        model.layernorm.bias[3] += 1e-3
        model.save_pretrained(copied(folder, tmp_path / "c"))
        model.layernorm.bias[3] -= 1e-3
    assert open_encoder(f"transformers:{tmp_path / 'c'}").mark != mark


def test_weights_that_could_run_code_are_refused(models, tmp_path):
    folder = copied(models["vit"][0], tmp_path / "pickled")
    torch.save(models["vit"][1].state_dict(), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"no \.safetensors file, and other formats can run code; convert"):
        open_encoder(f"transformers:{folder}")


def test_code_of_a_model_is_never_run(models, tmp_path):
    folder = copied(models["vit"][0], tmp_path / "coded")
    config = json.loads((folder / "config.json").read_text())
    names = {"AutoConfig": "code.Mine", "AutoModel": "code.Mine"}
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "mine", "auto_map": names}))
    (folder / "code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Mine: pass")
    with pytest.raises(ConfigError, match=r"cannot be loaded .*; check the files of the folder"):
        open_encoder(f"transformers:{folder}")
    assert not (tmp_path / "ran").exists()


def changed_config(folder, **values):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
    return folder


def test_what_cannot_be_used_is_refused_with_a_remedy(models, tmp_path):
    (tmp_path / "empty").mkdir()
    lacking = changed_config(copied(models["vit"][0], tmp_path / "lacking"), num_hidden_layers=3)
    blind = copied(models["vit"][0], tmp_path / "blind")
    (blind / "preprocessor_config.json").unlink()
    odd = copied(models["vit"][0], tmp_path / "odd", preprocessor_config_json={"size": {"longest_edge": 9}})
    dense = copied(
        models["bert"][0], tmp_path / "dense", modules_json=[{"type": "models.Dense", "path": "2"}]
    )
    largest = {"pooling_mode": "max"}
    most = copied(models["bert"][0], tmp_path / "most", **{"1_Pooling__config_json": largest})
    for place, message in (
        (tmp_path / "empty", "the folder has no config.json"),
        (tmp_path / "no" / "such", "no such folder; check the path"),
        (lacking, "its weights lack 16 parameters, such as"),
        (blind, "has no preprocessor_config.json; add the file"),
        (odd, "this preprocessing is not known"),
        (dense, "Dense is known to the package sentence-transformers alone"),
        (most, "pooling 'max' is known to the package sentence-transformers alone"),
        ("nobody/nothing", "cannot be loaded .*; check the name and the connection, or give a folder"),
    ):
        with pytest.raises(ConfigError, match=message) as error:
            open_encoder(f"transformers:{place}")
        assert "\n" not in str(error.value)
