"""Finished runs made without training: a run's folder, filled with labels of our choosing."""

import json
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from pencil.algorithm import TopRows, cut
from pencil.config import RunConfig
from pencil.data.pixels import encode_png
from pencil.engine import fitting_method
from pencil.estimates import Alarm, Interval, NoiseEstimate
from pencil.identity import seal_file, seal_of
from pencil.presets import preset
from pencil.results import (
    POSTERIOR,
    Estimates,
    ModelCard,
    alarm_record,
    save_labels,
    save_model,
    write_estimates,
)
from pencil.run import RunDirectory
from pencil.stores import GivenLabels, StoreChoice

PHASES = ("backbone", "backbone", "correction", "correction", "correction", "finetune")


def write_run(folder: Path, table, given: GivenLabels, kept, ids, names, **model) -> RunDirectory:
    """A run directory as ``pencil train`` leaves it, but for metrics and summary."""
    directory = RunDirectory.create(folder, RunConfig.of(table))
    save_labels(folder, torch.arange(len(ids)), given, kept, ids)
    write_posterior(directory, given, kept, ids)
    card = ModelCard(
        **{"name": "linear", "args": {}, "input_shape": (5,), "class_names": tuple(names)} | model
    )
    save_model(folder, {"weight": torch.zeros(1)}, card)
    return directory


def write_posterior(directory: RunDirectory, given: GivenLabels, kept, ids) -> None:
    """The posterior and estimates of a run: what PENCIL's rows say, taken for calibrated."""
    config, classes = directory.config, given.num_classes
    choice, store = StoreChoice.parse(config.store).in_memory, {}
    for name in ("read", "written"):
        store[name] = choice.make(len(ids), classes)
    for name, value in store["read"].state().items():
        value.copy_(kept[name])
    method = fitting_method(config.method, choice, classes)
    everything = torch.arange(len(ids))
    belief = method.label_distribution(store["read"].gather(everything), given.values, classes)
    store["written"].scatter(everything, belief)
    save_labels(directory.path, everything, given, store["written"].state(), ids, name=POSTERIOR)
    write_estimates(directory.path, estimates_of(belief, given.hard, str(choice)))


def estimates_of(belief, given: torch.Tensor, store="dense", alarms=()) -> Estimates:
    """Estimates that suit a posterior (N, C), whole or cut."""
    whole = belief.dense() if isinstance(belief, TopRows) else belief
    classes = whole.shape[1]
    joint = torch.zeros(classes, classes).index_add_(1, given, whole.T.contiguous()) + 1e-9
    matrix = joint / joint.sum(1, keepdim=True)
    rate = float((1 - whole.gather(1, given[:, None])).mean())
    error = float((1 - whole.amax(1)).mean())
    wrong = 1 - joint.diagonal() / joint.sum(0)
    noise = NoiseEstimate(
        _interval(rate),
        torch.stack([wrong, (wrong - 0.05).clamp_min(0), (wrong + 0.05).clamp_max(1)], dim=1),
        matrix,
        (matrix - 0.05).clamp_min(0),
        (matrix + 0.05).clamp_max(1),
        _interval(error),
        alarms,
    )
    return Estimates.of(noise, "inputs", store)


def _interval(value: float) -> Interval:
    return Interval(value, max(0.0, value - 0.05), min(1.0, value + 0.05))


def make_lines(changed, **more):
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


