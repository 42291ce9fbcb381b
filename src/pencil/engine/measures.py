"""What is measured at the end of an epoch."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from pencil.engine.alarms import counts, gain, lost_share
from pencil.engine.evaluate import agreement
from pencil.engine.progress import Progress, Tally
from pencil.engine.training import Training

ACCURACIES = ("validation_accuracy", "test_accuracy", "labels_correct")


def epoch_metrics(training: Training, progress: Progress, totals: Tally, epochs: int) -> dict[str, Any]:
    """Of the last of ``epochs`` epochs, from the sums of all ranks."""
    learner = training.learner
    return {
        "epoch": epochs,
        "phase": learner.moment.phase.name,
        "learning_rate": learner.learning_rate,
        "loss": totals.loss / totals.examples,
        "train_agreement": totals.agreeing / totals.examples,
        "labels_changed": int(progress.changed),
        "forward_passes": int(totals.forward),
        **_due_accuracies(training, epochs),
        **_watched(training),
        "seconds": round(progress.seconds, 4),
    }


def missing_accuracies(training: Training, metrics: Mapping[str, Any]) -> dict[str, float]:
    """Those of an epoch that was not due to be measured, and that a decision has made the last one."""
    measured = any(name in metrics for name in ACCURACIES)
    return {} if measured else _due_accuracies(training, metrics["epoch"])


def _due_accuracies(training: Training, epochs: int) -> dict[str, float]:
    """Accuracies if they are due; at the end of a phase they always are."""
    ends = accumulate(phase.epochs for phase in training.learner.phases)
    return _accuracies(training) if epochs in ends or epochs % training.evaluate_every == 0 else {}


def _accuracies(training: Training) -> dict[str, float]:
    """Of the network on held-out examples, and of the labels where the truth is known; never trained on."""
    measured: dict[str, float] = {}
    runtime, model = training.runtime, training.backbone
    runtime.agree_on_buffers(model)
    for name, examples in (
        ("validation_accuracy", training.validation),
        ("test_accuracy", training.test),
    ):
        if examples is not None:
            measured[name], predicted = agreement(model, examples, training.preparation, runtime)
            if training.watches and examples is training.validation:
                given = counts(examples.labels.hard, examples.num_classes)
                measured["predicted_classes_lost"] = lost_share(given, predicted)
    if training.train.reference is not None:
        measured["labels_correct"] = _labels_correct(training, training.train.reference)
    return measured


def _labels_correct(training: Training, reference: Tensor) -> float:
    right = (training.learner.labels().suggested == reference).sum()
    sums = training.runtime.total(torch.tensor([int(right), len(reference)], dtype=torch.float64))
    return float(sums[0] / sums[1])


def _watched(training: Training) -> dict[str, Any]:
    """What alarms are found by, as long as labels may move."""
    if not training.watches or training.learner.moment.phase.name == "finetune":
        return {}
    metrics: dict[str, Any] = _watched_labels(training)
    if training.noise_rate is not None:
        rate, high = training.noise_rate
        metrics |= {"noise_rate": rate, "noise_rate_high": high, "examples": training.sampler.num_rows}
    return metrics


def _watched_labels(training: Training) -> dict[str, float]:
    """The metrics that alarms judge the labels of all ranks by; see ``alarms``."""
    labels, classes = training.learner.labels(), training.learner.num_classes
    found = [counts(each, classes) for each in (labels.given, labels.suggested)]
    if training.posterior is not None:
        found.append(gain(training.posterior, labels.given, labels.suggested, classes))
    given, suggested, gained = training.runtime.total(torch.cat(found)).split(
        [classes, classes, len(found[2:]) * 2]
    )
    metrics = {"label_classes_lost": lost_share(given, suggested)}
    if training.posterior is not None:
        rows = training.sampler.num_rows
        metrics |= {
            "labels_gain": float(gained[0]) / rows,
            "labels_gain_error": float(gained[1]) ** 0.5 / rows,
        }
    return metrics
