"""Encoders by name."""

from __future__ import annotations

import re

from pencil.embed.encoder import Encoder
from pencil.embed.function import FunctionEncoder
from pencil.errors import ConfigError

IMPORT_PATH = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
SOURCES = ("transformers", "sentence-transformers", "timm", "torchvision", "onnx")


def open_encoder(name: str, device: str = "cpu") -> Encoder:
    """The encoder with this name, ready on a device."""
    if named_code(name) is not None:
        return FunctionEncoder.open(name)
    raise ConfigError(
        f"data.embed = {name!r} is no known encoder; write {', '.join(SOURCES)}:NAME (on {device})"
    )


def default_encoder(kind: str) -> tuple[str | None, str]:
    """The pretrained encoder to use for images or texts among those installed, and a line that names it."""
    return None, f"no pretrained encoder for {kind} is installed; install one for better labels"


def named_code(name: str) -> str | None:
    """The user's function that the name refers to; None for encoders of packages."""
    source = name.partition(":")[0]
    return name if IMPORT_PATH.fullmatch(name) and source not in SOURCES else None
