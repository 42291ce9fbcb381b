"""What a run leaves: the backbone, the labels, the summary."""

from pencil.results.decisions import Decision, last_entry, read_decisions, was_reviewed, with_decisions
from pencil.results.environment import describe_environment
from pencil.results.files import damaged, read_json, writing
from pencil.results.labels import LabelChunk, write_labels
from pencil.results.model import ModelCard, load_weights, read_card, save_model
from pencil.results.saved import SavedLabels, save_labels
from pencil.results.summary import summarize
from pencil.results.verdicts import KEEP, RELABEL, REVIEW, VERDICTS, VerdictRule, margins

__all__ = [
    "KEEP",
    "RELABEL",
    "REVIEW",
    "VERDICTS",
    "Decision",
    "LabelChunk",
    "ModelCard",
    "SavedLabels",
    "VerdictRule",
    "damaged",
    "describe_environment",
    "last_entry",
    "load_weights",
    "margins",
    "read_card",
    "read_decisions",
    "read_json",
    "save_labels",
    "save_model",
    "summarize",
    "was_reviewed",
    "with_decisions",
    "write_labels",
    "writing",
]
