"""Fits of the model to labels that were drawn from it."""

import math
from dataclasses import replace

import pytest
import torch

from pencil.belief.fitting import Rung, Tried, climbed, counted, excessive, fitted, halves, likeliest
from pencil.belief.model import Model, Said

ROWS, CLASSES = 3000, 5
SLOPES = torch.tensor([1.5, 0.7])
SWAPPED = torch.zeros(CLASSES, CLASSES, dtype=torch.bool)
SWAPPED[0, 1] = SWAPPED[1, 0] = True
RUNGS = [Rung("rate"), Rung("pairs", SWAPPED), Rung("full")]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def uniform(classes, rate):
    return torch.full((classes, classes), rate / (classes - 1)).fill_diagonal_(1 - rate)


def swapped(rate):
    noise = uniform(CLASSES, rate)
    noise[[0, 1]] = noise[[1, 0]]
    return noise


def draw(noise, *, rows=ROWS, features=2, seed=0):
    """What is said of rows whose true classes (N,) follow their features, and labels the noise (C, C)."""
    random, classes = generator(seed), len(noise)
    phi = 2 * torch.randn(features, rows, classes, generator=random)
    truth = (SLOPES[:features, None, None] * phi).sum(0).softmax(1).multinomial(1, generator=random)[:, 0]
    given = noise[truth].multinomial(1, generator=random)[:, 0]
    strange = torch.randn(rows, generator=random)
    return Said(phi, strange, given, torch.zeros(rows, dtype=torch.bool), torch.ones(rows)), truth


def start(said):
    share = torch.bincount(said.given.clamp_min(0), minlength=said.phi.shape[2]) + 0.5
    share = share / share.sum()
    return Model(torch.tensor([0.8, 0.4])[: len(said.phi)], share.log(), share, "rate", torch.tensor(-2.0))


def sides(rows):
    return torch.arange(rows) % 2


@pytest.mark.parametrize("features", [1, 2])
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3, 0.5])
def test_slopes_and_rate_are_recovered(rate, features):
    said, truth = draw(uniform(CLASSES, rate), features=features)
    model = fitted(start(said), Rung("rate"), said)
    torch.testing.assert_close(model.slopes, SLOPES[:features], rtol=0.1, atol=0.05)
    assert float(model.eta.sigmoid()) == pytest.approx(rate, abs=0.025)
    right = float((model.posterior(said).argmax(1) == truth).float().mean())
    assert right > float((said.given == truth).float().mean()) - 1e-3


def test_the_whole_matrix_is_recovered():
    noise = torch.tensor(
        [
            [0.6, 0.3, 0.05, 0.03, 0.02],
            [0.02, 0.9, 0.02, 0.04, 0.02],
            [0.1, 0.1, 0.6, 0.1, 0.1],
            [0.01, 0.01, 0.01, 0.96, 0.01],
            [0.05, 0.05, 0.25, 0.05, 0.6],
        ]
    )
    said, _ = draw(noise)
    found = fitted(start(said), Rung("full"), said).log_noise().exp()
    torch.testing.assert_close(found, noise, rtol=0, atol=0.06)


def test_verified_rows_say_more():
    said, truth = draw(uniform(CLASSES, 0.5), rows=400)
    sure = torch.arange(400) % 2 == 0
    known = said._replace(given=torch.where(sure, truth, said.given), sure=sure)
    model = fitted(start(known), Rung("rate"), known)
    assert float(model.eta.sigmoid()) == pytest.approx(
        0.5, abs=0.12
    )  # verified labels do not make noise rarer
    right = model.posterior(known)[:, :CLASSES].argmax(1) == truth
    assert float(right[sure].float().mean()) > 0.97
    assert float(right[~sure].float().mean()) < 0.95


