"""Moments, and softmax and labels in plain Python, to compare methods with."""

import math

from pencil.algorithm import Moment, Phase


def moment(name="correction", elapsed=0.0, epochs=10, **shared):
    return Moment(Phase(name=name, epochs=epochs, learning_rate=0.1), elapsed, shared)


def softmax(row):
    """Of a list of numbers, in plain Python."""
    powers = [math.exp(value) for value in row]
    return [power / sum(powers) for power in powers]


def as_lists(given, classes=3):
    """ŷ as lists of probabilities."""
    if given.dim() == 2:
        return given.tolist()
    return [[float(j == label) for j in range(classes)] for label in given.tolist()]
