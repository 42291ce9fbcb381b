"""Code planted in every field of every file of a run folder, and in files of every kind that a reader takes.

Every command is given every plant. Code counts as executed when a planted module was imported, a planted pickle was
built, or a process was started. What is watched are imports, Python's audit events, and a file that the code leaves.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import pickle
import shutil
import sqlite3
import sys
import tarfile
import tempfile
import tomllib
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from click.testing import CliRunner

from faults.commands import calls, leaves
from pencil.cli.main import cli
from pencil.config.toml import to_toml

NAME, PLANTED = "planted", "PLANTED"
PATHS = (f"{NAME}:run", "os:system", "torch.hub:load")
QUICK_EVERY = 11  # of the plants in quick form, each with every command


@dataclass(frozen=True)
class Plant:
    """A change to a copy of a run folder, or a file by itself."""

    name: str
    make: Callable[[Path], None]
    file: str | None = None  # what to give to commands: this file of the folder; the folder where None


class Watch:
    """Counts what planted code would do."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace
        self.seen: list[str] = []
        self.on = False
        sys.addaudithook(self._hear)
        # importlib.import_module raises no audit event
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, *rest: Any) -> None:
        """Notes who looks for the planted module; finds nothing itself."""
        if self.on and name.partition(".")[0] == NAME:
            self.seen.append(f"import {name}")

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event in ("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "pty.spawn"):
            self.seen.append(f"{event} {args[:2]}")
        elif event == "pickle.find_class" and args[0] in (NAME, "os", "posix", "builtins", "subprocess"):
            self.seen.append(f"unpickling {args[0]}.{args[1]}")

    def found(self) -> list[str]:
        """What ran since the last time this was asked."""
        found, self.seen = self.seen, []
        if self.trace.exists():
            self.trace.unlink()
            found.append("the planted code left its trace")
        sys.modules.pop(NAME, None)
        return found


def measure(*, quick: bool) -> dict[str, int]:
    """Plants given to commands, and how many of them ran."""
    count, executed = 0, 0
    for name, words, found in attempts(every=QUICK_EVERY if quick else 1):
        count += 1
        if found:
            executed += 1
            print(f"executed: {name}: pencil {' '.join(words)}: {found}", file=sys.stderr)
    return {"code_plants": count, "code_executed": executed}


def attempts(every: int = 1, first: int = 0) -> Iterator[tuple[str, list[str], list[str]]]:
    """Each call with the name of its plant, its words, and what was executed; some of the plants only."""
    with tempfile.TemporaryDirectory(prefix="pencil-plants-") as name, _in_folder(Path(name)) as folder:
        watch = Watch(folder / "trace")
        _write_module(folder, watch.trace)
        base = _base(folder)
        for number, plant in enumerate([*run_plants(base, watch.trace), *file_plants(watch.trace)]):
            if number % every != first:
                continue
            for words in _calls(plant, base, folder):
                watch.on = True
                _call(words)
                watch.on = False
                yield plant.name, words, watch.found()


def _calls(plant: Plant, base: Path, folder: Path) -> Iterator[list[str]]:
    """Every command with a fresh copy of the plant."""
    out = folder / "out"
    for words in calls(PLANTED, base / "run", base / "points.npz", out):
        place = folder / "plant"
        shutil.rmtree(place, ignore_errors=True)
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(base / ("stopped" if words[0] == "resume" else "run"), place)
        with contextlib.suppress(FileNotFoundError):  # a file that an unfinished run does not have yet
            plant.make(place)
        target = place / (plant.file or ("config.toml" if "--config" in words or words[0] == "bench" else ""))
        yield [str(target) if word == PLANTED else word for word in words]


def _call(words: list[str]) -> None:
    """Run a command in this process; however it ends, only what it executed counts. A review is opened, not served."""
    with (
        warnings.catch_warnings(),
        mock.patch("pencil.review.server.build_app", lambda review, *rest: review),
        mock.patch("pencil.review.server.serve", lambda review, listening: review.take("somebody")),
    ):
        warnings.simplefilter("ignore")
        CliRunner().invoke(cli, words)


# the run that is planted in


def _base(folder: Path) -> Path:
    """A small run, finished and reviewed, and the same stopped half way, with what commands take besides."""
    base = folder / "base"
    base.mkdir()
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=40)
    np.savez(base / "points.npz", X=rng.normal(size=(40, 4)).astype(np.float32), y=labels)
    words = ["train", str(base / "points.npz"), "--epochs", "1,1,1", "--set", "checkpoint.steps=1", "--quiet"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = CliRunner().invoke(cli, [*words, "--noise", "symmetric:0.3", "--out", str(base / "run")])
    assert result.exit_code == 0, result.output
    _review(base / "run")
    shutil.copytree(base / "run", base / "stopped")
    for name in ("summary.json", "model.json", "model.safetensors"):
        (base / "stopped" / name).unlink()
    shutil.rmtree(base / "stopped" / "labels")
    return base


def _review(run: Path) -> None:
    from pencil.review import Review
    from pencil.run import RunDirectory

    with contextlib.closing(Review(RunDirectory.open(run), with_sure=True)) as review:
        review.take("somebody")


def _write_module(folder: Path, trace: Path) -> None:
    text = f"open({str(trace)!r}, 'w').close()\ndef run(*args, **kwargs):\n    return None\n"
    for name in (NAME, "torchvision", "timm"):  # the last two are not installed everywhere
        (folder / f"{name}.py").write_text(text)


@contextlib.contextmanager
def _in_folder(folder: Path) -> Iterator[Path]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield folder.resolve()
    finally:
        os.chdir(before)


# plants in a run folder


class _Payload:
    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.trace}",)


