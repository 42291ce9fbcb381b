"""Manifests and label files: encodings, dividers, headers, paths that lead elsewhere, cells of all kinds."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from faults.bad_input import Case, Expected

SETTINGS = ("kind=manifest", "size=8", "augment.crop=8")  # of images, whatever the columns look like
LINES = (("a.png", "cat"), ("b.png", "dog"), ("c.png", "cat"), ("d.png", "dog"))


def cases() -> Iterator[Case]:
    """All cases of tables."""
    for source in (
        _encodings,
        _headers,
        _paths,
        _cells,
        _parquet,
        _label_files,
        _label_arrays,
        _trusted_files,
    ):
        yield from source()


def _pictures(folder: Path) -> None:
    for number, (name, _) in enumerate(LINES):
        Image.new("RGB", (9, 9), (number * 60, 0, 0)).save(folder / name)


def _csv(
    name: str, content: bytes | str, expected: Expected, tells: str = "t.csv", *, skip: bool = False
) -> Case:
    def write(folder: Path) -> Path:
        _pictures(folder)
        (folder / "t.csv").write_bytes(content.encode() if isinstance(content, str) else content)
        return folder / "t.csv"

    settings = (*SETTINGS, "on_error=skip") if skip else SETTINGS
    return Case(f"table {name}", write, expected, tells, settings=settings)


def _text(
    header: tuple[str, ...] = ("path", "label"), divider: str = ",", end: str = "\n", lines: Any = LINES
) -> str:
    return end.join(divider.join(line) for line in (header, *lines)) + end


def _encodings() -> Iterator[Case]:
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"):
        for word, divider in (("commas", ","), ("semicolons", ";"), ("tabs", "\t")):
            yield _csv(f"in {encoding} with {word}", _text(divider=divider).encode(encoding), "works")
    for word, end in (("Windows", "\r\n"), ("old Macs", "\r"), ("blank", "\n\n")):
        yield _csv(f"with lines of {word}", _text(end=end), "works")
    yield _csv("quoted", '"path","label"\n"a.png","cat, small"\n"b.png","do""g"\n', "works")
    yield _csv("in latin-1", _text(lines=(("a.png", "Köter"), ("b.png", "x"))).encode("latin1"), "error")
    yield _csv("in bytes", bytes(range(256)) * 20, "error")
    yield _csv("of zeros", bytes(5000), "error")
    yield _csv("empty", "", "error")
    yield _csv("of a header alone", "path,label\n", "error")
    yield _csv("with an open quote", 'path,label\n"a.png,cat\n', "error")
    yield _csv("with a field of 200,000 letters", _text(lines=(("a.png", "x" * 200_000), LINES[1])), "error")
    yield _csv("with zero bytes", "path,label\na.png,c\0at\nb.png,dog\n", "either")
    yield _csv("divided by pipes", _text(divider="|"), "works")
    yield _csv("in UTF-16 cut in two", _text().encode("utf-16")[:-1], "error")


def _headers() -> Iterator[Case]:
    works = [
        ("Path", "Label"),
        ("PATH", "LABEL"),
        (" path ", "label "),
        ("filename", "class"),
        ("file_name", "category"),
    ]
    works += [("Image", "Target"), ("file", "labels"), ("image_path", "class_name"), ("img", "label")]
    for header in works:
        yield _csv(f"headed {','.join(header)}", _text(header), "works")
    wrong = [("x1", "x2"), ("text", "label"), ("path", "text"), ("", ""), ("path", "path"), ("a.png", "cat")]
    for header in wrong:
        yield _csv(f"headed {','.join(header)}", _text(header), "error")
    several = "file,image,label\na.png,b.png,cat\n"
    yield _csv("headed by two paths", several, "error", r"t.csv: .*file and image could all be the path")
    yield _csv(
        "headed by two labels", "path,class,target\na.png,x,y\n", "error", "class and target could all be"
    )
    yield _csv("headed by label and class", "path,label,class\na.png,cat,0\nb.png,dog,1\n", "works")
    yield _csv("without a header", "a.png,cat\nb.png,dog\n", "error")
    yield _csv("headed by 5,000 columns", ",".join(f"c{n}" for n in range(5000)) + "\n1\n", "error")
    yield _csv("headed by escapes", "\x1b[2J,=1+2\na,b\n", "error")


def _paths() -> Iterator[Case]:
    outside = {
        "absolute": "/etc/hostname",
        "above": "../x.png",
        "above below": "sub/../../x.png",
        "of two dots": "..",
        "absolute twice": "//etc/hostname",
        "of a device": "/dev/zero",
    }
    for name, path in outside.items():
        text = _text(lines=(*LINES, (path, "cat")))
        yield _csv(f"path {name}", text, "error", r"t.csv: .*\n  row 5, column 'path': .*is outside")
    missing = {
        "of backslashes": "\\x.png",
        "of a drive": "C:x.png",
        "of a share": "\\\\host\\x.png",
        "missing": "none.png",
        "empty": "",
        "of zeros": "a\0.png",
        "of 5,000 letters": "x" * 5000,
        "a folder": ".",
        "an address": "http://169.254.169.254/x.png",
    }
    for name, path in missing.items():
        text = _text(lines=(*LINES, (path, "cat")))
        yield _csv(f"path {name}", text, "error", r"t.csv: .*\n  row 5, column 'path'")
    yield _csv(
        "path twice",
        _text(lines=(*LINES, LINES[0])),
        "error",
        "row 5, column 'path': 'a.png' is also in row 1",
    )
    yield _csv("paths missing, skipped", _text(lines=(*LINES, ("none.png", "cat"))), "works", skip=True)

    def linked(folder: Path) -> Path:
        _pictures(folder)
        (folder / "a.png").rename(folder.parent / "far.png")
        (folder / "a.png").symlink_to(folder.parent / "far.png")
        (folder / "t.csv").write_text(_text())
        return folder / "t.csv"

    def within(folder: Path) -> Path:
        _pictures(folder)
        (folder / "t.csv").write_text(_text(lines=[(str(folder / name), label) for name, label in LINES]))
        return folder / "t.csv"

    def pipe(folder: Path) -> Path:
        os.mkfifo(folder / "t.csv")
        return folder / "t.csv"

    yield Case("table path a link out of the tree", linked, "works", settings=SETTINGS)
    yield Case("table paths absolute but within", within, "works", settings=SETTINGS)
    yield Case("table a pipe", pipe, "error", "t.csv", settings=SETTINGS)


def _cells() -> Iterator[Case]:
    labels = {
        "formula": "=1+2",
        "command": "=cmd|'/c calc'!A1",
        "escape": "\x1b]0;owned\x07\x1b[31m",
        "markup": "<img src=x onerror=alert(1)>",
        "number of 5,000 digits": "9" * 5000,
        "negative number": "-1",
        "huge number": "50000000",
        "fraction": "0.5",
        "letters": "猫",
        "None": "None",
    }
    for name, label in labels.items():
        yield _csv(f"label a {name}", _text(lines=(*LINES[:3], ("d.png", label))), "works")
    yield _csv(
        "label empty", _text(lines=(*LINES[:3], ("d.png", " "))), "error", r"row 4, column 'label': is empty"
    )
    yield _csv(
        "label nan", _text(lines=(*LINES[:3], ("d.png", "nan"))), "error", r"row 4, column 'label': is empty"
    )
    yield _csv("label empty, skipped", _text(lines=(*LINES[:3], ("d.png", ""))), "works", skip=True)
    yield _csv("row too long", _text(lines=(*LINES[:3], ("d.png", "dog", "x"))), "error", "row 4")
    yield _csv("row too short", _text(lines=(*LINES[:3], ("d.png",))), "error", "row 4")
    yield _csv("of one row", _text(lines=LINES[:1]), "works")
    yield _csv("of one class", _text(lines=[(name, "cat") for name, _ in LINES]), "works")
    for cell in ("dog", "cat:x", "cat:-1", "cat:nan", "cat:inf", ":3", "cat:1e999"):
        text = f"path,votes\na.png,cat:1\nb.png,{cell}\n"
        yield _csv(f"votes {cell}", text, "error", r"row 2, column 'votes'")
    for column, cell in (("split", "somewhere"), ("trusted", "perhaps")):
        text = f"path,label,{column}\na.png,cat,{'train' if column == 'split' else '1'}\nb.png,dog,{cell}\n"
        yield _csv(f"{column} {cell}", text, "error", f"row 2, column '{column}'")


def _parquet() -> Iterator[Case]:
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    def case(
        name: str,
        columns: dict[str, Any],
        expected: Expected,
        tells: str = "t.parquet",
        settings: tuple[str, ...] = SETTINGS,
    ) -> Case:
        def write(folder: Path) -> Path:
            _pictures(folder)
            parquet.write_table(arrow.table(columns), folder / "t.parquet")
            return folder / "t.parquet"

        return Case(f"table of Parquet {name}", write, expected, tells, settings=settings)

    def raw(name: str, content: bytes) -> Case:
        def write(folder: Path) -> Path:
            (folder / "t.parquet").write_bytes(content)
            return folder / "t.parquet"

        return Case(f"table of Parquet {name}", write, "error", "t.parquet", settings=SETTINGS)

    paths, labels = [name for name, _ in LINES], [label for _, label in LINES]
    yield case("whole", {"path": paths, "label": labels}, "works")
    yield case("with other names", {"Filename": paths, "Class": labels}, "works")
    yield case("of numbers", {"path": paths, "label": [0, 1, 0, 1]}, "works")
    yield case(
        "with a label of NaN",
        {"path": paths, "label": [0.0, 1.0, float("nan"), 1.0]},
        "error",
        "row 3, column 'label'",
    )
    yield case(
        "with a label of None",
        {"path": paths, "label": ["cat", None, "dog", "cat"]},
        "error",
        "row 2, column 'label'",
    )
    yield case(
        "with a path of None", {"path": [None, *paths[1:]], "label": labels}, "error", "row 1, column 'path'"
    )
    yield case("of pictures", {"image": [b"x"] * 4, "label": labels}, "error", r"t.parquet.*pencil index")
    yield case("of features", {"embedding": [[1.0, 2.0]] * 4, "label": labels}, "works", settings=())
    yield case("of other columns", {"a": [1], "b": [2]}, "error")
    yield case(
        "of no rows",
        {"path": arrow.array([], arrow.string()), "label": arrow.array([], arrow.string())},
        "error",
    )
    yield case("of lists of votes", {"path": paths, "votes": [[1, 2], [3, 0], [0, 1], [1, 1]]}, "works")
    yield case(
        "of ragged votes",
        {"path": paths, "votes": [[1, 2], [3], [0, 1], [1, 1]]},
        "error",
        "row 2, column 'votes'",
    )
    buffer = io.BytesIO()
    parquet.write_table(arrow.table({"path": paths, "label": labels}), buffer)
    whole = buffer.getvalue()
    yield raw("empty", b"")
    yield raw("junk", b"PAR1" + bytes(99) + b"PAR1")
    yield raw("cut", whole[: len(whole) // 2])
    yield raw("without its end", whole[:-4])
    yield raw("with a huge footer", whole[:-8] + b"\xff\xff\xff\x7fPAR1")
    damaged = bytearray(whole)
    damaged[4:40] = bytes(36)
    yield raw("with zeros in it", bytes(damaged))


def _label_file(
    name: str, file: str, content: bytes | str, expected: Expected, tells: str | None = None
) -> Case:
    def write(folder: Path) -> Path:
        (folder / file).write_bytes(content.encode() if isinstance(content, str) else content)
        return folder / file

    return Case(f"label file {name}", write, expected, file if tells is None else tells, "labels")


def _label_files() -> Iterator[Case]:
    whole = "id,label\nb,dog\na,cat\nd,dog\nc,cat\n"
    for encoding in ("utf-8-sig", "utf-16", "utf-32"):
        yield _label_file(f"in {encoding}", "y.csv", whole.encode(encoding), "works")
    for word, divider in (("semicolons", ";"), ("tabs", "\t")):
        yield _label_file(f"with {word}", "y.csv", whole.replace(",", divider), "works")
    for header in ("ID,Label", "Filename,Class", "path,target"):
        yield _label_file(f"headed {header}", "y.csv", whole.replace("id,label", header), "works")
    yield _label_file("without a header", "y.csv", "0\n1\n0\n1\n", "works")
    yield _label_file("of lines", "y.txt", "0\n1\n0\n1\n", "works")
    yield _label_file(
        "of an unknown class", "y.csv", whole.replace("d,dog", "d,emu"), "error", "y.csv, row 4"
    )
    yield _label_file(
        "of 5,000 digits", "y.csv", whole.replace("d,dog", f"d,{'9' * 5000}"), "error", "y.csv, row 4"
    )
    yield _label_file(
        "with an id twice", "y.csv", whole.replace("b,dog", "a,dog"), "error", r"y.csv: id 'a' occurs"
    )
    yield _label_file(
        "with an id too few", "y.csv", whole.replace("b,dog\n", ""), "error", "y.csv: no label for 1 of 4"
    )
    yield _label_file("with a short row", "y.csv", whole + "e\n", "error", "y.csv, row 6")
    yield _label_file("of other columns", "y.csv", "a,b\n1,2\n", "error")
    yield _label_file("empty", "y.csv", "", "error")
    yield _label_file("empty text", "y.txt", "", "error")
    for name, line in (
        ("a word", "cat"),
        ("a fraction", "0.5"),
        ("nothing", ""),
        ("too many digits", "9" * 5000),
    ):
        yield _label_file(f"of lines with {name}", "y.txt", f"0\n{line}\n0\n1\n", "error", "y.txt, row 2")
    yield _label_file("text in bytes", "y.txt", b"\xff\xfe\xfd0\n", "error")
    yield _label_file("of another kind", "y.json", "[0, 1]", "error")
    yield _label_file("torch junk", "y.pt", b"junk", "error")
    yield _label_file("torch pickle", "y.pt", b"cos\nsystem\n(S'true'\ntR.", "error")


def _label_arrays() -> Iterator[Case]:
    def array(name: str, values: Any, expected: Expected, tells: str = "y.npy") -> Case:
        buffer = io.BytesIO()
        np.save(buffer, values, allow_pickle=True)
        return _label_file(f"array {name}", "y.npy", buffer.getvalue(), expected, tells)

    yield array("whole", [0, 1, 0, 1], "works")
    yield array("in a column", [[0], [1], [0], [1]], "works")
    yield array("of floats", [0.0, 1.0, 0.0, 1.0], "works")
    for name, values in (
        ("NaN", [0, np.nan, 0, 1]),
        ("infinity", [0, np.inf, 0, 1]),
        ("halves", [0, 0.5, 0, 1]),
    ):
        yield array(f"of {name}", values, "error", r"y.npy: .*row 1")
    yield array("of texts", ["cat"] * 4, "error")
    yield array("of objects", np.array([None] * 4), "error")
    yield array("of a table", np.zeros((4, 2), int), "error")
    yield array("of too few", [0, 1], "error")
    buffer = io.BytesIO()
    torch.save({"y": torch.tensor([0.0, float("nan"), 0.0, 1.0])}, buffer)
    yield _label_file("torch NaN", "y.pt", buffer.getvalue(), "error", r"y.pt: .*row 1")


def _trusted_files() -> Iterator[Case]:
    def case(name: str, content: bytes | str, expected: Expected, tells: str = "y.csv") -> Case:
        def write(folder: Path) -> Path:
            (folder / "y.csv").write_bytes(content.encode() if isinstance(content, str) else content)
            return folder / "y.csv"

        return Case(f"trusted file {name}", write, expected, tells, "trusted")

    yield case("whole", "id,label\na,cat\n", "works")
    yield case("with semicolons", "Id;Label\na;cat\n", "works")
    yield case("in UTF-16", "id,label\na,cat\n".encode("utf-16"), "works")
    yield case("empty", "", "error")
    yield case("of other columns", "x,y\na,cat\n", "error")
    yield case("with a short row", "id,label\na\n", "error", "y.csv, row 2")
    yield case("with an id twice", "id,label\na,cat\na,dog\n", "error", "y.csv, row 3")
