"""Readers of settings, run folders, checkpoints and what other tools hand back, each with whole files to damage."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn

from faults import mutate
from faults.fuzz_target import RISKY, SLOW, Made, Target, file_target
from pencil.bench import Grid, compare, read_results, tabulate
from pencil.config import RunConfig, assign, parse_assignment
from pencil.engine import Checkpoints, Runtime, read_metrics
from pencil.engine.checkpoint import damage
from pencil.engine.events import JsonLines
from pencil.engine.index import read_index
from pencil.estimates import Interval, NoiseEstimate
from pencil.export.label_studio import read_choices
from pencil.presets import preset
from pencil.report import gather, page
from pencil.results import (
    POSTERIOR,
    Estimates,
    ModelCard,
    load_weights,
    read_card,
    read_decisions,
    save_labels,
    save_model,
    write_estimates,
)
from pencil.results.files import write_record
from pencil.results.review_file import SCHEMA
from pencil.run import RunDirectory, judged_labels, own_examples, prepare_examples
from pencil.run.own_data import data_fingerprint
from pencil.stores import GivenLabels

DATA = {"kind": "features", "validation": 0.0}
ENTRY = (
    "INSERT INTO history (request, round, row, id, version, action, label, undoes, reviewer, client, at, ticket) "
    "VALUES (?, 'first', ?, ?, ?, ?, ?, ?, 'Ann', 'c', 'now', ?)"
)
IDS = ["a", "b", "ż", "", "e"]
EPOCH = {
    "step": 1,
    "epoch": 1,
    "phase": "correction",
    "loss": 0.5,
    "labels_changed": 1,
    "seconds": 0.1,
    "test_accuracy": 0.5,
}


def targets() -> list[Target]:
    """All of them. Risky are those that a shared run folder is made of and that every command reads first."""
    return [
        Target("config.toml", _config, changes=(mutate.toml_text,)),
        Target("--set", _set, changes=(mutate.toml_text,)),
        Target("model.json", _card, RISKY, (mutate.json_text,)),
        Target("summary.json", _json("summary.json", lambda run: run.summary), changes=(mutate.json_text,)),
        Target("environment.json", _json("environment.json", _told_environment), SLOW, (mutate.json_text,)),
        Target("estimates.json", _json("estimates.json", _told_environment), SLOW, (mutate.json_text,)),
        Target("data.json", _fingerprint, changes=(mutate.json_text,)),
        Target("metrics.jsonl", _metrics, changes=(mutate.json_lines,)),
        Target("labels.safetensors", _labels, RISKY, (mutate.safetensors,)),
        Target("model.safetensors", _weights, changes=(mutate.safetensors,)),
        Target("review.sqlite", _review),
        Target("checkpoint index", _index, RISKY, (mutate.pickled,)),
        Target("complete.json", _complete, changes=(mutate.json_text,)),
        Target("report", _report, SLOW, changes=(mutate.json_lines,)),
        Target("Label Studio export", _choices, changes=(mutate.json_text,)),
        Target("grid.toml", _grid, changes=(mutate.toml_text,)),
        Target("results.jsonl", _results, changes=(mutate.json_lines,)),
    ]


def _without_id(run: RunDirectory) -> RunDirectory:
    """The run as those from before were, whose files have no seals: changes get past them, to the readers."""
    environment = run.environment
    (run.path / "run.json").unlink()
    write_record(run.path / "environment.json", environment)
    return run


def _run(folder: Path, store: str = "dense") -> RunDirectory:
    """A finished run of five rows and three classes, without training."""
    table = preset("features", "nowhere.npz").table() | {"store": store}
    run = _without_id(RunDirectory.create(folder / "run", RunConfig.of(table)))
    logits = torch.arange(15.0).view(5, 3).sin() * 4
    save_labels(
        run.path, torch.arange(5), GivenLabels.of(torch.tensor([0, 1, 2, 1, 0])), {"values": logits}, IDS
    )
    rows = {"values": logits.softmax(dim=1)}
    save_labels(
        run.path, torch.arange(5), GivenLabels.of(torch.tensor([0, 1, 2, 1, 0])), rows, IDS, name=POSTERIOR
    )
    rate = Interval(0.2, 0.1, 0.3)
    shares = torch.full((3, 3), 0.3)
    noise = NoiseEstimate(rate, shares, shares, shares, shares, rate)
    write_estimates(run.path, Estimates.of(noise, "inputs", "dense"))
    card = ModelCard(
        name="linear", args={}, input_shape=(4,), class_names=("x", "y", "z"), mean=(0.0,) * 4, std=(1.0,) * 4
    )
    save_model(run.path, nn.Sequential(nn.Flatten(), nn.Linear(4, 3)).state_dict(), card)
    run.metrics.write_text("".join(json.dumps(EPOCH | {"epoch": number}) + "\n" for number in (1, 2)))
    last = {"epoch": 2, "loss": 0.5, "test_accuracy": 0.5}
    run.write_summary(
        {"method": "pencil", "examples": 5, "labels_changed": 1, "last": last, "seconds": 1.5, "alarms": []}
    )
    return run


def _config(folder: Path) -> Made:
    seeds = [preset(name, "x").toml().encode() for name in ("features", "cifar10", "shards") if _has(name)]
    path = folder / "config.toml"
    return seeds, file_target(path, lambda path: RunConfig.read(path).toml())


def _has(name: str) -> bool:
    from pencil.presets import PRESETS

    return name in PRESETS


def _set(folder: Path) -> Made:
    def read(content: bytes) -> None:
        table = preset("features", "x.npz").table()
        assign(table, *parse_assignment(content.decode("utf-8", "surrogateescape")))
        RunConfig.of(table)

    seeds = (
        *(
            "seed=7",
            "method.label_rate={kind='piecewise', values=[2.0, 1.0], boundaries=[5]}",
            "phases.1.epochs=9",
        ),
        *(
            "model.args.hidden=[64, 32]",
            "data.noise={kind='symmetric', rate=0.4}",
            "phases.correction.epochs=3",
        ),
    )
    return [seed.encode() for seed in seeds], read


def _card(folder: Path) -> Made:
    run = _run(folder)
    seed = (run.path / "model.json").read_bytes()
    return [seed], file_target(run.path / "model.json", lambda path: read_card(path.parent))


def _json(name: str, read: Callable[[RunDirectory], object]) -> Callable[[Path], Made]:
    def make(folder: Path) -> Made:
        run = _run(folder)
        return [(run.path / name).read_bytes()], file_target(run.path / name, lambda _: read(run))

    return make


def _told_environment(run: RunDirectory) -> str:
    return gather(run, read_data=False).command


def _fingerprint(folder: Path) -> Made:
    np.savez(folder / "data.npz", X=np.eye(4, dtype="f4"), y=np.array([0, 1, 2, 1]))
    config = RunConfig.of(
        preset("features", str(folder / "data.npz")).table()
        | {"data": DATA | {"path": str(folder / "data.npz")}}
    )
    seed = data_fingerprint(prepare_examples(config.data, config.seed))
    run = _without_id(RunDirectory.create(folder / "run", config, seed))
    return [json.dumps(seed).encode()], file_target(run.path / "data.json", lambda _: own_examples(run))


def _metrics(folder: Path) -> Made:
    run = _run(folder)

    def read(path: Path) -> None:
        read_metrics(path)
        JsonLines(path, resume_at=1).close()

    return [run.metrics.read_bytes()], file_target(run.metrics, read)


def _labels(folder: Path) -> Made:
    run = _run(folder)
    (part,) = run.labels.glob("*.safetensors")

    def read(_: Path) -> None:
        chunks, _names = judged_labels(run)
        for _chunk in chunks:
            pass

    return [part.read_bytes()], file_target(part, read)


def _weights(folder: Path) -> Made:
    run = _run(folder)
    file = run.path / "model.safetensors"
    network = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    return [file.read_bytes()], file_target(file, lambda path: load_weights(path.parent, network))


def _review(folder: Path) -> Made:
    run = _run(folder)
    file = run.path / "review.sqlite"
    seeds = []
    for extra in (
        "",
        "DROP TABLE history; CREATE VIEW history AS SELECT 1 AS entry",
        "CREATE TABLE more (x)",
    ):
        made = sqlite3.connect(file)
        made.executescript(SCHEMA)
        rows = [
            (1, 1, b"b", 1, "changed", 2, None),
            (2, 3, b"", 1, "dropped", None, None),
            (3, 1, b"b", 2, "undone", None, 1),
        ]
        for number, values in enumerate(rows):
            made.execute(ENTRY, (*values, str(number)))
        made.executescript(extra)
        made.commit()
        made.close()
        seeds.append(file.read_bytes())
        file.unlink()

    def read(path: Path) -> None:
        for leftover in path.parent.glob("review.sqlite-*"):
            leftover.unlink()
        list(read_decisions(path.parent, num_classes=3))
        for _chunk in judged_labels(run)[0]:
            pass

    return seeds, file_target(file, read)


def _index(folder: Path) -> Made:
    checkpoints = Checkpoints(folder, Runtime(device=torch.device("cpu")))
    saved = checkpoints.save(3, {"model.a": torch.ones(3, 2), "progress": torch.zeros(5, dtype=torch.uint8)})
    return [(saved / ".metadata").read_bytes()], file_target(
        saved / ".metadata", lambda path: read_index(path.parent)
    )


def _complete(folder: Path) -> Made:
    checkpoints = Checkpoints(folder, Runtime(device=torch.device("cpu")))
    saved = checkpoints.save(3, {"model.a": torch.ones(3, 2)})
    return [(saved / "complete.json").read_bytes()], file_target(
        saved / "complete.json", lambda path: damage(path.parent)
    )


def _report(folder: Path) -> Made:
    run = _run(folder)
    return [run.metrics.read_bytes()], file_target(run.metrics, lambda _: page(gather(run, read_data=False)))


def _choices(folder: Path) -> Made:
    result = {"type": "choices", "from_name": "label", "value": {"choices": ["x"]}}
    tasks = [
        {"data": {"pencil_id": name}, "annotations": [{"result": [result], "was_cancelled": False}]}
        for name in "ab"
    ]
    return [json.dumps(tasks).encode()], file_target(folder / "export.json", read_choices)


def _grid(folder: Path) -> Made:
    seed = b"""seeds = 2
validation = 0.1
ceilings = true
[base]
preset = "features"
[[data]]
name = "a"
data.path = "x.npz"
[[noise]]
name = "n"
data.noise = { kind = "symmetric", rate = 0.4 }
[[method]]
name = "pencil"
[[variant]]
name = "slow"
methods = ["pencil"]
method.label_rate = 0.1
"""
    return [seed], file_target(folder / "grid.toml", Grid.read)


def _results(folder: Path) -> Made:
    cell = {
        "data": "a",
        "noise": "n",
        "method": "pencil",
        "variant": "default",
        "seed": 0,
        "test_last": 0.5,
        "test_best": 0.6,
    }
    seed = "".join(json.dumps(cell | {"seed": seed}) + "\n" for seed in (0, 1)).encode()

    def read(path: Path) -> None:
        lines = read_results(path)
        tabulate(lines)
        compare(lines, "pencil")

    return [seed], file_target(folder / "results.jsonl", read)