def run_plants(base: Path, trace: Path) -> Iterator[Plant]:
    """Every field of every text file of a run, every binary file as a pickle, and what needs several fields at once."""
    for path in sorted(file for file in (base / "run").rglob("*") if file.is_file()):
        name = str(path.relative_to(base / "run"))
        if path.suffix in (".toml", ".json", ".jsonl"):
            yield from _field_plants(path, name)
        yield Plant(f"{name} as a pickle", _replaced(name, pickle.dumps(_Payload(trace))))
    for code in PATHS:
        yield Plant(
            f"data by {code}",
            _settings({"data": {"kind": "python", "path": code, "args": {"command": f"touch {trace}"}}}),
        )
        yield Plant(f"model by {code}", _both_models({"name": code, "args": {}}))
        yield Plant(f"a pair of {code}", _both_models({"name": "pair", "args": {"name": code}}))
        yield Plant(f"encoder by {code}", _field("config.toml", ("data", "embed"), code))
        for part in ({"encoder": code}, {"encoder": "efficientnet_lite0", "head": code}):
            yield Plant(
                f"{[*part][-1]} by {code}, finetuned", _both_models({"name": "finetuned", "args": part})
            )
    for name in ("torchvision:planted", "timm:hf-hub:somebody/planted", "timm:planted"):
        yield Plant(f"model {name}", _both_models({"name": name, "args": {"weights": f"{NAME}:run"}}))


def _field_plants(path: Path, name: str) -> Iterator[Plant]:
    for place in _leaves(_read(path)):
        for code in PATHS[:1]:
            yield Plant(f"{name} {'.'.join(map(str, place))}", _field(name, place, code))


def _leaves(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value that is neither a table nor a list; of a list only the first and the last."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, (*place, key))
    elif isinstance(value, list) and value:
        for index in {0, len(value) - 1}:
            yield from _leaves(value[index], (*place, index))
    else:
        yield place


def _read(path: Path) -> Any:
    text = path.read_text()
    if path.suffix == ".toml":
        return tomllib.loads(text)
    return [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text)


def _write(path: Path, value: Any) -> None:
    if path.suffix == ".toml":
        path.write_text(to_toml(value))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(line) + "\n" for line in value))
    else:
        path.write_text(json.dumps(value))


