"""Runs without training: a run's folder, filled with labels of our choosing."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from pencil.algorithm import cut
from pencil.config import RunConfig
from pencil.presets import preset
from pencil.results import ModelCard, save_labels, save_model
from pencil.run import RunDirectory
from pencil.stores import GivenLabels, StoreChoice

HOSTILE = ("<script>alert(1)</script>", 'a" onload="x', "b & c | d `e` _f_", "żółć \u202e\u0007", "plain")
PHASES = ("backbone", "backbone", "correction", "correction", "correction", "finetune")


def _lines(changed, **more):
    return [
        {
            "step": 10 * epoch,
            "epoch": epoch,
            "phase": phase,
            "learning_rate": 0.1,
            "loss": 1 / epoch,
            "train_agreement": 0.4 + 0.05 * epoch,
            "labels_changed": changed * (epoch > 2),
            "test_accuracy": 0.5 + 0.05 * epoch,
            "seconds": 0.25,
            **more,
        }
        for epoch, phase in enumerate(PHASES, 1)
    ]


def _make_run(
    folder: Path,
    logits: torch.Tensor,
    given: torch.Tensor,
    *,
    names=None,
    ids=None,
    store="dense",
    lines=None,
    alarms=(),
    data="nowhere.npz",
) -> Path:
    """A finished run whose label rows are these logits (N, C), whole or cut as the store keeps them."""
    rows, classes = logits.shape
    table = preset("features", str(data)).table() | {"store": store}
    directory = RunDirectory.create(folder, RunConfig.of(table))
    kept = StoreChoice.parse(store).in_memory.make(rows, classes)
    k = StoreChoice.parse(store).k
    kept.scatter(torch.arange(rows), logits if k is None or k >= classes else cut(logits, k))
    ids = [f"row-{row}" for row in range(rows)] if ids is None else ids
    save_labels(folder, torch.arange(rows), GivenLabels.of(given, classes), kept.state(), ids)
    names = tuple(f"class {index}" for index in range(classes)) if names is None else tuple(names)
    save_model(folder, {}, ModelCard(name="linear", args={}, input_shape=(4,), class_names=names))
    changed = int((logits.argmax(dim=1) != given).sum())
    lines = _lines(changed) if lines is None else lines
    directory.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
    last = {name: lines[-1][name] for name in ("epoch", "loss", "train_agreement", "test_accuracy")}
    summary = {"method": "pencil", "examples": rows, "labels_changed": changed, "last": last, "seconds": 1.5}
    directory.write_summary(summary | {"alarms": list(alarms)})
    return folder


def _random_rows(rows, classes, seed=0, scale=6.0):
    """Logits (N, C) and given classes (N,), of which some agree."""
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(rows, classes, generator=generator)
    given = torch.randint(classes, (rows,), generator=generator)
    agreeing = torch.rand(rows, generator=generator) < 0.5
    return logits, torch.where(agreeing, logits.argmax(dim=1), given)


@pytest.fixture(scope="session")
def random_rows():
    return _random_rows


@pytest.fixture(scope="session")
def make_run():
    return _make_run


@pytest.fixture(scope="session")
def make_lines():
    return _lines


@pytest.fixture(scope="session")
def hostile_run(tmp_path_factory) -> Path:
    """Five classes and 200 rows whose names and ids try to break out of the page."""
    logits, given = _random_rows(200, 5, scale=4.0)
    ids = [f"<img src=x onerror=alert({row})>\n{row}" for row in range(199)]
    ids.append(b"\xff\xfe.png".decode("utf-8", "surrogateescape"))
    return _make_run(
        tmp_path_factory.mktemp("hostile") / "a <run>",
        logits,
        given,
        names=HOSTILE,
        ids=ids,
        alarms=["<b>labels</b> may have drifted"],
    )


@pytest.fixture(scope="session")
def image_run(tmp_path_factory) -> Path:
    """Sixty tiny images in a folder per class, trained on for a few epochs."""
    image = pytest.importorskip("PIL.Image")
    from pencil.run import train

    folder, rng = tmp_path_factory.mktemp("images"), np.random.default_rng(0)
    for label, name in enumerate(("heron", "owl", "wren")):
        (folder / name).mkdir()
        for number in range(20):
            wrong = number % 4 == 0  # a quarter lies in the wrong folder
            pixels = rng.integers(60, size=(24, 24, 3)) + 90 * np.eye(3)[(label + wrong) % 3]
            image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{number}.png")
    table = preset("folder", str(folder)).table()
    table["data"] |= {"size": 24, "validation": 0.0, "augment": None}
    table["model"] = {"name": "linear"}
    table["train"] |= {"batch_size": 10, "precision": "fp32"}
    for phase, epochs in zip(table["phases"], (4, 8, 1), strict=True):
        phase |= {"epochs": epochs, "learning_rate": 0.05}
    table["method"] = {"name": "pencil", "label_rate": 4.0}
    return train(RunConfig.of(table), tmp_path_factory.mktemp("runs") / "birds").path
