"""Questions of TREC with a fifth of their labels corrupted: PENCIL beside cross entropy, on bags of words.

    PENCIL_DATA=... python examples/text_trec.py

Reads ``$PENCIL_DATA/trec/train_5500.label`` and ``TREC_10.label`` (``COARSE:fine question``). Words and pairs of
words are hashed into 2,048 features; a linear head learns six classes. Prints test accuracy and how well wrong labels
are found: for PENCIL where its label differs from the given one, for cross entropy where its prediction does.
"""

from __future__ import annotations

import os
import zlib
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pencil import CrossEntropy, PencilClassifier

Array = NDArray[Any]
FEATURES, RATE = 2048, 0.2


def questions(path: Path) -> tuple[list[str], Array]:
    """Questions and their coarse classes."""
    lines = path.read_text("latin-1").splitlines()
    return [line.split(" ", 1)[1] for line in lines], np.array([line.partition(":")[0] for line in lines])


def bag(question: str) -> Array:
    """Words and pairs of words, hashed, of length 1."""
    words = ["^", *question.lower().split()]
    features = np.zeros(FEATURES, dtype=np.float32)
    for term in (*words, *map(" ".join, pairwise(words))):
        features[zlib.crc32(term.encode()) % FEATURES] += 1
    return features / np.linalg.norm(features)


def corrupted(true: Array, seed: int = 0) -> Array:
    """A fifth of the labels replaced by another class."""
    rng = np.random.default_rng(seed)
    names, numbers = np.unique(true, return_inverse=True)
    other = (numbers + rng.integers(1, len(names), size=len(true))) % len(names)
    return names[np.where(rng.random(len(true)) < RATE, other, numbers)]


def f1(found: Array, wrong: Array) -> float:
    """Of wrong labels found."""
    return float(2 * (found & wrong).sum() / (found.sum() + wrong.sum()))


def main() -> dict[str, tuple[float, float]] | None:
    """Train both; (test accuracy, F1 of label errors) of each."""
    folder = Path(os.environ.get("PENCIL_DATA", "data")) / "trec"
    if not folder.is_dir():
        print(f"{folder} is missing; set PENCIL_DATA to the folder that holds trec/")
        return None
    (texts, true), (test_texts, test_true) = (
        questions(folder / name) for name in ("train_5500.label", "TREC_10.label")
    )
    values, test_values = (np.stack([bag(text) for text in each]) for each in (texts, test_texts))
    noisy = corrupted(true)
    results = {}
    for name, method in (("cross entropy", CrossEntropy()), ("PENCIL", None)):
        net = PencilClassifier(method=method, random_state=0).fit(values, noisy)
        believed = net.predict(values) if method else net.corrected_labels_
        results[name] = (net.score(test_values, test_true), f1(believed != noisy, noisy != true))
        print("{}: test accuracy {:.1%}, label errors F1 {:.2f}".format(name, *results[name]))
    return results


if __name__ == "__main__":
    main()