def _field(name: str, place: tuple[Any, ...], code: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        value = copy.deepcopy(_read(folder / name))
        inner = value
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = code
        _write(folder / name, value)

    return make


def _replaced(name: str, content: bytes) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        path = folder / name
        if not path.exists():
            raise FileNotFoundError(path)
        path.write_bytes(content)
        listed = path.parent / "complete.json"
        if listed.exists() and path != listed:  # whoever writes the file can write its checksum too
            files = json.loads(listed.read_text())
            files[path.name] = [len(content), zlib.crc32(content)]
            listed.write_text(json.dumps(files))

    return make


def _settings(changes: dict[str, Any]) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        path = folder / "config.toml"
        _write(path, tomllib.loads(path.read_text()) | changes)

    return make


def _both_models(model: dict[str, Any]) -> Callable[[Path], None]:
    """In the settings, and in the card of the trained model."""

    def make(folder: Path) -> None:
        _settings({"model": model})(folder)
        card = folder / "model.json"
        if card.exists():
            _write(card, _read(card) | model)

    return make


# plants by themselves


def file_plants(trace: Path) -> Iterator[Plant]:
    """Files of every kind that some reader takes."""
    payload = pickle.dumps(_Payload(trace))
    objects = np.array([_Payload(trace)] * 4, dtype=object)
    code = f"{NAME}:run"

    def alone(name: str, write: Callable[[Path], object]) -> Plant:
        def make(folder: Path) -> None:
            write(folder / name)

        return Plant(name, make, name)

    for name in (
        "labels.pt",
        "data_batch_1",
        "features.npy",
        "features.npz",
        "table.parquet",
        "shard.tar",
        "image.png",
    ):
        yield alone(name, lambda path: path.write_bytes(payload))
    yield alone("objects.npz", lambda path: np.savez(path, X=objects, y=objects))
    yield alone("objects.npy", lambda path: np.save(path, objects))
    yield alone(
        "manifest.csv",
        lambda path: path.write_text(f"path,label,id\n{code},{code},{code}\n=cmd,os:system,x\n"),
    )
    yield alone("grid.toml", lambda path: path.write_text(_grid(code)))
    yield alone(
        "export.json", lambda path: path.write_text(json.dumps([{"annotations": [], "data": {"id": code}}]))
    )
    yield alone(
        "results.jsonl", lambda path: path.write_text(json.dumps({"data": code, "method": code}) + "\n")
    )
    yield alone("pickles.tar", lambda path: _tar(path, payload))
    yield alone("code.parquet", lambda path: _parquet(path, payload))
    yield alone("review.sqlite", _hostile_history)
    yield Plant("cifar-10-batches-py", lambda folder: _cifar(folder / "cifar", payload), "cifar")
    yield Plant("shards.json", lambda folder: _shards(folder / "index", code), "index")


def _grid(code: str) -> str:
    data = f'[[data]]\nname = "d"\ndata = {{ kind = "python", path = "{code}" }}\n'
    return (
        f'seeds = 1\n[base]\npreset = "features"\nmodel.name = "{code}"\n{data}[[method]]\nname = "pencil"\n'
    )


def _tar(path: Path, payload: bytes) -> None:
    source = path.with_name("payload.bin")
    source.write_bytes(payload)
    with tarfile.open(path, "w") as shard:
        for name in ("a.pyd", "a.pth", "a.cls", "a.npy", "../b.cls"):
            shard.add(source, name)


def _parquet(path: Path, payload: bytes) -> None:
    """A column whose type arrow once built by unpickling."""
    arrow, parquet = __import__("pyarrow"), __import__("pyarrow.parquet").parquet
    metadata = {"ARROW:extension:name": "arrow.py_extension_type", "ARROW:extension:metadata": payload}
    column = arrow.field("label", arrow.int64(), metadata=metadata)
    parquet.write_table(arrow.table({"label": arrow.array([0, 1])}, schema=arrow.schema([column])), path)


def _hostile_history(path: Path) -> None:
    path.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(path)) as history:
        history.executescript("CREATE VIEW history AS SELECT load_extension('planted') AS entry, 1 AS row;")


def _cifar(folder: Path, payload: bytes) -> None:
    inner = folder / "cifar-10-batches-py"
    inner.mkdir(parents=True)
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch", "batches.meta"):
        (inner / name).write_bytes(payload)


def _shards(folder: Path, code: str) -> None:
    folder.mkdir()
    shard = {"name": code, "url": code, "rows": 1, "bytes": 1, "crc32": 0}
    index = {"version": 1, "format": "tar", "kind": "images", "classes": [code], "splits": {"train": [shard]}}
    (folder / "shards.json").write_text(json.dumps(index))


def commands() -> list[str]:
    """The commands that are covered: all there are."""
    return [" ".join(words) for words, _ in leaves()]
