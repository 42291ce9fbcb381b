"""Label noise: empirical rates, instance-dependent flips, seeds, purity, refusals."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pencil.algorithm.transition import cifar10_matrix, circular_matrix, symmetric_matrix
from pencil.data.inputs import TensorInputs
from pencil.data.noise import instance_dependent_noise, transition_noise
from pencil.errors import ConfigError, DataError

RATES = st.floats(0.0, 1.0)
KNOWN_TRANSITION = [1, 3, 3, 3, 2, 1, 1, 0, 0, 1, 3, 2]
KNOWN_INSTANCE = [0, 3, 2, 3, 0, 3, 1, 3, 0, 3, 2, 3]


def inputs_of(count, size=20, seed=0):
    return TensorInputs(torch.randn(count, size, generator=torch.Generator().manual_seed(seed)))


def labels_of(count, classes, seed=1):
    return torch.randint(classes, (count,), generator=torch.Generator().manual_seed(seed))


def within_binomial(successes, trials, probability):
    """Within five standard deviations, and exactly where the probability is 0 or 1."""
    return (
        abs(successes - trials * probability)
        <= 5 * math.sqrt(trials * probability * (1 - probability)) + 1e-9
    )


def test_the_cifar10_map_at_rate_one_is_certain():
    flipped = transition_noise(torch.arange(10), cifar10_matrix(1.0), 0)
    assert flipped.tolist() == [0, 1, 0, 5, 7, 3, 6, 7, 8, 1]


@pytest.mark.parametrize(
    "matrix",
    [
        symmetric_matrix(10, 0.5),
        circular_matrix(10, 0.3),
        cifar10_matrix(0.4),
        torch.tensor([[0.0, 0.0, 1.0], [0.25, 0.5, 0.25], [0.0, 1.0, 0.0]]),
        torch.full((7, 7), 1 / 7),  # float32: the rows miss 1 by a rounding
    ],
)
def test_every_cell_comes_out_with_its_probability(matrix):
    classes, count = len(matrix), 30_000 * len(matrix)
    labels = torch.arange(count) % classes
    noisy = transition_noise(labels, matrix, 3)
    assert noisy.dtype is torch.int64
    cells = torch.bincount(labels * classes + noisy, minlength=classes**2).view(classes, classes)
    for row in range(classes):
        for column in range(classes):
            assert within_binomial(int(cells[row, column]), 30_000, float(matrix[row, column]))


@given(classes=st.integers(1, 30), rate=RATES, seed=st.integers(0, 2**63 - 1))
def test_noise_stays_among_the_classes_with_a_chance(classes, rate, seed):
    labels = torch.arange(200) % classes
    matrix = circular_matrix(classes, rate)
    noisy = transition_noise(labels, matrix, seed)
    assert (matrix[labels, noisy] > 0).all()


def test_a_rate_of_zero_changes_nothing():
    labels = labels_of(1000, 7)
    assert torch.equal(transition_noise(labels, symmetric_matrix(7, 0.0), 0), labels)
    assert torch.equal(instance_dependent_noise(labels, inputs_of(1000), 7, 0.0, 0), labels)


def test_many_classes_keep_their_rows_apart():
    labels = torch.arange(20_000) % 2000
    noisy = transition_noise(labels, circular_matrix(2000, 0.5), 0)
    assert set((noisy - labels).remainder(2000).tolist()) == {0, 1}


def noises():
    matrix, inputs = symmetric_matrix(5, 0.5), inputs_of(2000)
    return [
        lambda labels, generator: transition_noise(labels, matrix, generator),
        lambda labels, generator: instance_dependent_noise(labels, inputs, 5, 0.4, generator),
    ]


@pytest.mark.parametrize("noise", noises())
def test_seeds_reproduce_and_nothing_else_is_touched(noise):
    labels = labels_of(2000, 5)
    before, state = labels.clone(), torch.get_rng_state()
    first = noise(labels, 9)
    assert torch.equal(first, noise(labels, 9))
    assert torch.equal(first, noise(labels, torch.Generator().manual_seed(9)))
    assert not torch.equal(first, noise(labels, 10))
    generator = torch.Generator().manual_seed(9)
    noise(labels, generator)
    assert not torch.equal(first, noise(labels, generator))  # a generator moves on
    assert torch.equal(labels, before)
    assert first.data_ptr() != labels.data_ptr()
    assert torch.equal(state, torch.get_rng_state())


def test_labels_of_a_known_seed_stay_the_same():
    # Published noisy labels must be made again by later versions.
    labels = torch.arange(12) % 4
    assert transition_noise(labels, symmetric_matrix(4, 0.8), 0).tolist() == KNOWN_TRANSITION
    inputs = TensorInputs(torch.arange(96, dtype=torch.float32).view(12, 8).sin())
    assert instance_dependent_noise(labels, inputs, 4, 0.5, 0).tolist() == KNOWN_INSTANCE


@pytest.mark.parametrize("rate", [0.2, 0.4, 0.6])
def test_instance_noise_has_about_the_rate_asked_for(rate):
    labels = labels_of(20_000, 10)
    noisy = instance_dependent_noise(labels, inputs_of(20_000), 10, rate, 0)
    assert noisy.dtype is torch.int64
    assert noisy.min() >= 0
    assert noisy.max() <= 9
    assert abs((noisy != labels).float().mean().item() - rate) < 0.02
    for label in range(10):
        of_class = labels == label
        assert abs((noisy[of_class] != label).float().mean().item() - rate) < 0.06


def test_instance_noise_near_zero_follows_the_truncated_normal():
    labels = labels_of(30_000, 3)
    noisy = instance_dependent_noise(labels, inputs_of(30_000, size=4), 3, 0.1, 0)
    # The mean of a normal(0.1, 0.1) truncated at 0 is 0.1 + 0.1 φ(1) / Φ(1).
    density, mass = math.exp(-0.5) / math.sqrt(2 * math.pi), 0.5 + 0.5 * math.erf(math.sqrt(0.5))
    expected = 0.1 + 0.1 * density / mass
    assert within_binomial(int((noisy != labels).sum()), 30_000, expected)


def test_instance_noise_depends_on_the_input():
    # One class and a handful of distinct inputs: each input has its own distribution over the other classes.
    distinct = torch.randn(4, 16, generator=torch.Generator().manual_seed(0))
    which = torch.arange(40_000) % 4
    noisy = instance_dependent_noise(torch.zeros(40_000).long(), TensorInputs(distinct[which]), 6, 0.5, 0)
    counts = torch.stack([torch.bincount(noisy[which == i], minlength=6) for i in range(4)])
    shares = counts[:, 1:] / counts[:, 1:].sum(1, keepdim=True)
    assert (shares.max(0).values - shares.min(0).values).max() > 0.1
    # Not degenerate either: no input sends all its flips to one class.
    assert shares.max() < 0.9
    assert ((counts[:, 0] / 10_000 - 0.5).abs() < 0.03).all()


def test_instance_noise_is_the_naive_reading_of_the_algorithm():
    # The share of flips of one input to each class against exp(x W) with W drawn as the function draws it.
    inputs = torch.randn(3, 5, generator=torch.Generator().manual_seed(2)).double()
    which = torch.arange(90_000) % 3
    noisy = instance_dependent_noise(torch.ones(90_000).long(), TensorInputs(inputs[which]), 4, 0.5, 7)
    generator = torch.Generator().manual_seed(7)
    torch.randint(2**32, (90_000,), generator=generator)
    torch.randint(2**32, (90_000,), generator=generator)
    seed = int(torch.randint(2**62, (4,), generator=generator)[1])
    weights = torch.randn(5, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    for i in range(3):
        x = inputs[i] - inputs.mean(0)
        powers = [math.exp(float((x / x.norm()) @ weights[:, j])) if j != 1 else 0.0 for j in range(4)]
        counts = torch.bincount(noisy[which == i], minlength=4).tolist()
        flips = sum(counts) - counts[1]
        assert abs(flips / 30_000 - 0.5) < 0.02
        for j in (0, 2, 3):
            assert within_binomial(counts[j], flips, powers[j] / sum(powers))


@pytest.mark.parametrize("batch", [1, 3, 64, 5000])
def test_instance_noise_does_not_depend_on_the_batch(batch):
    labels, inputs = labels_of(300, 5), inputs_of(300)
    expected = instance_dependent_noise(labels, inputs, 5, 0.4, 0)
    assert torch.equal(instance_dependent_noise(labels, inputs, 5, 0.4, 0, batch=batch), expected)


def test_instance_noise_does_not_depend_on_the_unit_of_the_inputs():
    images = torch.randint(256, (400, 3, 6, 6), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    labels = labels_of(400, 4)
    noisy = instance_dependent_noise(labels, TensorInputs(images), 4, 0.5, 0)
    assert 0.4 < (noisy != labels).float().mean() < 0.6
    other = TensorInputs(images.double() / 255 * 7 - 3)
    assert torch.equal(instance_dependent_noise(labels, other, 4, 0.5, 0), noisy)


def test_instance_noise_fetches_batches_and_survives_constant_inputs():
    class Watched:
        largest = 0

        def __len__(self):
            return 500

        def fetch(self, indices):
            self.largest = max(self.largest, len(indices))
            return torch.full((len(indices), 2, 3), 0.5)

    watched, labels = Watched(), labels_of(500, 3)
    noisy = instance_dependent_noise(labels, watched, 3, 0.5, 0, batch=50)
    assert watched.largest == 50
    assert 0.4 < (noisy != labels).float().mean() < 0.6


def test_no_labels_and_one_class():
    empty = torch.zeros(0).long()
    assert transition_noise(empty, symmetric_matrix(3, 0.5), 0).shape == (0,)
    assert instance_dependent_noise(empty, inputs_of(0), 3, 0.5, 0).shape == (0,)
    assert instance_dependent_noise(torch.zeros(5).long(), inputs_of(5), 1, 0.5, 0).tolist() == [0] * 5


def test_small_integer_labels_come_out_as_int64():
    assert transition_noise(torch.tensor([0, 1], dtype=torch.uint8), circular_matrix(2, 1.0), 0).tolist() == [
        1,
        0,
    ]


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[1.0, 0.0], [0.6, 0.6]], r"row 1 of the transition matrix .*sum 1\.2"),
        ([[1.5, -0.5], [0.0, 1.0]], r"row 0 of the transition matrix must not be negative"),
        ([[1.0, 0.0], [math.nan, 1.0]], r"row 1 of"),
        ([[1.0, 0.0]], r"square \(C, C\), got shape \(1, 2\)"),
    ],
)
def test_matrices_that_are_none_are_refused(matrix, message):
    with pytest.raises(DataError, match=message):
        transition_noise(torch.tensor([0]), torch.tensor(matrix), 0)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (torch.tensor([0, 3]), r"labels from 0 to 3 do not fit 3 classes"),
        (torch.tensor([-1, 2]), r"labels from -1 to 2"),
        (torch.tensor([0.0, 1.0]), r"class indices \(N,\), got torch\.float32"),
        (torch.zeros(2, 3).long(), r"of shape \(2, 3\)"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels, message):
    with pytest.raises(DataError, match=message):
        transition_noise(labels, symmetric_matrix(3, 0.5), 0)
    with pytest.raises(DataError, match=message):
        instance_dependent_noise(labels, inputs_of(2), 3, 0.5, 0)


def test_settings_and_inputs_that_do_not_fit_are_refused():
    with pytest.raises(ConfigError, match="noise rate"):
        instance_dependent_noise(labels_of(4, 3), inputs_of(4), 3, 1.1, 0)
    with pytest.raises(DataError, match="4 labels for 3 inputs"):
        instance_dependent_noise(labels_of(4, 3), inputs_of(3), 3, 0.5, 0)
    with pytest.raises(DataError, match="not finite"):
        instance_dependent_noise(torch.tensor([0, 1]), TensorInputs(torch.full((2, 2), math.inf)), 3, 0.5, 0)
