"""A user's function as an encoder: ``package.module:function``."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor

from pencil.data import Image, Record, Shown, Text
from pencil.embed.encoder import Kind
from pencil.embed.preprocess import as_picture
from pencil.errors import ConfigError
from pencil.imports import import_object, users_code

FIELD = "data.embed"


@dataclass(frozen=True)
class FunctionEncoder:
    """Calls a function with a list of PIL images, strings or dictionaries; it returns features (B, D).

    ``cached`` is False for a function that reads more than it is given, such as files that the texts name.
    """

    name: str
    function: Callable[[list[Any]], Any]
    mark: str
    size: int
    takes: Kind = "images"
    cached: bool = True

    @classmethod
    def open(cls, path: str) -> FunctionEncoder:
        """Import the function.

        Its attribute ``size`` is D, ``takes`` is "images", "texts" or "records", ``cache = False`` sets ``cached``.
        """
        function = import_object(path, field=FIELD)
        size: Any = getattr(function, "size", None)
        takes: Any = getattr(function, "takes", "images")
        if not callable(function) or not isinstance(size, int) or takes not in get_args(Kind):
            raise ConfigError(
                f"{FIELD}: {path} must be a function with an attribute size, the number of features it returns "
                "(function.size = 384), and takes, which is 'images', 'texts' or 'records'"
            )
        cached = getattr(function, "cache", True) is not False  # others use this name for caches of their own
        return cls(path, function, _mark(path, function), size, takes, cached)

    def encode(self, rows: Sequence[Shown]) -> Tensor:
        """What the function returns, as float32."""
        with users_code(FIELD, self.name):
            features = torch.as_tensor(self.function([_plain(row) for row in rows])).detach().cpu().float()
        if tuple(features.shape) != (len(rows), self.size):
            raise ConfigError(
                f"{FIELD}: {self.name} returned {tuple(features.shape)} for {len(rows)} rows; it must return "
                f"({len(rows)}, {self.size})"
            )
        return features


def _plain(row: Shown) -> Any:
    """A row as users know it: a PIL image, a string or a dictionary."""
    match row:
        case Image():
            return as_picture(row)
        case Text(text):
            return text
        case Record(fields):
            return dict(fields)


def _mark(path: str, function: Callable[..., Any]) -> str:
    """A checksum of the path and of the file that the function is written in; of an object, that of its module."""
    if inspect.isroutine(function):
        source = inspect.getsourcefile(inspect.unwrap(function))
    else:  # an instance with __call__, a functools.partial
        source = getattr(sys.modules[path.partition(":")[0]], "__file__", None)
    text = Path(source).read_bytes() if source is not None else b""
    return hashlib.blake2b(path.encode() + b"\0" + text, digest_size=16).hexdigest()
