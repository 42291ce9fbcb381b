"""Texts as hashed n-grams of words and characters: features without a pretrained network.

Topics, types of questions and other classes that depend on words are learned well from them. Nothing is fitted, so new
texts get features without the old ones.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pencil.data import Shown, as_text
from pencil.embed.encoder import Kind
from pencil.errors import DataError

WORDS = (1,)
"""How many words form an n-gram. Pairs of words cost more by collisions than they add (TREC, 20 % wrong labels)."""
CHARACTERS = (3, 4, 5)
WORD_WEIGHT = 0.5
"""The share of a row's squared length that its words have; its characters have the rest."""
Hashes = NDArray[np.uint64]
_WORD = re.compile(r"\w+|[^\w\s]")
_PRIME = np.uint64(0x100000001B3)
_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class NGrams:
    """The encoder ``ngrams``. Each n-gram adds to one of ``size`` features, with the sign of its hash.

    A count c adds 1 + log c, and every row has length 1.
    """

    size: int = 2048
    name: ClassVar[str] = "ngrams"
    takes: ClassVar[Kind] = "texts"

    @property
    def mark(self) -> str:
        """Everything that the features depend on."""
        return f"ngrams-1-{self.size}-{WORDS}-{CHARACTERS}-{WORD_WEIGHT}"

    def encode(self, rows: Sequence[Shown]) -> Tensor:
        """Features (B, D) of texts, or of records as texts."""
        features = np.zeros((len(rows), self.size), np.float32)
        for place, row in enumerate(rows):
            text = as_text(row)
            if text is None:
                raise DataError("data.embed: ngrams encodes texts, not images; choose an encoder of images")
            features[place] = self._row(text.lower())
        return torch.from_numpy(features)

    def _row(self, text: str) -> NDArray[np.float64]:
        words = self._block(word_hashes(text), WORD_WEIGHT)
        return words + self._block(character_hashes(text), 1 - WORD_WEIGHT)

    def _block(self, hashes: Hashes, weight: float) -> NDArray[np.float64]:
        """(D,) of one sort of n-grams, of squared length ``weight``."""
        grams, counts = np.unique(hashes, return_counts=True)
        signed = (1 + np.log(counts)) * np.where(grams >> np.uint64(63), 1.0, -1.0)
        places = (grams % np.uint64(self.size)).astype(np.int64)
        block = np.zeros(self.size)
        np.add.at(block, places, signed)
        block *= weight**0.5 / max(float(np.linalg.norm(block)), 1e-12)
        return block


def word_hashes(text: str) -> Hashes:
    """One number for each n-gram of words."""
    words = [zlib.crc32(word.encode("utf-8", "surrogatepass")) for word in _WORD.findall(text)]
    return _hashes(np.array(words, np.uint64), WORDS)


def character_hashes(text: str) -> Hashes:
    """One number for each n-gram of characters; white space counts as one space, also at both ends."""
    padded = f" {' '.join(text.split())} ".encode("utf-32-le", "surrogatepass")
    return _hashes(np.frombuffer(padded, np.uint32).astype(np.uint64), CHARACTERS)


def _hashes(codes: Hashes, lengths: Sequence[int]) -> Hashes:
    """Hashes of all runs of ``codes`` of these lengths."""
    found = []
    for length in lengths:
        count = len(codes) - length + 1
        run = np.full(max(0, count), length, np.uint64)
        for offset in range(length if count > 0 else 0):
            run = (run * _PRIME) ^ codes[offset : offset + count]
        run = run * _MIX
        found.append((run ^ (run >> np.uint64(29))) * _MIX)
    return np.concatenate(found)
