"""Estimates of label noise from features and given labels alone: no clean labels, no noise rate, no folds.

``fit`` reads the features of all rows in a few passes and returns a ``Fitted``, a few tensors that are equal on all
ranks. Its ``posterior`` computes, for any batch of these rows, the probability that each class is the true one. The
given label of a row does not shape its own read-out (leave-one-out), so the probability is not flattered by it.
``fit_held_out`` does the same from a trained network's predictions and rows that it did not learn from.
``fit_start`` returns a ``Start``: better labels to train from, and a classifier of new rows.

Only tensors come in and go out; nothing here depends on a run, a method or a network.
"""

from pencil.estimates.fit import Fitted, fit
from pencil.estimates.held_out import Calibrated, fit_held_out, left_out_likelihood
from pencil.estimates.noise import Alarm, Interval, NoiseEstimate
from pencil.estimates.relabel import RelabelCounts
from pencil.estimates.start import Start, fit_start, prototype_start
from pencil.estimates.whitening import Passes

__all__ = [
    "Alarm",
    "Calibrated",
    "Fitted",
    "Interval",
    "NoiseEstimate",
    "Passes",
    "RelabelCounts",
    "Start",
    "fit",
    "fit_held_out",
    "fit_start",
    "left_out_likelihood",
    "prototype_start",
]
