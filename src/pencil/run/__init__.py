"""From settings to a run and back: the only place that builds objects from a RunConfig."""

from pencil.run.actions import evaluate, learned_labels, predict, resume, train
from pencil.run.directory import RunDirectory
from pencil.run.label_table import LabelTable
from pencil.run.plan import Plan
from pencil.run.sources import noisy_labels, prepare_examples, read_splits

__all__ = [
    "LabelTable",
    "Plan",
    "RunDirectory",
    "evaluate",
    "learned_labels",
    "noisy_labels",
    "predict",
    "prepare_examples",
    "read_splits",
    "resume",
    "train",
]
