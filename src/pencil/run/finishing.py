"""Writes the results of a finished run into its folder: labels, estimates, model, neighbours and summary."""

from __future__ import annotations

import itertools
import shutil
from typing import Any

from torch import Tensor

from pencil.config import RunConfig
from pencil.data import known_keys
from pencil.engine import Loop, Training, read_metrics, whole_weights
from pencil.results import save_labels, save_model, summarize
from pencil.run.directory import RunDirectory
from pencil.run.estimation import Estimation
from pencil.run.kept_beliefs import keeps_beliefs, rows_to_keep
from pencil.run.neighbours import leave_neighbours
from pencil.run.network import model_card
from pencil.run.sources import Prepared

SKIPPED_LISTED = 1000  # skipped rows listed in the summary, which counts all


def leave_all(
    config: RunConfig, directory: RunDirectory, prepared: Prepared, loop: Loop, estimation: Estimation
) -> None:
    """Write everything; the summary, which marks the run as finished, comes last. Every rank takes part."""
    training = loop.training
    _leave_labels(config, directory, training)
    estimation.finish()
    weights = whole_weights(training.model)
    training.runtime.barrier()  # all label files are written before the run counts as finished
    if training.runtime.is_main:
        if config.neighbours:
            leave_neighbours(directory, prepared)
        _leave_results(config, directory, prepared, loop, weights)
    training.runtime.barrier()  # every rank sees a finished run


def _leave_labels(config: RunConfig, directory: RunDirectory, training: Training) -> None:
    """Write the rows that this rank owns."""
    if training.runtime.is_main:
        shutil.rmtree(
            directory.labels, ignore_errors=True
        )  # files of an earlier attempt with another number of ranks
    training.runtime.barrier()
    mine, rows = training.train, rows_to_keep(config, training.learner, directory.path)
    rank, content = training.runtime.rank, known_keys(mine.inputs)
    save_labels(directory.path, training.indices, mine.labels, rows, mine.ids, rank, content=content)


def _leave_results(
    config: RunConfig,
    directory: RunDirectory,
    prepared: Prepared,
    loop: Loop,
    weights: dict[str, Tensor],
) -> None:
    train, training = prepared.train, loop.training
    save_model(directory.path, weights, model_card(config, train, training.preparation))
    metrics = read_metrics(directory.metrics)
    changed = int(loop.progress.changed)
    high = None if training.noise_rate is None else training.noise_rate[1]
    summary = summarize(
        metrics, num_rows=len(train), labels_changed=changed, alarms=loop.alarms, noise_rate_high=high
    )
    learner = training.learner
    method = {
        "method": config.method.name,
        "learns_labels": learner.method.learns_labels,
        "keeps_beliefs": keeps_beliefs(config, has_start=learner.has_start),
    }
    choices = {"choices": loop.choices} if loop.choices else {}
    directory.write_summary({**method, **summary, **choices, **_skipped(prepared)})


def _skipped(prepared: Prepared) -> dict[str, Any]:
    """The skipped shards with their rows, and skipped rows with their problems."""
    result: dict[str, Any] = {}
    if prepared.skipped:
        result["skipped_shards"] = dict(prepared.skipped)
    if prepared.skipped_rows:
        result["skipped_rows"] = dict(itertools.islice(prepared.skipped_rows.items(), SKIPPED_LISTED))
        result["skipped_rows_count"] = len(prepared.skipped_rows)
    return result
