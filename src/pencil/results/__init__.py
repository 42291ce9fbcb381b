"""Results of a run: the model, the learned labels with their verdicts and review decisions, and the summary."""

from pencil.results.decisions import Decision, DecisionReader, last_entry, read_decisions, was_reviewed
from pencil.results.environment import describe_environment
from pencil.results.estimates import Estimates, read_estimates, write_estimates
from pencil.results.files import damaged, read_json, writing
from pencil.results.judged import (
    DECISIONS,
    DROP,
    KEEP,
    RELABEL,
    REVIEW,
    VERDICTS,
    Decided,
    Judged,
    VerdictRule,
    judge,
    judge_all,
)
from pencil.results.labels import LabelRow, label_rows, write_labels
from pencil.results.model import ModelCard, load_weights, read_card, read_expert, save_expert, save_model
from pencil.results.neighbours import (
    NearRows,
    NeighbourCounts,
    neighbour_counts,
    read_neighbours,
    write_neighbours,
)
from pencil.results.saved import POSTERIOR, SavedLabels, save_labels
from pencil.results.summary import alarm_record, alarm_sentence, summarize

__all__ = [
    "DECISIONS",
    "DROP",
    "KEEP",
    "POSTERIOR",
    "RELABEL",
    "REVIEW",
    "VERDICTS",
    "Decided",
    "Decision",
    "DecisionReader",
    "Estimates",
    "Judged",
    "LabelRow",
    "ModelCard",
    "NearRows",
    "NeighbourCounts",
    "SavedLabels",
    "VerdictRule",
    "alarm_record",
    "alarm_sentence",
    "damaged",
    "describe_environment",
    "judge",
    "judge_all",
    "label_rows",
    "last_entry",
    "load_weights",
    "neighbour_counts",
    "read_card",
    "read_decisions",
    "read_estimates",
    "read_expert",
    "read_json",
    "read_neighbours",
    "save_expert",
    "save_labels",
    "save_model",
    "summarize",
    "was_reviewed",
    "write_estimates",
    "write_labels",
    "write_neighbours",
    "writing",
]
