"""Runs: build objects from a RunConfig, train, resume, and use the results."""

from pencil.run.actions import resume, train
from pencil.run.code import Trust, check_code, code_in, code_of_data, code_of_run
from pencil.run.directory import RunDirectory
from pencil.run.label_table import LabelTable
from pencil.run.noise import noisy_labels
from pencil.run.own_data import ChangedDataError, own_examples, rows_to_show, with_originals
from pencil.run.plan import Plan
from pencil.run.sources import check_apart, prepare_examples, read_splits
from pencil.run.trusted import has_decisions
from pencil.run.using import evaluate, judged_labels, labels_since, predict

__all__ = [
    "ChangedDataError",
    "LabelTable",
    "Plan",
    "RunDirectory",
    "Trust",
    "check_apart",
    "check_code",
    "code_in",
    "code_of_data",
    "code_of_run",
    "evaluate",
    "has_decisions",
    "judged_labels",
    "labels_since",
    "noisy_labels",
    "own_examples",
    "predict",
    "prepare_examples",
    "read_splits",
    "resume",
    "rows_to_show",
    "train",
    "with_originals",
]
