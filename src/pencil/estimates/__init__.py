"""Estimates of label noise: a trained network calibrated on held-out rows, better labels to start from, neighbours.

``fit_held_out`` gives the probability that each class is the true one, from a trained network's predictions and rows
that it did not learn from. ``fit_start`` returns better labels to train from, and a classifier of new rows.
What features alone say about labels is ``pencil.belief``.

Only tensors come in and go out; nothing here depends on a run, a method or a network.
"""

from pencil.estimates.held_out import Calibrated, fit_held_out, left_out_likelihood
from pencil.estimates.noise import Alarm, Interval, NoiseEstimate
from pencil.estimates.relabel import RelabelCounts
from pencil.estimates.start import Start, fit_start, prototype_start
from pencil.estimates.whitening import Passes

__all__ = [
    "Alarm",
    "Calibrated",
    "Interval",
    "NoiseEstimate",
    "Passes",
    "RelabelCounts",
    "Start",
    "fit_held_out",
    "fit_start",
    "left_out_likelihood",
    "prototype_start",
]
