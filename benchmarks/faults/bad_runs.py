"""Runs and what belongs to them: changed, exchanged, led elsewhere by links, of a newer version, or nested too deep."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from faults.bad_input import Case, Expected

ROWS = 60
DEEP = "[" * 200_000
TEXTS = "\n".join(["text,label", *("yes,a", "no,b") * 5])
EMBED = ("embed", "FOLDER/t.csv", "--model", "ngrams", "--out", "FOLDER/x")
REPORT = ("report", "FOLDER/run")
VERIFY = ("audit", "FOLDER/run", "--verify", "FOLDER/certificate.json")
ANSWERS = ("audit", "FOLDER/run", "--answers", "FOLDER/sheet.csv", "--out", "FOLDER/c.json")
LINKS = {  # what in a run leads elsewhere: a command that writes there, or a folder that is read
    "labels": ("resume", "FOLDER/run", "--from-start"),
    "posterior": ("resume", "FOLDER/run", "--from-start"),
    "checkpoints": ("resume", "FOLDER/run", "--from-start"),
    "summary.json": REPORT,
    "model.json": REPORT,
    "estimates.json": REPORT,
    "audit.jsonl": ANSWERS,
}
SEALED = ("run.json", "summary.json", "estimates.json", "model.json")


def cases() -> Iterator[Case]:
    """All cases of runs."""
    for source in (_deep, _label_files, _audits, _links, _newer):
        yield from source()


@cache
def _made() -> Path:
    """A finished run with an audit, its sheet filled in, and its certificate: made once for each process."""
    place = Path(tempfile.mkdtemp(prefix="pencil-run-"))
    for name, seed in (("run", 0), ("other", 1)):
        draw = np.random.default_rng(seed)
        labels = draw.integers(0, 2, ROWS)
        values = draw.normal(size=(ROWS, 3)) + 4 * labels[:, None]
        ids = [f"r{row}" for row in range(ROWS)]
        np.savez(place / f"{name}.npz", X=values.astype("f4"), y=labels, ids=ids)
        run, sheet = place / name, place / f"{name}.csv"
        _command("train", place / f"{name}.npz", "--out", run, "--epochs", "0,1,1", "--quiet")
        _command("audit", run, "--what", "all", "--looks", "5", "--seed", "0", "--csv", sheet)
        with sheet.open(newline="", encoding="utf-8") as file:
            lines = [{**line, "answer": "a"} for line in csv.DictReader(file)]
        with sheet.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, lines[0])
            writer.writeheader()
            writer.writerows(lines)
        _command("audit", run, "--answers", sheet, "--out", place / f"{name}.json")
    return place


def _command(*words: object) -> None:
    from pencil.cli.main import cli

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        cli([str(word) for word in words], standalone_mode=False)


def _case(
    name: str,
    change: Callable[[Path], object],
    words: tuple[str, ...],
    tells: str,
    expected: Expected = "error",
) -> Case:
    """A copy of the run, changed, and a command."""

    def write(folder: Path) -> Path:
        made = _made()
        shutil.copytree(made / "run", folder / "run")
        shutil.copy(made / "run.csv", folder / "sheet.csv")
        shutil.copy(made / "run.json", folder / "certificate.json")
        change(folder)
        return folder

    return Case(f"run {name}", write, expected, tells, "command", words=words)


def _deep() -> Iterator[Case]:
    def arrow(folder: Path) -> None:
        import pyarrow as pa

        table = pa.table({"text": ["yes", "no"] * 5, "label": [0, 1] * 5})
        with pa.OSFile(str(folder / "deep.arrow"), "wb") as file:
            marked = table.replace_schema_metadata({"huggingface": DEEP})
            with pa.ipc.new_stream(file, marked.schema) as writer:
                writer.write_table(marked)

    def texts(folder: Path) -> None:
        (folder / "deep.jsonl").write_text(DEEP)

    yield _case("texts deep", texts, (*REPORT, "--texts", "FOLDER/deep.jsonl"), "deep.jsonl")
    yield _case("data deep", arrow, ("train", "FOLDER/deep.arrow", "--out", "FOLDER/new"), "deep.arrow")
    yield _case("embed.json deep", partial(_begun, text=DEEP), EMBED, "embed.json")
    yield _case("embed.json of a list", partial(_begun, text="[]"), EMBED, "embed.json")
    yield _case("embed.json of a newer version", partial(_begun, text='{"format": 99}'), EMBED, "version")


def _begun(folder: Path, text: str) -> None:
    (folder / "t.csv").write_text(TEXTS)
    (folder / "x").mkdir()
    (folder / "x/embed.json").write_text(text)


def _label_files() -> Iterator[Case]:
    values, labels = np.random.default_rng(0).normal(size=(12, 3)).astype("f4"), np.arange(12) % 2
    ids = {
        "from 1 in another order": [*range(2, 13), 1],
        "with a gap": [*range(11), 12],
        "twice": [*range(11), 10],
        "of names": [f"p{row}" for row in range(12)],
    }
    for name, column in ids.items():

        def write(folder: Path, column: list[Any] = column) -> Path:
            np.save(folder / "x.npy", values)
            lines = (f"{row},{label}" for row, label in zip(column, labels, strict=True))
            (folder / "lab.csv").write_text("\n".join(["id,label", *lines]))
            return folder

        words = ("train", "FOLDER/x.npy", "--set", "data.labels=FOLDER/lab.csv", "--out", "FOLDER/new")
        yield Case(f"label file with ids {name}", write, "error", "lab.csv", "command", words=words)


def _audits() -> Iterator[Case]:
    def sheet(folder: Path) -> None:
        shutil.copy(_made() / "other.csv", folder / "sheet.csv")

    def drawn_anew(folder: Path) -> None:
        words = ("--what", "all", "--looks", "5", "--seed", "0", "--csv", folder / "new.csv")
        _command("audit", folder / "run", "--new", *words)

    def certificate(folder: Path) -> None:
        shutil.copy(_made() / "other.json", folder / "certificate.json")

    yield _case("sheet of another run", sheet, ANSWERS, "sheet.csv")
    yield _case("sheet of an earlier audit", drawn_anew, ANSWERS, "sheet.csv")
    yield _case("certificate of another run", certificate, VERIFY, "certificate.json")


def _links() -> Iterator[Case]:
    def lead(folder: Path, name: str) -> None:
        (folder / "run" / name).rename(folder / "elsewhere")
        (folder / "run" / name).symlink_to(folder / "elsewhere")
        if "resume" in LINKS[name]:
            (folder / "run/summary.json").unlink()

    for name, words in LINKS.items():
        yield _case(f"with a link for {name}", partial(lead, name=name), words, name)


def _newer() -> Iterator[Case]:
    def seal(folder: Path, name: str) -> None:
        _replace(folder / "run" / name, b"pencil 1 ", b"pencil 99 ")

    def sheet(folder: Path) -> None:
        _replace(folder / "sheet.csv", b",1-", b",99-")

    def certificate(folder: Path) -> None:
        _replace(folder / "certificate.json", b'"pencil audit certificate ', b'"pencil audit certificate 9')

    for name in SEALED:
        yield _case(f"newer {name}", partial(seal, name=name), REPORT, "newer version")
    yield _case("newer posterior", _newer_posterior, REPORT, "newer version")
    yield _case("newer sheet", sheet, ANSWERS, "newer version")
    yield _case("newer certificate", certificate, VERIFY, "certificate.json")
    yield _case("newer cache", _newer_cache, (*EMBED_TRAIN, "--out", "FOLDER/new"), "", "works")


def _newer_posterior(folder: Path) -> None:
    for path in (folder / "run/posterior").iterdir():
        _replace(path, b"pencil 1 ", b"pencil 9 ")


EMBED_TRAIN = ("train", "FOLDER/t.csv", "--embed", "ngrams", "--set", "data.validation=0", "--quiet")


def _newer_cache(folder: Path) -> None:
    (folder / "t.csv").write_text(TEXTS)
    os.environ["PENCIL_CACHE"] = str(folder / "cache")
    _command(*(word.replace("FOLDER", str(folder)) for word in EMBED_TRAIN), "--out", folder / "first")
    for path in (folder / "cache").rglob("*.safetensors"):
        _replace(path, b"pencil 1 ", b"pencil 9 ")


def _replace(path: Path, old: bytes, new: bytes) -> None:
    content = path.read_bytes()
    assert old in content, f"{path} holds no {old!r}"
    path.write_bytes(content.replace(old, new, 1))
