"""Features and labels in arrays: wrong values, wrong shapes, headers that lie, archives that unpack without end."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from faults.bad_images import packed_zeros
from faults.bad_input import Case, Expected, always

ROWS = 12
FEATURES = np.random.default_rng(0).normal(size=(ROWS, 3)).astype(np.float32)
LABELS = np.arange(ROWS) % 2


def cases() -> Iterator[Case]:
    """All cases of arrays."""
    for source in (_labels, _features, _archives, _headers, _packed, _idx, _cifar):
        yield from source()


def _npz(name: str, expected: Expected, tells: str = "data.npz", **arrays: Any) -> Case:
    def write(folder: Path) -> Path:
        # numpy warns nobody that it pickles objects; that is what such files look like.
        np.savez(folder / "data.npz", **{"X": FEATURES, "y": LABELS, **arrays})
        return folder / "data.npz"

    return Case(f"array {name}", write, expected, tells)


def _with(value: Any, row: int = 3, kind: Any = float) -> Any:
    labels = LABELS.astype(kind)
    labels[row] = value
    return labels


def _labels() -> Iterator[Case]:
    texts = np.array(["cat", "dog"] * (ROWS // 2))
    works = {
        "of texts": texts,
        "of bytes": texts.astype("S"),
        "of truths": LABELS.astype(bool),
        "as floats": LABELS.astype(float),
        "as half floats": LABELS.astype(np.float16),
        "in a column": LABELS[:, None],
        "in a column of texts": texts[:, None],
        "from 1": LABELS + 1,
        "of 8 bits": LABELS.astype(np.uint8),
        "of 64 unsigned bits": LABELS.astype(np.uint64),
        "big-endian": LABELS.astype(">i4"),
        "soft": np.eye(2)[LABELS],
        "votes": np.eye(2, dtype=int)[LABELS] * 3 + 1,
        "of one class": np.zeros(ROWS, int),
        "with a gap": LABELS * 7,
        "of names that escape": np.array(["\x1b[31mred", "=1+2"] * (ROWS // 2)),
    }
    for name, labels in works.items():
        yield _npz(f"labels {name}", "works", y=labels)
    wrong = {
        "without a name": np.where(np.arange(ROWS) == 3, "", "dog"),
        "NaN": _with(np.nan),
        "infinite": _with(np.inf),
        "negative": _with(-1),
        "halves": _with(0.5),
        "huge": _with(50_000_000, kind=int),
        "huge floats": _with(1e300),
        "beyond the rows": _with(70_000, kind=int),
        "beyond 63 bits": _with(2**63, kind=np.uint64),
    }
    for name, labels in wrong.items():
        yield _npz(f"labels {name}", "error", r"data.npz: .*row 3", y=labels)
        yield _npz(f"test labels {name}", "error", r"data.npz: .*row 3", X_test=FEATURES, y_test=labels)
    soft = np.eye(2)[LABELS]
    for name, row in (
        ("NaN", [np.nan, 1]),
        ("negative", [-1, 2]),
        ("empty", [0, 0]),
        ("infinite", [np.inf, 1]),
    ):
        changed = soft.copy()
        changed[3] = row
        yield _npz(f"soft labels {name}", "error", r"data.npz: .*row 3", y=changed)
    shapes = {
        "too few": LABELS[:-1],
        "too many": np.zeros(ROWS + 1, int),
        "none": LABELS[:0],
        "a number": np.array(1),
        "a cube": np.zeros((ROWS, 2, 2)),
        "complex": LABELS * 1j,
        "dates": np.array(["2020-01-01"] * ROWS, "M8[D]"),
        "objects": np.array([None] * ROWS, object),
        "numbers and None": np.array([0, None] * (ROWS // 2), object),
        "structures": np.zeros(ROWS, [("a", "i4")]),
        "bytes that are no text": np.array([b"\xff\xfe", b"a"] * (ROWS // 2)),
    }
    for name, labels in shapes.items():
        yield _npz(f"labels {name}", "error", y=labels)
    for name, names in (("too few", ["a"]), ("twice", ["a", "a"]), ("a table", [["a", "b"]])):
        yield _npz(f"names {name}", "error", names=np.array(names))
    yield _npz(
        "labels none of the names", "error", r"data.npz: .*row 1", y=texts, names=np.array(["cat", "emu"])
    )
    yield _npz("one row", "works", X=FEATURES[:1], y=LABELS[:1])


def _features() -> Iterator[Case]:
    for name, value in (("NaN", np.nan), ("infinity", np.inf), ("minus infinity", -np.inf)):
        changed = FEATURES.copy()
        changed[5, 1] = value
        yield _npz(f"features with {name}", "error", r"data.npz: .*row 5", X=changed)
        yield _npz(f"test features with {name}", "error", r"data.npz: .*row 5", X_test=changed, y_test=LABELS)
        skipped = _npz(f"features with {name}, skipped", "works", X=changed)
        yield Case(skipped.name, skipped.write, "works", settings=("on_error=skip",))
    works = {
        "of whole numbers": np.arange(ROWS * 3).reshape(ROWS, 3),
        "of truths": FEATURES > 0,
        "of doubles": FEATURES.astype(float),
        "of half floats": FEATURES.astype(np.float16),
        "big-endian": FEATURES.astype(">f8"),
        "in Fortran's order": np.asfortranarray(FEATURES),
        "of one column": FEATURES[:, :1],
        "all alike": np.ones((ROWS, 3)),
        "tiny": FEATURES * np.float32(1e-38),
    }
    for name, features in works.items():
        yield _npz(f"features {name}", "works", X=features)
    wrong = {
        "of one dimension": FEATURES[:, 0],
        "of no columns": FEATURES[:, :0],
        "of no rows": FEATURES[:0],
        "a number": np.array(1.0),
        "texts": FEATURES.astype(str),
        "complex": FEATURES * 1j,
        "objects": np.array([{"a": 1}] * ROWS, object)[:, None],
        "structures": np.zeros((ROWS, 2), [("a", "f4")]),
        "too few": FEATURES[:-1],
    }
    for name, features in wrong.items():
        yield _npz(f"features {name}", "error", X=features)
    yield _npz("ids too few", "error", ids=np.array(["a"]))
    yield _npz("ids that escape", "works", ids=np.array([f"\x1b[2J={number}" for number in range(ROWS)]))
    yield _npz("ids of objects", "error", ids=np.array([None] * ROWS, object))
    for name, marks in (
        ("twos", LABELS + 1),
        ("nothing", LABELS * 0),
        ("too few", LABELS[:3]),
        ("NaN", LABELS * np.nan),
    ):
        yield _npz(f"is_train of {name}", "error", is_train=marks)
    yield _npz("test features without labels", "error", X_test=FEATURES)
    yield _npz("two of a kind", "error", r"data.npz: .*choose with", features=FEATURES)


def _file(name: str, file: str, content: Callable[[], bytes], tells: str | None = None) -> Case:
    def write(folder: Path) -> Path:
        (folder / file).write_bytes(content())
        return folder / file

    settings = ("labels=none.npy",) if file.endswith(".npy") else ()
    return Case(f"array {name}", write, "error", file if tells is None else tells, settings=settings)


def _saved(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _archives() -> Iterator[Case]:
    whole = _saved(X=FEATURES, y=LABELS)
    flipped = bytearray(whole)
    flipped[200] ^= 0xFF
    contents = {
        "empty": b"",
        "junk": b"PK\3\4" + bytes(100),
        "text": b"a,b\n1,2\n",
        "cut to half": whole[: len(whole) // 2],
        "without its end": whole[:-10],
        "with flipped bytes": bytes(flipped),
        "an array": np.lib.format.magic(1, 0) + bytes(100),
        "a pickle": pickle.dumps({"X": [1]}),
    }
    for name, content in contents.items():
        yield _file(f"archive {name}", "data.npz", always(content))
    others: dict[str, dict[str, Any]] = {
        "with other names": {"first": FEATURES, "second": LABELS},
        "without labels": {"X": FEATURES},
        "with thousands of arrays": {f"a{number}": LABELS[:1] for number in range(3000)},
    }
    for name, arrays in others.items():
        yield _file(f"archive {name}", "data.npz", partial(_saved, **arrays))

    def pipe(folder: Path) -> Path:
        os.mkfifo(folder / "data.npz")
        return folder / "data.npz"

    yield Case("array archive a pipe", pipe, "error", "data.npz")


def npy(header: str, content: bytes = b"") -> bytes:
    """An ``.npy`` file that says what it is told to say."""
    text = header.encode("latin1") + b"\n"
    return b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text + content


def _described(shape: str, kind: str = "<f4") -> str:
    return f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"


HEADERS = {
    "empty": "",
    "cut": "{'descr': '<f",
    "no Python": "{'descr': $, 'shape'",
    "unclosed": "{'descr': '<f4', 'shape': (((",
    "a call": "__import__('os').system('true')",
    "deep": "(" * 4000 + ")" * 4000,
    "of many digits": _described(f"({'9' * 5000}, 3)"),
    "without a shape": "{'descr': '<f4', 'fortran_order': False}",
    "of a negative shape": _described("(-4, 3)"),
    "of a huge shape": _described("(1000000000, 1000)"),
    "of a shape beyond numbers": _described("(99999999999999999999, 99999999999999)"),
    "of empty texts": _described("(999999999, 3)", "|S0"),
    "of objects": _described("(1, 3)", "|O"),
    "of an unknown type": _described("(1, 3)", "<q9"),
    "of a nested type": "{'descr': [('a', '(1000,1000)O')], 'fortran_order': False, 'shape': (1,)}",
    "of truths as lengths": _described("(True, 3)"),
    "of texts as lengths": _described("('4', 3)"),
}


def _headers() -> Iterator[Case]:
    for name, header in HEADERS.items():
        content = npy(header, b"\x80\4." + bytes(40))

        def packed(content: bytes = content) -> bytes:
            buffer = io.BytesIO()
            with zipfile.ZipFile(buffer, "w") as archive:
                archive.writestr("X.npy", content)
                archive.writestr("y.npy", npy(_described("(1,)", "<i8"), bytes(8)))
            return buffer.getvalue()

        if name != "of truths as lengths":
            yield _file(f"header {name}", "x.npy", always(content), "x.npy|none.npy")
        yield _file(f"header {name}, packed", "data.npz", packed)


def _bomb() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("X.npy", "w", force_zip64=True) as file:
            file.write(npy(_described("(300, 262144)")))
            for _ in range(300):
                file.write(bytes(1 << 20))
        archive.writestr("y.npy", npy(_described("(300,)", "<i8"), bytes(2400)))
    return buffer.getvalue()


def _packed() -> Iterator[Case]:
    yield _file("bomb", "data.npz", _bomb, r"data.npz, array 'X'.*would unpack")


def _idx_bytes(*shape: int, content: bytes | None = None, kind: int = 8) -> bytes:
    size = int(np.prod(shape))
    head = bytes([0, 0, kind, len(shape)]) + b"".join(length.to_bytes(4, "big") for length in shape)
    return head + (bytes(number % 2 for number in range(size)) if content is None else content)


IDX = {
    "empty": b"",
    "junk": b"no idx at all",
    "cut in its header": _idx_bytes(8, 4, 4)[:10],
    "cut": _idx_bytes(8, 4, 4)[:-5],
    "too long": _idx_bytes(8, 4, 4) + b"more",
    "of huge shape": _idx_bytes(2**32 - 1, 2**32 - 1, 2**32 - 1, content=b""),
    "of another type": _idx_bytes(8, 4, 4, kind=7),
    "of 255 dimensions": bytes([0, 0, 8, 255]) + b"\xff" * 1020,
    "of no pictures": _idx_bytes(0, 4, 4),
    "packed and cut": gzip.compress(_idx_bytes(8, 4, 4), mtime=0)[:-9],
    "packed junk": gzip.compress(b"junk", mtime=0),
    "packed and damaged": gzip.compress(_idx_bytes(8, 4, 4), mtime=0)[:12] + bytes(30),
}


def _idx() -> Iterator[Case]:
    def case(name: str, images: Callable[[], bytes], expected: Expected = "error", end: str = "") -> Case:
        def write(folder: Path) -> Path:
            (folder / f"train-images-idx3-ubyte{end}").write_bytes(images())
            (folder / "train-labels-idx1-ubyte").write_bytes(_idx_bytes(8))
            return folder

        tells = "data: 0 train images" if "no pictures" in name else "train-images-idx3-ubyte"
        return Case(f"IDX {name}", write, expected, tells)

    yield case("whole", lambda: _idx_bytes(8, 4, 4), "works")
    yield case("packed", lambda: gzip.compress(_idx_bytes(8, 4, 4), mtime=0), "works", ".gz")
    for name, content in IDX.items():
        yield case(name, always(content), end=".gz" if "packed" in name else "")
    head = b"\x1f\x8b\x08\0\0\0\0\0\2\xff"
    claimed = gzip.compress(_idx_bytes(60_000, 300, 300, content=b""), mtime=0)
    yield case("bomb of 5 GB", lambda: claimed, end=".gz")
    yield case("bomb of zeros", lambda: head + packed_zeros(162)[2:-4] + bytes(8), end=".gz")


def _cifar() -> Iterator[Case]:
    def case(name: str, content: bytes, tells: str) -> Case:
        def write(folder: Path) -> Path:
            for file in ("data_batch_1", "batches.meta"):
                (folder / file).write_bytes(content)
            return folder

        return Case(f"CIFAR {name}", write, "error", tells)

    pickles = {
        "empty": b"",
        "junk": b"junk",
        "a call": b"cos\nsystem\n(S'true'\ntR.",
        "a call by numpy": b"cnumpy.testing\nrundocs\n(tR.",
        "a list": pickle.dumps([1, 2]),
        "without names": pickle.dumps({"other": 1}),
        "of numbers as names": pickle.dumps({"label_names": 5}),
        "numbering its memo": b"\x80\x02}r\xff\xff\xff\x7f.",
        "of a huge text": b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fa.",
        "of a huge array": b"\x80\x05\x96\xff\xff\xff\xff\xff\0\0\0a.",
        "of a huge frame": b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7fa.",
        "cut": pickle.dumps({"label_names": ["a"] * 10})[:-4],
        "deep": b"(" * 100_000 + b"." * 10,
    }
    for name, content in pickles.items():
        yield case(f"pickle {name}", content, "batches.meta")

    def binary(folder: Path) -> Path:
        (folder / "data_batch_1.bin").write_bytes(bytes(3073 * 2 - 1))
        (folder / "batches.meta.txt").write_text("a\nb\n")
        return folder

    yield Case("CIFAR binary cut", binary, "error", "data_batch_1.bin")
