"""The model of labels, against loops over rows and classes."""

import math
from dataclasses import replace

import pytest
import torch

from pencil.belief.model import Model, Said, mean_and_error
from pencil.belief.rows import alone_rows

ROWS, CLASSES, FEATURES = 60, 4, 3
FORMS = ["rate", "extra", "gate", "extra and gate"]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def made_model(form, eta=-0.7):
    extra = 1.5 * torch.randn(CLASSES, CLASSES, generator=generator(4)).fill_diagonal_(0)
    share = torch.tensor([0.4, 0.3, 0.2, 0.1])
    return Model(
        torch.tensor([0.9, 0.4, 0.2]),
        torch.tensor([0.3, -0.2, 0.5, 0.0]),
        share,
        "full" if "extra" in form else "rate",
        torch.tensor(eta),
        extra if "extra" in form else None,
        torch.tensor([-1.5, 0.8]) if "gate" in form else None,
    )


@pytest.fixture(scope="module")
def said():
    """Every fifth row has no label, every seventh is verified."""
    random = generator(1)
    given = torch.randint(CLASSES, (ROWS,), generator=random)
    given[::5] = -1
    sure = (torch.arange(ROWS) % 7 == 3) & (given >= 0)
    phi = 2 * torch.randn(FEATURES, ROWS, CLASSES, generator=random)
    return Said(phi, torch.randn(ROWS, generator=random), given, sure, (given >= 0).float())


def softmax(values):
    powers = [math.exp(each) for each in values]
    return [each / sum(powers) for each in powers]


def naive_f(model, said, row):
    slopes, offsets = model.slopes.tolist(), model.offsets.tolist()
    return softmax(
        offsets[each] + sum(slope * float(said.phi[place, row, each]) for place, slope in enumerate(slopes))
        for each in range(CLASSES)
    )


def naive_noise(model):
    """P(g | t), t in rows."""
    result = []
    for true in range(CLASSES):
        extra = [0.0] * CLASSES if model.extra is None else model.extra[true].tolist()
        level = float(model.eta) - math.log(CLASSES - 1)
        result.append(softmax(0.0 if each == true else level + extra[each] for each in range(CLASSES)))
    return result


def naive_heard(model, said, row):
    """P(what was said | t) for each t."""
    label = int(said.given[row])
    if label < 0:
        return [1.0] * CLASSES
    if bool(said.sure[row]):
        return [0.99 if true == label else 0.01 / (CLASSES - 1) for true in range(CLASSES)]
    noise = naive_noise(model)
    return [noise[true][label] for true in range(CLASSES)]


def naive_joint(model, said, row):
    """P(t, what was said | x) for each t, and P(no class, what was said | x)."""
    none, label = 0.0, int(said.given[row])
    if model.gate is not None:
        none = 1 / (1 + math.exp(-float(model.gate[0] + model.gate[1] * said.strange[row])))
    both = [
        (1 - none) * chance * heard
        for chance, heard in zip(naive_f(model, said, row), naive_heard(model, said, row), strict=True)
    ]
    if label >= 0:
        none *= float(model.share[label])
    return both, 1e-12 if bool(said.sure[row]) and model.gate is not None else none


def test_the_features_say_a_distribution(said):
    model = made_model("rate")
    found = model.log_f(said.phi).exp()
    for row in range(ROWS):
        assert found[row].tolist() == pytest.approx(naive_f(model, said, row), rel=1e-4)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("eta", [-14.0, -0.7, 1.0])
