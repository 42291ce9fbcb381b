"""The training loop and its parts: learner, steps, checkpoints, policy, runtime, events."""

from pencil.engine.alarms import AlarmActions
from pencil.engine.auto import LIKELIHOOD, PAIRS, Auto
from pencil.engine.checkpoint import Checkpoints
from pencil.engine.evaluate import accuracy, predictions
from pencil.engine.events import Clock, Event, Events, JsonLines, Listener, TensorBoard
from pencil.engine.features import held_out_scores, network_features, network_scores
from pencil.engine.learned import LearnedLabels
from pencil.engine.learner import LabelLearner
from pencil.engine.learner_rows import fitting_method
from pencil.engine.loop import Loop
from pencil.engine.metrics import read_json_lines, read_metrics
from pencil.engine.parallel import is_sharded, whole_weights
from pencil.engine.policy import (
    Continue,
    Decision,
    EpochEnd,
    NextPhase,
    Past,
    Policy,
    Restore,
    Stop,
    ended,
    phase_ended,
)
from pencil.engine.runtime import Runtime, is_lost_rank
from pencil.engine.trackers import Mlflow, WeightsAndBiases
from pencil.engine.training import Training

__all__ = [
    "LIKELIHOOD",
    "PAIRS",
    "AlarmActions",
    "Auto",
    "Checkpoints",
    "Clock",
    "Continue",
    "Decision",
    "EpochEnd",
    "Event",
    "Events",
    "JsonLines",
    "LabelLearner",
    "LearnedLabels",
    "Listener",
    "Loop",
    "Mlflow",
    "NextPhase",
    "Past",
    "Policy",
    "Restore",
    "Runtime",
    "Stop",
    "TensorBoard",
    "Training",
    "WeightsAndBiases",
    "accuracy",
    "ended",
    "fitting_method",
    "held_out_scores",
    "is_lost_rank",
    "is_sharded",
    "network_features",
    "network_scores",
    "phase_ended",
    "predictions",
    "read_json_lines",
    "read_metrics",
    "whole_weights",
]
