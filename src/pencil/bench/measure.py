"""One run of a grid: carried out or continued, then measured against the truth where it is known."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pencil.bench import ranking
from pencil.bench.ranking import expected_calibration_error, ranked
from pencil.config import RunConfig
from pencil.data import Examples
from pencil.embed import open_encoder
from pencil.engine import predictions, read_metrics
from pencil.errors import RunError
from pencil.results import POSTERIOR, VERDICTS, describe_environment, read_json
from pencil.results.files import write_record
from pencil.results.model import EXPERT
from pencil.run import LabelTable, RunDirectory, Trust, code_in, evaluate, own_examples, resume, train
from pencil.run.build import build_runtime
from pencil.run.embedding import rows_with_features
from pencil.run.network import trained_network
from pencil.run.renewal import FOLDER as CALIBRATED
from pencil.run.start import NAME as START

MEASURES = "measures.json"
OF_LABELS = (
    *("labels_before", "labels_after", "precision", "recall", "f1"),
    *ranking.MEASURES,
    *(f"posterior_{name}" for name in ("labels_after", "f1", *ranking.MEASURES)),
    "calibration_error",
)
"""What is measured only where the truth is known."""


def carry_out(config: RunConfig, folder: Path, *, keep: bool) -> dict[str, Any]:
    """The measures of the run in ``folder``, which is begun, continued or found finished.

    Checkpoints and label parts are removed once the measures are on disk, unless ``keep``.
    """
    measures = read_json(folder / MEASURES) if (folder / MEASURES).is_file() else _measured(config, folder)
    if not keep:  # also where an earlier process was killed in between
        directory = RunDirectory(folder)
        shutil.rmtree(directory.checkpoints, ignore_errors=True)
        shutil.rmtree(directory.labels, ignore_errors=True)
        for place in (folder / POSTERIOR, *folder.glob(f"{START}*"), *folder.glob(CALIBRATED.format("*"))):
            shutil.rmtree(place, ignore_errors=True)
    return measures


def _measured(config: RunConfig, folder: Path) -> dict[str, Any]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        begun = (folder / "config.toml").is_file()
        trusted = tuple(code_in(config).values())
        directory = resume(folder, trust_code=trusted) if begun else train(config, folder)
        if not directory.is_finished:
            raise RunError(f"{folder} was stopped; run the grid again to continue it")
        measures = measure(directory, trusted)
    measures["warnings"] = sorted({str(warning.message) for warning in caught})
    write_record(folder / MEASURES, measures)
    return measures


def measure(directory: RunDirectory, trust_code: Trust = False) -> dict[str, Any]:
    """The measures of a finished run, as in its line of the results; shares from 0 to 1."""
    config, summary = directory.config, directory.summary
    examples = own_examples(directory, trust_code=trust_code).train
    metrics = read_metrics(directory.metrics)
    environment = {name: value for name, value in describe_environment().items() if name != "command"}
    return {
        "test_last": summary["last"].get("test_accuracy"),
        "test_best": summary.get("best", {}).get("test_accuracy"),
        "test_expert": _with_expert(directory, trust_code),
        "validation_last": summary["last"].get("validation_accuracy"),
        **_labels(directory, config, examples, trust_code),
        "examples": len(examples),
        "seconds": summary["seconds"],
        "forward_passes": sum(line.get("forward_passes", 0) for line in metrics),
        "alarms": summary["alarms"],
        "version": environment.pop("pencil"),
        "environment": environment,
    }


def _with_expert(directory: RunDirectory, trust_code: Trust) -> float | None:
    """The test accuracy together with the second expert; None without one."""
    if not (directory.path / EXPERT).is_file() or "test_accuracy" not in directory.summary["last"]:
        return None
    accuracy: float = evaluate(directory, trust_code=trust_code, expert=True)["accuracy"]
    return accuracy


def _labels(
    directory: RunDirectory, config: RunConfig, examples: Examples, trust_code: Trust
) -> dict[str, Any]:
    """Right labels before and after, and how well wrong ones are found; None where the truth is not known."""
    truth, given = examples.reference, examples.labels.hard
    learns = bool(directory.summary["learns_labels"])
    detector = "labels" if learns else "network"
    if truth is None:
        return {"detector": detector, **dict.fromkeys(OF_LABELS)}
    suggested, score = _learned(directory) if learns else _predicted(directory, examples, trust_code)
    wrong = given != truth
    return {
        "detector": detector,
        "labels_before": _share(given == truth),
        "labels_after": _share((suggested if learns else given) == truth),
        **detection(wrong, suggested != given),
        **ranked(score, wrong),
        **_posterior(directory, given, truth),
    }


def _posterior(directory: RunDirectory, given: Tensor, truth: Tensor) -> dict[str, float | None]:
    """How good the run's answers are: labels with every verdict ``relabel`` applied, and ``p_wrong``."""
    rows = list(LabelTable.open(directory, entry=0).chunks())
    p_wrong, suggested, verdict = (
        torch.cat([getattr(judged, name) for judged in rows]) for name in ("p_wrong", "suggested", "verdict")
    )
    wrong = given != truth
    relabelled = torch.where(verdict == VERDICTS.index("relabel"), suggested, given)
    measures = {
        "labels_after": _share(relabelled == truth),
        "f1": detection(wrong, p_wrong > 0.5)["f1"],
        **ranked(p_wrong, wrong),
    }
    named = {f"posterior_{name}": value for name, value in measures.items()}
    return {**named, "calibration_error": expected_calibration_error(p_wrong, wrong)}


def detection(wrong: Tensor, suspected: Tensor) -> dict[str, float | None]:
    """Precision, recall and F1 of suspecting (N,) what is wrong (N,); None where nothing is to be divided by."""
    hits = int((wrong & suspected).sum())
    suspects, faults = int(suspected.sum()), int(wrong.sum())
    return {
        "precision": hits / suspects if suspects else None,
        "recall": hits / faults if faults else None,
        "f1": 2 * hits / (suspects + faults) if faults else None,
    }


def _learned(directory: RunDirectory) -> tuple[Tensor, Tensor]:
    """By the method's own labels y^d: the suggested classes (N,), and 1 - y^d of the given class (N,)."""
    chunks = [(judged.suggested, judged.p_wrong) for judged in LabelTable.open(directory).learned_chunks()]
    suggested, score = zip(*chunks, strict=True)
    return torch.cat(suggested), torch.cat(score)


def _predicted(directory: RunDirectory, examples: Examples, trust_code: Trust) -> tuple[Tensor, Tensor]:
    """By the trained network, in one pass over its own training rows: as ``_learned``."""
    runtime = build_runtime(directory.config)
    model, preparation, _ = trained_network(directory, runtime, trust_code=trust_code)
    if directory.config.data.embed is not None:
        encoder = open_encoder(directory.config.data.embed, str(runtime.device))
        examples = rows_with_features(examples, encoder, runtime)
    indices, given = torch.arange(len(examples)), examples.labels.hard
    suggested, score = torch.empty_like(given), torch.empty(len(given))
    for batch, probs in predictions(model, examples.inputs, indices, preparation, runtime):
        suggested[batch] = probs.argmax(dim=1)
        score[batch] = 1 - probs.gather(1, given[batch][:, None])[:, 0]
    return suggested, score


def _share(right: Tensor) -> float:
    return float(right.double().mean())
