"""The file of a run's estimates: what is written is read again, and its size does not grow with the matrix."""

import torch

from pencil.estimates import Alarm, Interval, NoiseEstimate
from pencil.results.estimates import MOST_PAIRS, Estimates, read_estimates, write_estimates

RATE = Interval(0.2, 0.15, 0.25)


def noise_of(matrix: torch.Tensor, classes: int, alarms=()) -> NoiseEstimate:
    per_class = torch.tensor([0.1, 0.0, 0.3]).repeat(classes, 1)
    return NoiseEstimate(RATE, per_class, matrix, matrix / 2, matrix, RATE, alarms)


def test_what_is_written_is_read(tmp_path):
    matrix = torch.tensor([[0.9, 0.1, 0.0], [0.25, 0.75, 0.0], [0.0, 0.0, 1.0]])
    written = Estimates.of(noise_of(matrix, 3, (Alarm("pairs", "words", "remedy"),)), "inputs", "dense")
    write_estimates(tmp_path, written)
    found = read_estimates(tmp_path, 3)
    assert found == written
    assert found.pairs == [(1, 0, 0.25, 0.125, 0.25), (0, 1, 0.1, 0.05, 0.1)]
    assert found.kept[0] == (0.9, 0.45, 0.9)
    assert found.alarms[0].name == "pairs"


def test_of_a_large_matrix_the_largest_entries_are_kept(tmp_path):
    matrix = torch.rand(60, 60, generator=torch.Generator().manual_seed(0))
    found = Estimates.of(noise_of(matrix, 60), "early epoch", "top:8")
    assert len(found.pairs) == MOST_PAIRS
    values = [entry[2] for entry in found.pairs]
    assert values == sorted(values, reverse=True)
    assert all(true != given for true, given, *_ in found.pairs)


def test_too_many_classes_have_no_matrix(tmp_path):
    found = Estimates.of(noise_of(torch.zeros(0, 0), 5), "inputs", "dense")
    assert (found.kept, found.pairs) == ([], [])
    write_estimates(tmp_path, found)
    assert read_estimates(tmp_path, 5).num_classes == 5
