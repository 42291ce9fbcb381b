"""DivideMix: each equation against a naive loop, each network told by the other, run by the one loop."""

import math

import pytest
import torch

from pencil.algorithm import cross_entropy, entropy_loss, three_phases
from pencil.config import RunConfig
from pencil.engine import LabelLearner, Loop
from pencil.engine.mixing import Blend, mixed_losses
from pencil.errors import ConfigError, RunError
from pencil.methods import CrossEntropy, DivideMix
from pencil.methods.dividemix import divided_losses, given_losses, guessed_targets, sharpened
from pencil.methods.mixture import UNSEEN
from pencil.run.method import check_networks
from pencil.stores import GivenLabels

pytestmark = pytest.mark.slow

GIVEN = torch.tensor([0, 2, 1, 2, 0])
PAIR = {"model": "pair", "args": {"name": "linear"}}
MIXTURES = {
    "means": torch.tensor([[0.1, 0.8], [0.2, 0.7]], dtype=torch.float64),
    "variances": torch.tensor([[0.02, 0.03], [0.01, 0.05]], dtype=torch.float64),
    "weights": torch.tensor([[0.6, 0.4], [0.3, 0.7]], dtype=torch.float64),
    "ranges": torch.tensor([[0.0, 4.0], [1.0, 3.0]], dtype=torch.float64),
}


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_it_declares_what_it_is():
    method = DivideMix()
    assert (method.networks, method.learns_labels, method.cut(1)) == (2, False, None)
    assert method.mixing() is method
    assert CrossEntropy().mixing() is None


def test_losses_are_the_cross_entropy_of_either_network(given):
    logits = random(5, 2, 3)
    expected = torch.stack([cross_entropy(logits[:, net], given) for net in (0, 1)], dim=1)
    torch.testing.assert_close(given_losses(logits.softmax(dim=2), given), expected)


