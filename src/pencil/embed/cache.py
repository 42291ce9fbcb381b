"""Features kept on disk, by the content of each row: an example is encoded once, whatever data set it is in.

A folder belongs to one encoder. It holds parts, each with the keys and the features of some rows. A part is written
under another name and renamed, so it is complete or absent; processes that write at the same time do not disturb each
other.
"""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from pencil.durable import make_folder, replacing

SUFFIX = ".safetensors"


def cache_folder() -> Path:
    """Where features are kept: ``PENCIL_CACHE``, or the user's cache folder."""
    named = os.environ.get("PENCIL_CACHE")
    home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return (Path(named).expanduser() if named else Path(home) / "pencil") / "embeddings"


@dataclass(frozen=True)
class FeatureCache:
    """The features of one encoder.

    Attributes:
        folder: The folder of its parts.
        size: D.
    """

    folder: Path
    size: int

    @classmethod
    def of(cls, mark: str, size: int) -> FeatureCache:
        """The user's cache for the encoder with this mark."""
        return cls(cache_folder() / mark, size)

    def read(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Features (N, D) of the rows with these keys (N,), and which are there (N,); the others are 0."""
        features = torch.zeros(len(keys), self.size)
        there = torch.zeros(len(keys), dtype=torch.bool)
        for path in sorted(self.folder.glob(f"*{SUFFIX}")):
            part = self._part(path)
            if part is not None:
                places, found = _lookup(part["keys"], keys)
                features[found] = part["features"][places[found]]
                there |= found
        return features, there

    def add(self, keys: Tensor, features: Tensor) -> None:
        """Write a part: the keys (M,) and features (M, D) of some rows."""
        make_folder(self.folder)
        with replacing(self.folder / f"{uuid.uuid4().hex}{SUFFIX}") as partial:
            save_file({"keys": keys.contiguous(), "features": features.float().contiguous()}, partial)

    def _part(self, path: Path) -> dict[str, Tensor] | None:
        """A part; None if it is damaged, in which case its rows are encoded again."""
        try:
            part = load_file(path)
        except (SafetensorError, OSError):
            return None
        keys, features = part.get("keys"), part.get("features")
        fits = keys is not None and features is not None and features.shape == (len(keys), self.size)
        return part if fits and len(part["keys"]) else None


def _lookup(known: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """The place of each key (N,) among the known ones (M,), and whether it is there (N,)."""
    ordered, order = known.sort()
    places = torch.searchsorted(ordered, keys).clamp_(max=len(known) - 1)
    return order[places], ordered[places] == keys