def run_of_logits(
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
    kept, k = StoreChoice.parse(store).in_memory.make(rows, classes), StoreChoice.parse(store).k
    kept.scatter(torch.arange(rows), logits if k is None or k >= classes else cut(logits, k))
    ids = [f"row-{row}" for row in range(rows)] if ids is None else ids
    names = [f"class {index}" for index in range(classes)] if names is None else names
    table = preset("features", str(data)).table() | {"store": store}
    directory = write_run(folder, table, GivenLabels.of(given, classes), kept.state(), ids, names)
    changed = int((logits.argmax(dim=1) != given).sum())
    lines = make_lines(changed) if lines is None else lines
    directory.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
    last = {name: lines[-1][name] for name in ("epoch", "loss", "train_agreement", "test_accuracy")}
    summary = {"method": "pencil", "examples": rows, "labels_changed": changed, "last": last, "seconds": 1.5}
    records = [alarm_record(Alarm("drift", words, "use better features")) for words in alarms]
    directory.write_summary(summary | {"alarms": records})
    return folder


def random_rows(rows, classes, seed=0, scale=6.0):
    """Logits (N, C) and given classes (N,), of which some agree."""
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(rows, classes, generator=generator)
    given = torch.randint(classes, (rows,), generator=generator)
    agreeing = torch.rand(rows, generator=generator) < 0.5
    return logits, torch.where(agreeing, logits.argmax(dim=1), given)


def run_to_review(
    folder: Path,
    rows=60,
    classes=4,
    *,
    images=True,
    kept=None,
    store="dense",
    trusted=None,
    names=None,
    ids=None,
) -> Path:
    """A finished run on images or features that are there to look at, its labels of every degree of doubt."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    labels = rng.integers(classes, size=rows)
    names = names or [f"class {number}" for number in range(classes)]
    ids = ids or [f"row {number}" for number in range(rows)]
    if images:
        table = preset("folder", str(folder)).table()
        table["data"] = {"kind": "manifest", "path": str(_write_images(folder, ids, labels, names))}
    else:
        values = rng.normal(size=(rows, 5)).astype(np.float32)
        np.savez(folder / "points.npz", X=values, y=labels, names=np.array(names), ids=np.array(ids))
        table = preset("features", str(folder / "points.npz")).table()
    table["store"] = store
    given = GivenLabels.of(torch.from_numpy(labels), classes, trusted)
    kept = kept or {"values": _beliefs(labels, classes)}
    run = write_run(folder / "run", table, given, kept, ids, names)
    run.write_summary({"examples": rows})
    return run.path


def make_surer(run: Path) -> None:
    """Give each given label most of the probability, as if the run had been trained again."""
    for part in (run / POSTERIOR).glob("*.safetensors"):
        with safe_open(part, framework="pt") as file:
            metadata = file.metadata()
        tensors = load_file(part)
        classes = tensors["rows/values"].shape[1]
        sure = torch.nn.functional.one_hot(tensors["given"], classes)
        tensors["rows/values"] = (0.1 * tensors["rows/values"] + 0.9 * sure).to(tensors["rows/values"].dtype)
        save_file(tensors, part, metadata)
        reseal(part)


def as_before(run: Path) -> None:
    """Make a run what it was before runs had ids and seals."""
    (run / "run.json").unlink()
    for file in [*run.glob("*.json"), *run.glob("*/*.safetensors"), *run.glob("*.safetensors")]:
        if file.suffix == ".json":
            values = json.loads(file.read_text())
            del values["seal"]
            for split in ("train", "validation", "test"):
                if file.name == "data.json" and split in values:
                    values[split] = {name: values[split][name] for name in ("rows", "classes", "labels")}
            file.write_text(json.dumps(values))
        else:
            save_file(load_file(file), file)


def reseal(path: Path) -> None:
    """Put the right checksum into a sealed file that a test has changed."""
    seal = seal_of(path)
    with path.open("r+b") as file:
        file.seek(seal.place)
        file.write(b"0" * len(seal.checksum))
    seal_file(path)


def _beliefs(labels, classes, seed=0):
    """Label logits (N, C) of every degree of doubt; every fifth given label is surely right."""
    generator = torch.Generator().manual_seed(seed)
    scale = 8 * torch.rand(len(labels), 1, generator=generator)
    logits = scale * torch.rand(len(labels), classes, generator=generator)
    logits[range(0, len(labels), 5), labels[::5]] += 12
    return logits


def _write_images(folder: Path, ids, labels, names) -> Path:
    """Small images named by their ids, and a manifest of them."""
    generator = torch.Generator().manual_seed(0)
    lines = ["path,label"]
    for name, label in zip(ids, labels, strict=True):
        pixels = torch.randint(256, (3, 8, 8), generator=generator, dtype=torch.uint8)
        (folder / name).write_bytes(encode_png(pixels))
        lines.append(f"{name},{names[label]}")
    (folder / "images.csv").write_text("\n".join(lines) + "\n")
    return folder / "images.csv"