def test_a_network_is_told_by_the_losses_and_the_mixture_of_the_other(moment):
    rows = torch.tensor([[0.3, 1.2], [3.5, 2.9], [1.9, 1.5]], dtype=torch.float64)
    found = DivideMix().clean_probability(rows, moment(**MIXTURES))
    for row, pair in enumerate(rows.tolist()):
        for net in (0, 1):
            other = 1 - net
            low, high = MIXTURES["ranges"][other].tolist()
            x, parts = (pair[other] - low) / (high - low), []
            for k in (0, 1):
                mean, variance, weight = (
                    float(MIXTURES[name][other, k]) for name in ("means", "variances", "weights")
                )
                density = math.exp(-((x - mean) ** 2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)
                parts.append(weight * density)
            assert float(found[row, net]) == pytest.approx(parts[0] / sum(parts), rel=1e-9)


def test_an_example_without_a_loss_is_labelled(moment):
    found = DivideMix().clean_probability(torch.tensor([[UNSEEN, UNSEEN], [4.0, 3.0]]), moment(**MIXTURES))
    assert found[0].tolist() == [1, 1]
    assert float(found[1].max()) < 0.01


def test_targets_are_those_of_a_naive_loop(given, as_lists):
    probs = random(2, 5, 2, 3).softmax(dim=3)
    clean = torch.rand(5, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    labelled = clean >= 0.5
    assert labelled.any()
    assert not labelled.all()
    found = guessed_targets(probs, given, clean, labelled, 0.5)
    for row, believed in enumerate(as_lists(given)):
        for net in (0, 1):
            own = [sum(float(probs[view, row, net, j]) for view in (0, 1)) / 2 for j in range(3)]
            other = [sum(float(probs[view, row, 1 - net, j]) for view in (0, 1)) / 2 for j in range(3)]
            w = float(clean[row, net])
            if labelled[row, net]:
                target = [w * believed[j] + (1 - w) * own[j] for j in range(3)]
            else:
                target = [(own[j] + other[j]) / 2 for j in range(3)]
            squares = [value**2 for value in target]  # T = 1/2
            naive = [value / sum(squares) for value in squares]
            assert found[row, net].tolist() == pytest.approx(naive, rel=1e-9)


def test_a_sure_target_stays_and_others_are_sharpened():
    found = sharpened(torch.tensor([[1.0, 0.0, 0.0], [0.6, 0.3, 0.1]]), 0.5)
    assert found[0].tolist() == [1, 0, 0]
    assert found[1].tolist() == pytest.approx([0.36 / 0.46, 0.09 / 0.46, 0.01 / 0.46])


@pytest.mark.parametrize("some", [(True, False, True, True, False), (True,) * 5, (False,) * 5])
def test_the_loss_is_that_of_a_naive_loop(softmax, some):
    logits, targets = random(5, 2, 3), random(5, 2, 3, seed=1).softmax(dim=2)
    labelled = torch.tensor([some, some[::-1]]).T
    naive = 0.0
    for net in (0, 1):
        probs = [softmax(row) for row in logits[:, net].tolist()]
        wanted, told = targets[:, net].tolist(), labelled[:, net].tolist()
        entropies = [
            -sum(t * math.log(p) for t, p in zip(*pair, strict=True))
            for pair in zip(wanted, probs, strict=True)
        ]
        errors = [
            sum((t - p) ** 2 for t, p in zip(*pair, strict=True)) / 3
            for pair in zip(wanted, probs, strict=True)
        ]
        of_told = [value for value, here in zip(entropies, told, strict=True) if here]
        of_rest = [value for value, here in zip(errors, told, strict=True) if not here]
        naive += sum(of_told) / max(1, len(of_told)) + 7.0 * sum(of_rest) / max(1, len(of_rest))
        means = [sum(row[j] for row in probs) / 5 for j in range(3)]
        naive += sum(math.log((1 / 3) / mean) / 3 for mean in means)
    assert float(divided_losses(logits, targets, labelled, 7.0).mean()) == pytest.approx(naive, rel=1e-9)


def test_the_weight_of_the_unlabelled_grows_over_the_first_epochs_of_correction(moment):
    method = DivideMix(unlabelled_weight=8.0, ramp=4.0)
    found = [method._unlabelled_weight(moment(elapsed=elapsed)) for elapsed in (0, 1, 4, 9)]
    assert found == [0, 2, 8, 8]
    assert method._unlabelled_weight(moment("finetune")) == 8


def test_the_backbone_phase_is_cross_entropy_with_a_penalty_on_request(moment, given):
    logits = random(5, 2, 3)
    sums = [
        sum(loss(logits[:, net]) for net in (0, 1))
        for loss in (lambda f: cross_entropy(f, given), entropy_loss)
    ]
    plain = DivideMix().step(logits, torch.empty(5, 2), given, moment("backbone"))
    torch.testing.assert_close(plain.loss, sums[0])
    penalised = DivideMix(confidence_penalty=0.5).step(logits, torch.empty(5, 2), given, moment("backbone"))
    torch.testing.assert_close(penalised.loss, sums[0] - 0.5 * sums[1])


def test_a_step_without_mixing_is_refused_where_it_mixes(moment):
    with pytest.raises(RunError, match="call guess and mixed_loss"):
        DivideMix().step(random(5, 2, 3), torch.empty(5, 2), GIVEN, moment())
    with pytest.raises(ValueError, match=r"logits: \(5, 3\) must be of two networks"):
        DivideMix().step(random(5, 3), torch.empty(5, 2), GIVEN, moment("backbone"))
    with pytest.raises(ValueError, match=r"predictions: \(2, 3\) must be of two networks"):
        learner_of_two().survey(look_at(random(5, 3)))


@pytest.mark.parametrize(
    "settings",
    [
        {"threshold": 1.1},
        {"temperature": 0},
        {"unlabelled_weight": -1},
        {"ramp": 0},
        {"alpha": 0},
        {"views": 0},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_senseless_settings_are_refused_by_name(settings):
    with pytest.raises(ValueError, match=f"^{next(iter(settings))}: "):
        DivideMix(**settings)


def test_a_blend_is_a_pure_function_of_its_key_and_mixes_as_a_naive_loop():
    blend = Blend.drawn(4.0, 6, 5, 1, 2)
    again, other = Blend.drawn(4.0, 6, 5, 1, 2), Blend.drawn(4.0, 6, 5, 1, 3)
    assert (again.share, again.order.tolist()) == (blend.share, blend.order.tolist())
    assert other.share != blend.share
    assert sorted(blend.order.tolist()) == list(range(6))
    values = random(6, 2)
    for place, found in enumerate(blend(values).tolist()):
        partner = values[int(blend.order[place])].tolist()
        mine = values[place].tolist()
        naive = [blend.share * a + (1 - blend.share) * b for a, b in zip(mine, partner, strict=True)]
        assert found == pytest.approx(naive)


def test_shares_are_those_of_the_beta_distribution():
    shares = torch.tensor([Blend.drawn(4.0, 1, 0, number).share for number in range(2000)])
    assert float(shares.min()) >= 0.5
    assert float((2 * shares - 1).square().mean()) == pytest.approx(1 / 9, abs=0.01)  # 4 Var Beta(4, 4)


def learner_of_two(trusted=None):
    labels = GivenLabels.of(GIVEN, 3, trusted)
    phases = three_phases(1, 2, 0, learning_rate=0.1, finetune_rate=0.1)
    learner = LabelLearner(DivideMix(), labels, phases)
    learner.epoch = 1.0
    return learner


def look_at(probs):
    return lambda: iter([(torch.arange(2), probs[:2]), (torch.arange(2, 5), probs[2:])])


def test_a_survey_writes_the_rows_and_leaves_trusted_ones():
    probs = random(5, 2, 3).softmax(dim=2).float()
    learner, noted = learner_of_two(torch.tensor([False, True, False, False, False])), []
    learner.before_write = lambda rows: noted.extend(rows.tolist())
    learner.survey(look_at(probs))
    expected = given_losses(probs, GIVEN)
    expected[1] = UNSEEN
    assert torch.equal(learner.store.gather(torch.arange(5)), expected)
    assert noted == [0, 2, 3, 4]
    seen = expected[[0, 2, 3, 4]].double()
    torch.testing.assert_close(
        learner.shared["ranges"], torch.stack([seen.amin(dim=0), seen.amax(dim=0)], dim=1), rtol=0.01, atol=0
    )


def test_trusted_rows_are_always_labelled_and_keep_their_label():
    learner = learner_of_two(torch.tensor([False, True, False, False, False]))
    learner.survey(look_at(random(5, 2, 3).softmax(dim=2).float()))
    guess = learner.guess(random(2, 5, 2, 3), torch.arange(5))
    assert guess.labelled[1].tolist() == [True, True]
    assert guess.targets[1].tolist() == [[0, 0, 1], [0, 0, 1]]


def test_no_gradient_passes_through_the_guess_or_from_one_network_to_the_other():
    learner = learner_of_two()
    weights = random(2, 4, 3).float().requires_grad_()  # two linear networks
    calls = []

    def forward(inputs):
        calls.append((len(inputs), torch.is_grad_enabled()))
        return torch.einsum("bi,nic->bnc", inputs, weights)

    views = [random(5, 4, seed=seed).float() for seed in (1, 2)]
    losses, logits = mixed_losses(learner, forward, views, torch.arange(5), (0, 1))
    assert calls == [(10, False), (10, True)]
    assert losses.shape == (5,)
    torch.testing.assert_close(logits, forward(views[0]))
    losses.sum().backward()
    assert bool((weights.grad.abs().sum(dim=(1, 2)) > 0).all())


class Last:
    def handle(self, event):
        if event.kind == "epoch":
            self.values = event.values

    def close(self):
        pass


def trained(training):
    last = Last()
    training.events.listeners = (last,)
    training.evaluate_every = 99
    assert Loop(training).run()
    return last.values


def test_on_noisy_labels_it_beats_cross_entropy_and_tells_right_labels_from_wrong(blobs, make_training):
    plan = {"epochs": (4, 16, 4), "rate": 0.1}
    training = make_training(blobs, method=DivideMix(ramp=8.0), **plan, **PAIR)
    found = trained(training)["test_accuracy"]
    assert found > trained(make_training(blobs, method=CrossEntropy(), **plan))["test_accuracy"]
    learner = training.learner
    clean = learner.method.clean_probability(learner.store.gather(torch.arange(600)), learner.moment) >= 0.5
    right = (blobs.train.labels.hard == blobs.train.reference)[:, None]
    assert float((clean == right).double().mean()) > 0.9


def test_it_trains_on_two_views_of_images(images, make_training):
    from pencil.data import Augment

    training = make_training(
        images,
        method=DivideMix(),
        model="pair",
        args={"name": "small_cnn"},
        augment=Augment(pad=2, flip=True),
        batch_size=12,
    )
    assert math.isfinite(trained(training)["loss"])


@pytest.mark.parametrize(
    ("accumulate", "kept"), [(1, 2), (1, 3), (3, 2)], ids=["14", "21", "14, accumulated"]
)
def test_it_resumes_bit_for_bit(blobs, make_training, carry_on, tmp_path, accumulate, kept):
    """Steps 10 to 29 mix; the checkpoint of step 10 would precede a survey, so step 14 and 21 hold one."""
    options = {"method": DivideMix(), "accumulate": accumulate, **PAIR}
    whole = make_training(blobs, tmp_path / "whole", checkpoint_steps=7, keep=9, **options)
    assert carry_on(whole, tmp_path / "whole.jsonl")[1]
    for later in sorted((tmp_path / "whole" / "checkpoints").glob("step-*"))[kept:]:
        later.rename(tmp_path / later.name)
    resumed = make_training(blobs, tmp_path / "whole", accumulate=accumulate, method=DivideMix(), **PAIR)
    loop = Loop(resumed)
    assert loop.resume()
    assert loop.step == 7 * kept
    assert loop.run()
    expected, found = (
        {**each.model.state_dict(), **each.learner.store.state(), **each.learner.shared}
        for each in (whole, resumed)
    )
    for name, value in expected.items():
        assert torch.equal(found[name], value), name


def test_it_needs_a_pair():
    config = RunConfig.of(
        {
            "data": {"kind": "features", "path": "x.npz"},
            "model": {"name": "linear"},
            "method": {"name": "dividemix", "ramp": 3},
            "phases": [{"name": "correction", "epochs": 1, "learning_rate": 0.1}],
        }
    )
    assert config.method == DivideMix(ramp=3.0)
    with pytest.raises(ConfigError, match="method dividemix trains two networks"):
        check_networks(config)
