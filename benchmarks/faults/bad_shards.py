"""Tar and Parquet shards that are damaged or made to do harm, and indexes that lead elsewhere."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from faults.bad_arrays import HEADERS, npy
from faults.bad_input import Case, Expected, always

Members = list[tuple[str, bytes]]


def cases() -> Iterator[Case]:
    """All cases of shards."""
    for source in (_samples, _members, _tars, _parquet, _indexes, _index_arrays):
        yield from source()


def _png(shade: int = 0) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (9, 9), (shade, 0, 0)).save(buffer, "PNG")
    return buffer.getvalue()


GOOD: Members = [
    (f"{row}.{end}", content)
    for row in range(4)
    for end, content in (("png", _png(row * 60)), ("cls", str(row % 2).encode()))
]


def _tar(members: Members) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _shard(
    name: str, content: Callable[[], bytes], expected: Expected, tells: str, file: str = "s.tar"
) -> Case:
    def write(folder: Path) -> Path:
        (folder / file).write_bytes(content())
        return folder / file

    return Case(f"shard {name}", write, expected, tells, "shards")


def _sample(
    name: str, files: dict[str, bytes], expected: Expected, tells: str = "sample 'x'", key: str = "x"
) -> Case:
    members = [*GOOD, *((f"{key}.{end}", content) for end, content in files.items())]
    return _shard(f"sample {name}", lambda: _tar(members), expected, rf"s.tar.*{tells}")


def _samples() -> Iterator[Case]:
    png = _png()
    works = {
        "whole": {"png": png, "cls": b"1"},
        "of json": {"png": png, "json": b'{"label": 1}'},
        "in capitals": {"PNG": png, "CLS": b"1"},
        "named by a formula": {"png": png, "cls": b"1"},
        "named by an escape": {"png": png, "cls": b"1"},
    }
    keys = {"named by a formula": "=1+2", "named by an escape": "\x1b[2J"}
    for name, files in works.items():
        yield _sample(name, files, "works", key=keys.get(name, "x"))
    labels = {
        "missing": {},
        "empty": {"cls": b" "},
        "no text": {"cls": b"\xff\xfe\xfa"},
        "endless": {"cls": b"1" * (1 << 21)},
        "huge": {"cls": b"50000000"},
        "negative": {"cls": b"-1"},
        "of 5,000 digits": {"json": b'{"label": ' + b"9" * 5000 + b"}"},
        "in a deep json": {"json": b'{"label": ' + b"[" * 100_000},
        "in broken json": {"json": b'{"label": '},
        "in a json list": {"json": b"[1]"},
        "NaN in json": {"json": b'{"label": NaN}'},
        "null in json": {"json": b'{"label": null}'},
        "a list in json": {"json": b'{"label": [1]}'},
        "missing in json": {"json": b'{"class": 1}'},
    }
    for name, files in labels.items():
        tells = "label" if name in ("huge", "negative") else "sample 'x'"
        yield _sample(f"label {name}", {"png": png, **files}, "error", tells)
    inputs = {
        "missing": {},
        "twice": {"png": png, "jpg": png},
        "a pickle": {"pkl": b"cos\nsystem\n(S'true'\ntR."},
        "torch's": {"pth": b"PK"},
        "unknown": {"exe": b"MZ"},
    }
    for name, files in inputs.items():
        yield _sample(f"input {name}", {**files, "cls": b"1"}, "error")
    for name, content in (
        ("junk", b"junk"),
        ("EPS", b"%!PS-Adobe-3.0 EPSF-3.0\n"),
        ("cut", png[:40]),
        ("empty", b""),
    ):
        yield _sample(f"picture {name}", {"png": content, "cls": b"1"}, "error")
    for name, header in HEADERS.items():
        sample = [("x.npy", npy(header, bytes(40))), ("x.cls", b"1")]
        yield _shard(f"sample header {name}", partial(_tar, sample), "error", "s.tar: sample 'x'")
    for name, value in (("NaN", np.nan), ("infinity", np.inf)):
        buffer = io.BytesIO()
        np.save(buffer, np.array([1.0, value]))
        array = buffer.getvalue()
        yield _shard(
            f"sample features with {name}",
            partial(_tar, [("x.npy", array), ("x.cls", b"0"), ("y.npy", array), ("y.cls", b"1")]),
            "error",
            "s.tar, sample 'x'",
        )


def _members() -> Iterator[Case]:
    def case(name: str, file: str, **fields: Any) -> Case:
        def content() -> bytes:
            buffer = io.BytesIO(_tar(GOOD))
            with tarfile.open(fileobj=buffer, mode="a") as tar:
                member = tarfile.TarInfo(file)
                for field, value in fields.items():
                    setattr(member, field, value)
                tar.addfile(member)
            return buffer.getvalue()

        return _shard(f"member {name}", content, "error", r"s.tar: .*x.png")

    yield case("a symbolic link", "x.png", type=tarfile.SYMTYPE, linkname="/etc/hostname")
    yield case("a link", "x.png", type=tarfile.LNKTYPE, linkname="0.png")
    yield case("a link above", "x.png", type=tarfile.LNKTYPE, linkname="../../x.png")
    yield case("a pipe", "x.png", type=tarfile.FIFOTYPE)
    yield case("a device", "x.png", type=tarfile.CHRTYPE, devmajor=1, devminor=5)
    yield case("absolute", "/x.png")
    yield case("above", "../x.png")
    yield case("above below", "a/../../x.png")
    yield case("of backslashes", "\\x.png")


def _tars() -> Iterator[Case]:
    whole = _tar(GOOD)
    chained = tarfile.TarInfo("././@LongLink")
    chained.type = tarfile.GNUTYPE_LONGNAME
    pax = tarfile.TarInfo("x.png")
    pax.pax_headers = {"size": "-512"}
    damaged = bytearray(whole)
    damaged[1024 + 130] ^= 0xFF
    contents = {
        "empty": b"",
        "junk": b"junk" * 500,
        "zeros": bytes(10_240),
        "cut in a picture": whole[:700],
        "cut in a header": whole[:1100],
        "without its end": whole[: 512 * 16],
        "a zip": b"PK\3\4" + bytes(2000),
        "packed": b"\x1f\x8b\x08" + bytes(2000),
        "of headers without end": chained.tobuf(tarfile.GNU_FORMAT) * 20_000,
        "of a negative size": pax.tobuf(tarfile.PAX_FORMAT) + bytes(1024),
        "with a wrong checksum": bytes(damaged),
        "with a sample twice": _tar([*GOOD, *GOOD[:2]]),
    }
    for name, content in contents.items():
        tells = "shards hold no samples|s.tar" if name in ("empty", "zeros") else "s.tar"
        yield _shard(name, always(content), "error", tells)

    def pipe(folder: Path) -> Path:
        os.mkfifo(folder / "s.tar")
        return folder / "s.tar"

    yield Case("shard a pipe", pipe, "error", "s.tar", "shards")


def _parquet() -> Iterator[Case]:
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    def content(columns: dict[str, Any]) -> bytes:
        buffer = io.BytesIO()
        parquet.write_table(arrow.table(columns), buffer)
        return buffer.getvalue()

    def case(name: str, made: Callable[[], bytes], expected: Expected = "error") -> Case:
        return _shard(f"of Parquet {name}", made, expected, "s.parquet", "s.parquet")

    good: dict[str, Any] = {"image": [_png(row * 60) for row in range(4)], "label": [0, 1, 0, 1]}
    yield case("whole", lambda: content(good), "works")
    tables: dict[str, dict[str, Any]] = {
        "without labels": {"image": good["image"]},
        "without inputs": {"label": [0, 1]},
        "with labels of NaN": {**good, "label": [0.0, float("nan"), 1.0, 1.0]},
        "with labels of None": {**good, "label": [0, None, 1, 1]},
        "with labels of lists": {**good, "label": [[0], [1], [0], [1]]},
        "with huge labels": {**good, "label": [0, 1, 0, 50_000_000]},
        "with a picture of None": {**good, "image": [None, *good["image"][1:]]},
        "with pictures as texts": {**good, "image": ["a", "b", "c", "d"]},
        "with junk for a picture": {**good, "image": [b"junk", *good["image"][1:]]},
        "with ragged features": {"features": [[1.0], [1.0, 2.0]], "label": [0, 1]},
        "with features of texts": {"features": [["a"], ["b"]], "label": [0, 1]},
        "with features of NaN": {"features": [[1.0], [float("nan")]], "label": [0, 1]},
        "with an id twice": {**good, "id": ["a", "b", "c", "a"]},
    }
    for name, columns in tables.items():
        yield case(name, partial(content, columns))
    whole = content(good)
    raw = {
        "empty": b"",
        "junk": b"PAR1" + bytes(99) + b"PAR1",
        "cut": whole[: len(whole) // 2],
        "without its end": whole[:-4],
        "with a huge footer": whole[:-8] + b"\xff\xff\xff\x7fPAR1",
        "with zeros in it": whole[:4] + bytes(60) + whole[64:],
    }
    for name, data in raw.items():
        yield case(name, always(data))

    def bomb() -> bytes:
        rows, buffer = 3000, io.BytesIO()
        stored_once = arrow.DictionaryArray.from_arrays(np.zeros(rows, np.int32), [bytes(1 << 20)])
        table = arrow.table({"image": stored_once, "label": [0] * rows})
        parquet.write_table(table, buffer, store_schema=False, dictionary_pagesize_limit=1 << 30)
        return buffer.getvalue()

    yield case("bomb", bomb)


def _written(folder: Path) -> Path:
    """A good index, beside its shard."""
    from pencil.data import write_index

    (folder / "s.tar").write_bytes(_tar(GOOD))
    write_index({"train": [str(folder / "s.tar")]}, folder / "index")
    return folder / "index"


def _index(name: str, change: Callable[[Path], object], tells: str, expected: Expected = "error") -> Case:
    def write(folder: Path) -> Path:
        index = _written(folder)
        change(index)
        return index

    return Case(f"index {name}", write, expected, tells, "index")


def _edited(edit: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    def change(index: Path) -> None:
        table = json.loads((index / "shards.json").read_text())
        edit(table)
        (index / "shards.json").write_text(json.dumps(table))

    return change


def _overwrite(index: Path, name: str, content: bytes) -> None:
    (index / name).write_bytes(content)


def _remove(index: Path, name: str) -> None:
    (index / name).unlink()


def _update(table: dict[str, Any], values: dict[str, Any]) -> None:
    table.update(values)


def _first(**values: Any) -> Callable[[Path], object]:
    return _edited(lambda table: table["splits"]["train"][0].update(values))


def _indexes() -> Iterator[Case]:
    yield _index("whole", lambda index: None, "", "works")
    places = {
        "another folder": "/etc/hostname",
        "a folder above": "../s.tar",
        "the network": "http://169.254.169.254/latest/meta-data.tar",
        "a local server": "http://localhost:1/s.tar",
        "a file by address": "file:///etc/hostname",
        "a bucket": "s3://bucket/s.tar",
        "a chain of addresses": "zip://s.tar::http://169.254.169.254/x.zip",
        "a device": "/dev/zero",
    }
    for name, url in places.items():
        yield _index(f"that leads to {name}", _first(url=url), "shards.json: names 1 shards outside")
    for name, url in (("another file", "index/shards.json"), ("nothing", "none.tar"), ("itself", "index")):
        yield _index(f"that leads to {name}", _first(url=url), "s.tar")
    fields: dict[str, dict[str, Any]] = {
        "rows of text": {"rows": "4"},
        "negative rows": {"rows": -4},
        "huge rows": {"rows": 10**30},
        "many rows": {"rows": 2**50},
        "bytes of truth": {"bytes": True},
        "a list for an address": {"url": ["s.tar"]},
        "a zero in its address": {"url": "s\0.tar"},
        "no groups": {"groups": [None]},
        "another field": {"more": 1},
    }
    for name, values in fields.items():
        yield _index(f"with {name}", _first(**values), "shards.json|train-labels.bin")
    tables: dict[str, dict[str, Any]] = {
        "another version": {"version": 99},
        "another format": {"format": "pickle"},
        "another kind": {"kind": "code"},
        "features of objects": {"kind": "features", "dtype": "O"},
        "splits elsewhere": {"splits": {"../../x": []}},
        "no splits": {"splits": {}},
        "a list of splits": {"splits": []},
        "classes twice": {"classes": ["a", "a"]},
        "no classes": {"classes": []},
    }
    for name, values in tables.items():
        yield _index(f"with {name}", _edited(partial(_update, values=values)), "shards.json")
    texts = {
        "empty": b"",
        "deep": b"[" * 100_000,
        "deep in objects": b'{"a":' * 100_000,
        "cut": b'{"version": 1',
        "of 5,000 digits": b'{"version": ' + b"9" * 5000 + b"}",
        "no text": b"\xff\xfe\xfd",
        "null": b"null",
        "in UTF-16": '{"version": 1}'.encode("utf-16"),
    }
    for name, content in texts.items():
        yield _index(
            f"json {name}",
            partial(_overwrite, name="shards.json", content=content),
            "shards.json",
        )


def _index_arrays() -> Iterator[Case]:
    def number(array: str, value: int) -> Callable[[Path], object]:
        def change(index: Path) -> None:
            file = index / f"train-{array}.bin"
            file.write_bytes(value.to_bytes(8, "little", signed=True) + file.read_bytes()[8:])

        return change

    for array, value in (("labels", 99), ("labels", -1)):
        yield _index(f"{array} {value}", number(array, value), "train-labels.bin: row 0")
    for array, value in (
        ("offsets", 2**62),
        ("offsets", -1),
        ("offsets", 3),
        ("sizes", 2**62),
        ("sizes", -1),
        ("sizes", 1),
    ):
        yield _index(f"{array} {value}", number(array, value), "s.tar, sample '0'")
    for array in ("labels", "offsets", "sizes"):
        yield _index(
            f"{array} cut",
            partial(_overwrite, name=f"train-{array}.bin", content=b"short"),
            f"train-{array}.bin",
        )
        yield _index(
            f"{array} missing",
            partial(_remove, name=f"train-{array}.bin"),
            f"train-{array}.bin",
        )
    yield _index("keys cut", lambda index: os.truncate(index / "train-keys.bin", 0), "", "either")
    yield _index("key ends wild", number("key-ends", 2**62), "", "either")
    yield _index("shard cut", lambda index: os.truncate(index.parent / "s.tar", 700), "s.tar")
    yield _index("shard missing", lambda index: (index.parent / "s.tar").unlink(), "s.tar")
