"""What a run leaves: the backbone, the labels, the summary."""

from pencil.results.environment import describe_environment
from pencil.results.files import read_json, writing
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
    "LabelChunk",
    "ModelCard",
    "SavedLabels",
    "VerdictRule",
    "describe_environment",
    "load_weights",
    "margins",
    "read_card",
    "read_json",
    "save_labels",
    "save_model",
    "summarize",
    "write_labels",
    "writing",
]
