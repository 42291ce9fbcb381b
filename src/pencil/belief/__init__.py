"""One belief about every label, from features and everything that was said about it.

``believe`` reads features and labels of all rows; ``Belief`` says what follows for each label, which rows to ask people
about, and takes their answers. Only tensors come in and go out; nothing here depends on a run, a method or a network.
"""

from pencil.belief.answers import NO_CLASS, Ranking, Released, doubtful, released
from pencil.belief.belief import SHARE, Belief, Decided
from pencil.belief.claims import Checks
from pencil.belief.find import believe, believe_and_read, believe_probabilities, found_from
from pencil.belief.reader import Reader, ReadRows
from pencil.belief.shares import NoiseSums, alarms_of, noise_of

__all__ = [
    "NO_CLASS",
    "SHARE",
    "Belief",
    "Checks",
    "Decided",
    "NoiseSums",
    "Ranking",
    "ReadRows",
    "Reader",
    "Released",
    "alarms_of",
    "believe",
    "believe_and_read",
    "believe_probabilities",
    "doubtful",
    "found_from",
    "noise_of",
    "released",
]