def test_rows_without_weight_or_label_change_nothing():
    said, _ = draw(uniform(CLASSES, 0.2), rows=800)
    some = torch.arange(800) < 400
    first = start(said)
    expected = fitted(first, Rung("rate"), said.take(some))
    nothing = said._replace(weight=some.float())
    unknown = said._replace(given=torch.where(some, said.given, -1), weight=some.float())
    for each in (nothing, unknown):
        found = fitted(first, Rung("rate"), each)
        torch.testing.assert_close(found.slopes, expected.slopes, rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(found.eta, expected.eta, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
@pytest.mark.parametrize("rate", [0.1, 0.6, 0.9])
def test_the_rate_stays_within_its_bound_although_two_classes_are_swapped(rung, rate):
    said, _ = draw(swapped(rate))
    model = fitted(start(said), rung, said)
    assert float(model.eta) < math.log(CLASSES - 1)
    noise = replace(model, extra=None).log_noise().exp()
    wrong = noise.clone().fill_diagonal_(0)
    assert bool((noise.diagonal()[:, None] > wrong).all())
    assert bool(torch.stack([model.eta, *model.slopes, *model.offsets]).isfinite().all())
    assert float(model.slopes.min()) > 0


def test_one_rate_never_turns_a_label_into_another_class():
    given = torch.arange(ROWS) % CLASSES
    phi = 4.0 * torch.nn.functional.one_hot((given + 1) % CLASSES, CLASSES)[None]  # always another class
    said = Said(phi, torch.zeros(ROWS), given, torch.zeros(ROWS, dtype=torch.bool), torch.ones(ROWS))
    model = fitted(start(said), Rung("rate"), said)
    noise = model.log_noise().exp()
    assert float(noise[0, 0]) > float(noise[0, 1]) * 1.05


def naive_value(model, said, gate):
    """The mean penalised log-likelihood that a fit maximises."""
    width = 3.0 if model.rung == "pairs" else 1.5
    penalty = float(model.slopes.double().square().sum()) / 100
    penalty += float((model.offsets - model.share.log()).double().square().sum()) / 2
    if model.extra is not None:
        penalty += float(model.extra.double().square().sum()) / (2 * width**2)
    if gate:
        penalty += 0.005 * (float(model.gate[0]) + 4) ** 2 + 0.05 * (float(model.gate[1]) - 1) ** 2
    likelihood = (model.likelihood(said).double() * said.weight).sum()
    return float((likelihood - penalty) / said.weight.sum())


def moved(model, rung):
    """Models with one parameter changed."""
    for step in (-0.05, 0.05):
        for place in range(len(model.slopes)):
            yield replace(
                model, slopes=model.slopes.index_add(0, torch.tensor([place]), torch.tensor([step]))
            )
        for place in range(len(model.offsets)):
            yield replace(
                model, offsets=model.offsets.index_add(0, torch.tensor([place]), torch.tensor([step]))
            )
        yield replace(model, eta=model.eta + step)
        for i, j in (rung.pairs if rung.pairs is not None else torch.ones(0, 2)).nonzero().tolist():
            yield with_extra(model, i, j, step)
        if rung.name == "full":
            yield from (with_extra(model, i, (i + 1) % CLASSES, step) for i in range(CLASSES))
        if model.gate is not None:
            yield from (
                replace(model, gate=model.gate + torch.tensor(each) * step) for each in ([1.0, 0], [0, 1.0])
            )


def with_extra(model, i, j, step):
    extra = model.extra.clone()
    extra[i, j] += 4 * step
    return replace(model, extra=extra)


@pytest.mark.parametrize("gate", [False, True])
@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_a_fit_ends_where_no_parameter_raises_its_value(rung, gate):
    noise = uniform(CLASSES, 0.15)
    noise[0], noise[1] = (
        torch.tensor([0.6, 0.3, 0.05, 0.03, 0.02]),
        torch.tensor([0.25, 0.7, 0.02, 0.02, 0.01]),
    )
    said, _ = draw(noise)
    said = said._replace(weight=torch.rand(ROWS, generator=generator(3)))
    model = fitted(start(said), rung, said, gate=gate)
    best = naive_value(model, said, gate)
    assert model.value == pytest.approx(best, abs=1e-5)
    assert best > naive_value(start(said), said, False)
    tried = [naive_value(each, said, gate) for each in moved(model, rung)]
    assert len(tried) >= 16
    assert max(tried) < best + 3e-5  # a hundredth of a nat for all rows together
    assert min(tried) < best - 1e-5


def test_frozen_noise_is_kept():
    said, _ = draw(uniform(CLASSES, 0.3))
    first = replace(start(said), eta=torch.tensor(-3.0))
    model = fitted(first, Rung("rate"), said, frozen=True)
    assert float(model.eta) == -3
    assert model.value > naive_value(first, said, False)
    assert not torch.equal(model.slopes, first.slopes)


def test_fits_leave_no_gradients_behind():
    said, _ = draw(uniform(CLASSES, 0.2), rows=300)
    model = fitted(start(said), Rung("full"), said, gate=True)
    for each in (model.slopes, model.offsets, model.eta, model.extra, model.gate):
        assert not each.requires_grad


def test_rows_are_judged_by_the_model_of_the_other_half():
    said, _ = draw(uniform(CLASSES, 0.2), rows=600)
    half, first = sides(600), start(said)
    found = halves(said, half, Rung("rate"), (first, first))
    for row in range(0, 600, 50):
        side = int(half[row])
        one = said.take(torch.tensor([row]))
        assert float(found.likelihood[row]) == pytest.approx(
            float(found.models[side].likelihood(one)), abs=1e-4
        )
    learned = fitted(first, Rung("rate"), said.take(half != 0), steps=80)
    torch.testing.assert_close(found.models[0].slopes, learned.slopes)


def test_counts_of_believed_and_given_classes_equal_a_loop():
    said, _ = draw(uniform(CLASSES, 0.3), rows=200)
    said = said._replace(
        given=said.given.masked_fill(torch.arange(200) % 6 == 0, -1),
        weight=torch.rand(200, generator=generator(2)),
    )
    believed = torch.rand(200, CLASSES, generator=generator(1)).softmax(1)
    expected = torch.zeros(CLASSES, CLASSES)
    for row, label in enumerate(said.given.tolist()):
        if label >= 0:
            expected[:, label] += believed[row] * said.weight[row]
    torch.testing.assert_close(counted(believed, said), expected)


def test_pairs_that_were_planted_are_found():
    planted = torch.zeros(20, 20, dtype=torch.bool)
    planted[3, 4] = planted[4, 3] = planted[7, 0] = planted[7, 1] = planted[12, 19] = True
    for seed in range(5):
        joint = torch.poisson(torch.full((20, 20), 6.0), generator=generator(seed))
        joint = (joint + 80 * planted).fill_diagonal_(900)
        found = excessive(joint)
        assert bool(found[planted].all())
        assert int(found.sum()) <= int(planted.sum()) + 2


def test_no_pair_is_found_in_uniform_noise():
    for mean in (0.0, 0.5, 3.0, 500.0):
        assert not bool(excessive(torch.full((20, 20), mean).fill_diagonal_(2000)).any())
    found = [
        excessive(torch.poisson(torch.full((20, 20), mean), generator=generator(seed))).float().mean()
        for seed in range(10)
        for mean in (0.5, 6.0, 100.0)
    ]
    assert float(torch.stack(found).mean()) < 2e-3  # three standard errors leave about one in a thousand


def test_no_pair_is_found_where_a_class_is_noisy_as_a_whole():
    joint = torch.poisson(torch.full((20, 20), 5.0), generator=generator())
    joint[6] = torch.poisson(torch.full((20,), 60.0), generator=generator(1))
    assert int(excessive(joint.fill_diagonal_(900))[6].sum()) == 0


def tried(name, likelihood):
    return Tried(Rung(name), (None, None), torch.as_tensor(likelihood))


def test_the_whole_matrix_is_preferred_unless_it_is_rejected_clearly():
    weight = torch.ones(1000)
    noise = 0.01 * torch.randn(1000, generator=generator())
    full = tried("full", -1 + noise)
    assert likeliest([tried("rate", -1.5 + noise), full], weight) is full
    slightly = tried("pairs", -0.997 + noise)  # by 0.003 nats, and exactly so
    assert likeliest([tried("rate", -1.5 + noise), slightly, full], weight) is full
    clearly = tried("pairs", -0.98 + noise)
    assert likeliest([tried("rate", -1.5 + noise), clearly, full], weight) is clearly
    unsure = tried("rate", -0.98 + 2 * torch.randn(1000, generator=generator(1)))
    assert likeliest([unsure, full], weight) is full


def test_without_the_whole_matrix_the_likeliest_is_taken():
    one, other = tried("rate", torch.full((50,), -1.0)), tried("pairs", torch.full((50,), -0.999))
    assert likeliest([one, other], torch.ones(50)) is other
    assert likeliest([one, tried("pairs", torch.full((50,), -1.001))], torch.ones(50)) is one
    assert likeliest([one], torch.ones(50)) is one


def test_rows_without_weight_do_not_choose():
    weight = (torch.arange(100) < 50).float()
    one = tried("rate", torch.where(weight > 0, -1.0, 9.0))
    other = tried("pairs", torch.where(weight > 0, -0.9, -9.0))
    assert likeliest([one, other], weight) is other


def test_planted_confusion_is_climbed_to():
    noise = uniform(CLASSES, 0.1)
    noise[0] = torch.tensor([0.6, 0.35, 0.02, 0.02, 0.01])
    said, truth = draw(noise)
    model = climbed(said, sides(ROWS), start(said), gated=True)
    assert model.rung in ("pairs", "full")
    assert float(model.log_noise().exp()[0, 1]) == pytest.approx(0.35, abs=0.06)
    rate = fitted(start(said), Rung("rate"), said)

    def right(each):
        return float((each.posterior(said).argmax(1) == truth).float().mean())

    assert right(model) > right(rate)


@pytest.fixture(scope="module")
def two_pairs():
    """Few rows of twelve classes, two of which run into another."""
    noise = uniform(12, 0.1)
    noise[0, 1], noise[0, 0] = 0.36, 0.55
    noise[5, 9], noise[5, 5] = 0.36, 0.55
    return draw(noise / noise.sum(1, keepdim=True), rows=2000)[0]


def test_pairs_are_found_where_rows_are_too_few_for_the_whole_matrix(two_pairs):
    model = climbed(two_pairs, sides(2000), start(two_pairs), gated=False)
    assert model.rung == "pairs"
    assert (model.extra > 0.5).nonzero().tolist() == [[0, 1], [5, 9]]


def test_a_fit_that_starts_from_one_rate_finds_the_same_pairs(two_pairs):
    pairs = torch.zeros(12, 12, dtype=torch.bool)
    pairs[0, 1] = pairs[5, 9] = True
    first, rung = start(two_pairs), Rung("pairs", pairs)
    direct = fitted(first, rung, two_pairs)
    later = fitted(fitted(first, Rung("rate"), two_pairs), rung, two_pairs)
    torch.testing.assert_close(later.log_noise().exp(), direct.log_noise().exp(), rtol=0, atol=0.02)
    assert later.value == pytest.approx(direct.value, abs=1e-3)


def test_uniform_noise_of_many_classes_is_one_rate():
    said, _ = draw(uniform(12, 0.2), rows=2000)
    model = climbed(said, sides(2000), start(said), gated=True)
    assert model.rung == "rate"
    assert model.extra is model.gate is None
    assert float(model.eta.sigmoid()) == pytest.approx(0.2, abs=0.03)


def test_two_classes_have_one_rate():
    said, _ = draw(torch.tensor([[0.9, 0.1], [0.3, 0.7]]))
    assert climbed(said, sides(ROWS), start(said), gated=True).rung == "rate"


def test_strange_rows_with_any_label_have_no_class():
    said, _ = draw(uniform(CLASSES, 0.1))
    odd = torch.arange(ROWS) % 10 == 0
    said = said._replace(
        strange=torch.where(odd, 6.0, said.strange),
        given=torch.where(odd, torch.randint(CLASSES, (ROWS,), generator=generator(9)), said.given),
    )
    model = climbed(said, sides(ROWS // 2).repeat_interleave(2), start(said), gated=True)
    assert model.gate is not None
    none = model.posterior(said)[:, CLASSES]
    assert float(none[odd].mean()) > 0.8
    assert float(none[~odd].mean()) < 0.05
    assert climbed(said, sides(ROWS), start(said), gated=False).gate is None
