"""Features kept on disk, by the content of each row: an example is encoded once, whatever data set it is in.

A folder belongs to one encoder. It holds parts, each with the keys and the features of some rows. A part is written
under another name and renamed, so it is complete or absent; processes that write at the same time do not disturb each
other. Parts are sealed: one that was damaged, or comes from another encoder, is not used.
"""

from __future__ import annotations

import os
import shlex
import uuid
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import quote

import torch
from safetensors.torch import load_file
from torch import Tensor

from pencil.durable import make_folder
from pencil.errors import PencilError
from pencil.identity import seal_problem
from pencil.results.files import write_tensors

SUFFIX = ".safetensors"
SHOWN = 3  # files in one warning
_told: set[str] = set()


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
        for path in self._whole():
            part = self._part(path)
            if part is not None:
                places, found = _lookup(part["keys"], keys)
                features[found] = part["features"][places[found]]
                there |= found
        return features, there

    def add(self, keys: Tensor, features: Tensor) -> None:
        """Write a part: the keys (M,) and features (M, D) of some rows."""
        make_folder(self.folder)
        path = self.folder / f"{uuid.uuid4().hex}{SUFFIX}"
        write_tensors(path, {"keys": keys, "features": features.float()}, self._owner)

    @property
    def _owner(self) -> str:
        """The encoder's mark, as seals have it."""
        return quote(self.folder.name)

    def _whole(self) -> list[Path]:
        """The parts that are as they were written; a warning names the others, once."""
        problems = {path: _problem(path, self._owner) for path in sorted(self.folder.glob(f"*{SUFFIX}"))}
        bad = [str(path) for path, problem in problems.items() if problem and str(path) not in _told]
        if bad:
            _told.update(bad)
            remove = (
                f"rm {shlex.join(bad)}" if len(bad) <= SHOWN else f"rm -r {shlex.quote(str(self.folder))}"
            )
            warnings.warn(
                f"{len(bad):,} files of cached features are not used, and their rows are encoded again: first "
                f"{bad[0]}, {problems[Path(bad[0])]}; remove them: {remove}",
                stacklevel=3,
            )
        return [path for path, problem in problems.items() if problem is None]

    def _part(self, path: Path) -> dict[str, Tensor] | None:
        """A part; None if it does not fit, in which case its rows are encoded again."""
        part = load_file(path)
        keys, features = part.get("keys"), part.get("features")
        fits = keys is not None and features is not None and features.shape == (len(keys), self.size)
        return part if fits and len(part["keys"]) else None


@cache  # a part is never changed, and reading it takes time
def _problem(path: Path, owner: str) -> str | None:
    """Why a part is not used; None if it is."""
    try:
        return seal_problem(path, owner)
    except PencilError as error:
        return str(error)


def _lookup(known: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """The place of each key (N,) among the known ones (M,), and whether it is there (N,)."""
    ordered, order = known.sort()
    places = torch.searchsorted(ordered, keys).clamp_(max=len(known) - 1)
    return order[places], ordered[places] == keys
