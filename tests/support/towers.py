"""Tiny models of transformers with random weights, saved to folders as published ones are."""

import json

import torch
import transformers

SMALL = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
EYES = {**SMALL, "image_size": 28, "patch_size": 7}
SETTINGS = {
    "do_resize": True,
    "size": {"shortest_edge": 32},
    "resample": 3,
    "do_center_crop": True,
    "crop_size": {"height": 28, "width": 28},
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": [0.48, 0.46, 0.41],
    "image_std": [0.27, 0.26, 0.28],
}
SQUARE = {"size": {"height": 28, "width": 28}, "resample": 2, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "the",
    "cat",
    "sat",
    "on",
    "a",
    "mat",
    "dog",
    "ran",
    "far",
    "away",
]


def _clip(kind, vision, text):
    words = {**SMALL, "vocab_size": 40, "bos_token_id": 1, "eos_token_id": 2}
    return kind(text_config={**words, **text}, vision_config={**EYES, **vision})


def save(kind, folder):
    """A model of a kind in a folder; returns the model."""
    torch.manual_seed(0)
    model, settings = {
        "dinov2": lambda: (transformers.Dinov2Model(transformers.Dinov2Config(**EYES)), SETTINGS),
        "vit": lambda: (transformers.ViTForImageClassification(transformers.ViTConfig(**EYES)), SQUARE),
        "clip": lambda: (transformers.CLIPModel(_clip(transformers.CLIPConfig, {}, {})), SETTINGS),
        "siglip": lambda: (transformers.SiglipModel(_clip(transformers.SiglipConfig, {}, {})), SQUARE),
        "resnet": lambda: (
            transformers.ResNetModel(
                transformers.ResNetConfig(
                    embedding_size=8, hidden_sizes=[8, 24], depths=[1, 1], layer_type="basic"
                )
            ),
            SQUARE,
        ),
        "bert": lambda: (
            transformers.BertModel(transformers.BertConfig(**SMALL, vocab_size=len(WORDS))),
            None,
        ),
    }[kind]()
    model.eval().save_pretrained(folder)
    if settings is None:
        _save_tokenizer(folder)
    else:
        (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    return model


def _save_tokenizer(folder):
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
