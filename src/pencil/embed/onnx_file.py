"""ONNX files as encoders of images, through onnxruntime."""

from __future__ import annotations

import hashlib
import mmap
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pencil.data import Image, Shown
from pencil.embed.encoder import Kind
from pencil.embed.network import EXAMPLES
from pencil.embed.preprocess import Preprocessing
from pencil.errors import ConfigError
from pencil.imports import need
from pencil.reading import is_file, read_json

LOCATION = re.compile(rb"\x0a\x08location\x12")
"""The bytes before the name of a file of weights: field 1 is "location", and field 2 follows."""


@dataclass
class OnnxEncoder:
    """A session of onnxruntime with one input, images (B, 3, H, W), and its first output as features."""

    name: str
    mark: str
    session: Any
    steps: Preprocessing
    batch: int | None
    size: int = 0
    takes: Kind = "images"

    def encode(self, rows: Sequence[Shown]) -> Tensor:
        """Features (B, D); a graph made for B rows gets them B at a time, the last ones filled up with zeros."""
        images = self.steps.batch([row for row in rows if isinstance(row, Image)])
        return torch.cat([self._run(part) for part in images.split(self.batch or len(images))])

    def _run(self, images: Tensor) -> Tensor:
        entry = self.session.get_inputs()[0]
        missing = (self.batch or len(images)) - len(images)
        values = torch.cat([images, images.new_zeros(missing, *images.shape[1:])]).numpy()
        if entry.type == "tensor(float16)":
            values = values.astype(np.float16)
        found = torch.from_numpy(self.session.run(None, {entry.name: values})[0]).float()[: len(images)]
        if found.dim() == 4:
            found = found.mean(dim=(2, 3))
        if found.dim() != 2:
            raise ConfigError(
                f"embedding model {self.name!r}: its first output has shape {tuple(found.shape)}, not (B, D); export "
                "the pooled features"
            )
        return found


def open_onnx(name: str, device: str = "cpu") -> OnnxEncoder:
    """``onnx:FILE``. Preprocessing from FILE with the ending .json, in the words of ``preprocessor_config.json``.

    Without that file images are resized to the graph's own size and normalised as for ImageNet.
    """
    path = Path(name.partition(":")[2]).expanduser()
    if not path.is_file():
        raise ConfigError(f"embedding model {name!r}: no such file; give onnx:FILE")
    session = _session(name, path, device)
    shape = _image_shape(name, session)
    steps = _steps(name, path, shape)
    size = shape[0] if isinstance(shape[0], int) else None
    found = OnnxEncoder(name, _mark(path, steps), session, steps, size)
    found.size = found.encode([EXAMPLES["images"]]).shape[1]
    return found


def _session(name: str, path: Path, device: str) -> Any:
    runtime: Any = need("onnxruntime", extra="onnx", purpose="embed with onnx:FILE")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    wanted = (
        ["CPUExecutionProvider"] if device == "cpu" else ["CUDAExecutionProvider", "CPUExecutionProvider"]
    )
    try:
        return runtime.InferenceSession(str(path), options, providers=wanted)
    except Exception as error:  # onnxruntime's errors have no common class
        reason = " ".join(str(error).split())[:300]
        raise ConfigError(
            f"embedding model {name!r} cannot be loaded by onnxruntime ({reason}); export it again"
        ) from error


def _image_shape(name: str, session: Any) -> list[Any]:
    """The shape (B, 3, H, W) of the only input; sizes that are not fixed are names or None."""
    inputs = session.get_inputs()
    shape = list(inputs[0].shape)
    if len(inputs) != 1 or len(shape) != 4 or shape[1] != 3:
        found = ", ".join(f"{entry.name} {entry.shape}" for entry in inputs)
        raise ConfigError(
            f"embedding model {name!r} takes {found}; it must have one input of images (B, 3, H, W). For texts use "
            "transformers:FOLDER"
        )
    return shape


def _steps(name: str, path: Path, shape: Sequence[Any]) -> Preprocessing:
    settings = path.with_suffix(".json")
    if settings.is_file():
        return Preprocessing.of(read_json(settings, error=ConfigError), settings)
    height, width = shape[2:]
    if not isinstance(height, int) or not isinstance(width, int):
        raise ConfigError(
            f'embedding model {name!r} has no fixed size of images; write {settings.name} beside it: {{"size": 224}}'
        )
    return Preprocessing((height, width))


def _mark(path: Path, steps: Preprocessing) -> str:
    checksum = hashlib.blake2b(str(steps).encode(), digest_size=16)
    for file in (path, *sorted(_weight_files(path))):
        with file.open("rb") as opened:
            checksum.update(hashlib.file_digest(opened, "blake2b").digest())
    return checksum.hexdigest()


def _weight_files(path: Path) -> set[Path]:
    """The files beside a graph that it names as the location of its weights; onnxruntime has no way to ask for them."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as graph:
        named = {_text_at(graph, found.end()) for found in LOCATION.finditer(graph)}
    found = (path.parent / name for name in named)
    return {file for file in found if is_file(file)}


def _text_at(graph: mmap.mmap, place: int) -> str:
    """The text of a protobuf field, after its length: seven bits in each byte, the lowest first."""
    length, shift = 0, 0
    while (byte := graph[place]) & 0x80 and shift < 14:
        length, shift, place = length | (byte & 0x7F) << shift, shift + 7, place + 1
    length, place = length | byte << shift, place + 1
    return graph[place : place + length].decode("utf-8", "replace")
