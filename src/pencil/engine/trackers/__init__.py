"""Experiment trackers, one file each, all listeners: what an epoch measured, told to somebody's dashboard."""

from pencil.engine.trackers.base import Tracker
from pencil.engine.trackers.mlflow import Mlflow
from pencil.engine.trackers.wandb import WeightsAndBiases

__all__ = ["Mlflow", "Tracker", "WeightsAndBiases"]
