"""The one training loop and what it stands on."""

from pencil.engine.checkpoint import Checkpoints
from pencil.engine.evaluate import accuracy, predictions
from pencil.engine.events import Clock, Event, Events, JsonLines, Listener, TensorBoard
from pencil.engine.learner import LabelLearner, LearnedLabels, fitting_method
from pencil.engine.loop import Loop
from pencil.engine.metrics import read_json_lines, read_metrics
from pencil.engine.parallel import is_sharded, whole_weights
from pencil.engine.runtime import Runtime, is_lost_rank
from pencil.engine.trackers import Mlflow, WeightsAndBiases
from pencil.engine.training import Training

__all__ = [
    "Checkpoints",
    "Clock",
    "Event",
    "Events",
    "JsonLines",
    "LabelLearner",
    "LearnedLabels",
    "Listener",
    "Loop",
    "Mlflow",
    "Runtime",
    "TensorBoard",
    "Training",
    "WeightsAndBiases",
    "accuracy",
    "fitting_method",
    "is_lost_rank",
    "is_sharded",
    "predictions",
    "read_json_lines",
    "read_metrics",
    "whole_weights",
]