def test_noise_is_a_distribution_of_given_classes_for_each_true_one(form, eta):
    model = made_model(form, eta)
    noise = model.log_noise().exp()
    torch.testing.assert_close(noise.sum(1), torch.ones(CLASSES))
    torch.testing.assert_close(noise, torch.tensor(naive_noise(model)), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("form", FORMS)
def test_what_was_said_equals_a_loop(form, said):
    model = made_model(form)
    found = model.heard(said).exp()
    for row in range(ROWS):
        assert found[row].tolist() == pytest.approx(naive_heard(model, said, row), rel=1e-4)


@pytest.mark.parametrize("form", FORMS)
def test_joint_likelihood_and_posterior_equal_a_loop(form, said):
    model = made_model(form)
    both, none = model.joint(model.log_f(said.phi), said)
    likelihood, posterior = model.likelihood(said), model.posterior(said)
    torch.testing.assert_close(posterior.sum(1), torch.ones(ROWS))
    for row in range(ROWS):
        expected, nothing = naive_joint(model, said, row)
        total = sum(expected) + nothing
        assert both[row].exp().tolist() == pytest.approx(expected, rel=1e-4)
        assert float(none[row].exp()) == pytest.approx(nothing, rel=1e-4)
        assert float(likelihood[row]) == pytest.approx(math.log(total), abs=1e-4)
        assert posterior[row].tolist() == pytest.approx(
            [each / total for each in [*expected, nothing]], rel=1e-3, abs=1e-7
        )


@pytest.mark.parametrize("form", FORMS)
def test_likelihoods_of_all_labels_of_a_row_add_up_to_1(form, said):
    model = made_model(form)
    unverified = said._replace(sure=torch.zeros(ROWS, dtype=torch.bool))
    total = sum(
        model.likelihood(unverified._replace(given=torch.full((ROWS,), label))).exp()
        for label in range(CLASSES)
    )
    torch.testing.assert_close(total, torch.ones(ROWS))


def test_a_row_without_a_label_is_what_its_features_say(said):
    model = made_model("extra")
    without = said.given < 0
    posterior = model.posterior(said)[without]
    torch.testing.assert_close(posterior[:, :CLASSES], model.log_f(said.phi).exp()[without])
    torch.testing.assert_close(
        model.likelihood(said)[without], torch.zeros(int(without.sum())), rtol=0, atol=1e-5
    )


def test_without_a_gate_every_row_has_a_class(said):
    assert float(made_model("extra").posterior(said)[:, CLASSES].max()) == 0
    assert float(made_model("gate").posterior(said)[:, CLASSES].max()) > 0.1


def test_a_verified_row_has_a_class(said):
    posterior = made_model("extra and gate").posterior(said._replace(strange=torch.full((ROWS,), 9.0)))
    assert float(posterior[said.sure, CLASSES].max()) < 1e-6
    assert float(posterior[~said.sure, CLASSES].min()) > 0.5


@pytest.mark.parametrize("eta", [-14.0, -2.0, 0.5])
def test_one_rate_equals_its_matrix(eta, said):
    rate = made_model("rate", eta)
    matrix = replace(rate, extra=torch.zeros(CLASSES, CLASSES))
    torch.testing.assert_close(matrix.heard(said), rate.heard(said), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(matrix.posterior(said), rate.posterior(said), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(matrix.likelihood(said), rate.likelihood(said), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(matrix.log_noise(), rate.log_noise())


def test_another_read_out_takes_the_place_of_the_models(said):
    model = made_model("extra")
    other = torch.randn(ROWS, CLASSES, generator=generator(3)).log_softmax(1)
    shifted = model.posterior(said, other)[:, :CLASSES] / model.heard(said).exp()
    torch.testing.assert_close(shifted / shifted.sum(1, keepdim=True), other.exp(), rtol=1e-3, atol=1e-6)


def test_some_rows_say_the_same_as_alone(said):
    model, places = made_model("extra and gate"), torch.tensor([3, 50, 10])
    torch.testing.assert_close(model.posterior(said.take(places)), model.posterior(said)[places])


def test_every_fit_starts_at_the_shares_of_the_labels():
    given = torch.tensor([0] * 6 + [1] * 3 + [-1] * 5)
    nothing = torch.zeros(len(given), 1)
    rows = alone_rows((nothing, nothing), given, torch.zeros(len(given), dtype=torch.bool), 3)
    first = Model.first(2, rows)
    torch.testing.assert_close(first.share, torch.tensor([6.5, 3.5, 0.5]) / 10.5)
    torch.testing.assert_close(first.offsets.exp(), first.share)
    assert len(first.slopes) == 2
    assert first.gate is first.extra is None


def test_a_weighted_mean_and_its_error_equal_a_loop():
    values, weight = torch.randn(40, generator=generator(7)), torch.rand(40, generator=generator(8))
    total = sum(weight.tolist())
    mean = sum(value * each for value, each in zip(values.tolist(), weight.tolist(), strict=True)) / total
    square = sum(
        ((value - mean) * each) ** 2 for value, each in zip(values.tolist(), weight.tolist(), strict=True)
    )
    assert mean_and_error(values, weight) == pytest.approx((mean, math.sqrt(square) / total), rel=1e-5)
    assert mean_and_error(values, torch.zeros(40)) == (0, 0)
