"""The rows that labels start from, kept in the run's folder and read when the run resumes."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
from torch import Tensor

from pencil.algorithm import TopRows
from pencil.data import RowNumbers
from pencil.engine import Training
from pencil.results import SavedLabels, save_labels
from pencil.stores import RowStore, StoreChoice, rows_at_once

StartRows = RowStore[Tensor] | RowStore[TopRows]


def write_start(training: Training, rows: StartRows, folder: Path, name: str) -> None:
    """Write this rank's rows into a folder of the run; every rank takes part."""
    job = training
    if job.runtime.is_main:
        shutil.rmtree(folder / name, ignore_errors=True)  # files of another number of ranks
    job.runtime.barrier()
    ids = RowNumbers(len(job.train))
    save_labels(folder, job.indices, job.train.labels, rows.state(), ids, job.runtime.rank, name=name)
    job.runtime.barrier()


def labels_changed(training: Training) -> int:
    """How many labels of all ranks differ from the given ones; every rank takes part."""
    learner, differing = training.learner, torch.zeros(1, dtype=torch.float64)
    for places in torch.arange(len(training.train)).split(rows_at_once(learner.num_classes)):
        labels = learner.labels(places)
        differing += (labels.suggested != labels.given).sum()
    return int(training.runtime.total(differing))


def read_start(training: Training, choice: StoreChoice, folder: Path, name: str) -> StartRows:
    """The rows of this rank, whichever rank wrote them."""
    job, classes = training, training.learner.num_classes
    store = choice.make(len(job.train), classes, folder)
    state = store.state()
    saved = SavedLabels(folder, classes, choice.in_memory.make(0, classes).state(), name=name)
    for chunk in saved.chunks(rows_at_once(classes)):
        places = job.indices - chunk.first
        mine = ((places >= 0) & (places < len(chunk.ids))).nonzero()[:, 0]
        for key, values in state.items():
            values[mine] = chunk.rows[key][places[mine]]
    return store
