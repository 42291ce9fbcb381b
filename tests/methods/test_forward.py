"""Forward correction: the loss against a naive loop, T̂ against sorting, and the same T̂ from any number of ranks."""

import math
import threading
from dataclasses import replace

import pytest
import torch

from pencil.algorithm import cross_entropy, moment_at, three_phases
from pencil.algorithm.transition import circular_matrix, symmetric_matrix
from pencil.config import RunConfig
from pencil.engine import LabelLearner, Loop
from pencil.errors import ConfigError, RunError
from pencil.methods import Forward, Survey
from pencil.methods.forward import bins_of, estimated_transition
from pencil.run.method import build_method

MATRIX = ((0.7, 0.2, 0.1), (0.0, 1.0, 0.0), (0.3, 0.3, 0.4))


def test_the_loss_is_that_of_a_naive_loop(logits, given, moment, softmax, as_lists):
    method = Forward(transition=MATRIX)
    step = method.step(logits, method.start_rows(given, 3), given, moment(**method.start_shared(3)))
    for index, (label, row) in enumerate(zip(as_lists(given), logits.tolist(), strict=True)):
        probs = softmax(row)
        labelled = [sum(probs[i] * MATRIX[i][j] for i in range(3)) for j in range(3)]
        loss = -sum(y * math.log(value) for y, value in zip(label, labelled, strict=True))
        assert float(step.loss[index].detach()) == pytest.approx(loss, rel=1e-6)


def test_the_identity_is_cross_entropy(logits, given, moment):
    method = Forward(transition=((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)))
    for phase in ("backbone", "correction", "finetune"):
        shared = method.start_shared(3)
        loss = method.step(logits, method.start_rows(given, 3), given, moment(phase, **shared)).loss
        torch.testing.assert_close(loss, cross_entropy(logits, given))


def test_a_known_matrix_serves_in_every_phase_and_needs_no_survey(logits, given, moment):
    method = Forward(transition=MATRIX)
    shared = method.start_shared(3)
    losses = [
        method.step(logits, method.start_rows(given, 3), given, moment(phase, **shared)).loss
        for phase in ("backbone", "correction", "finetune")
    ]
    assert torch.equal(losses[0], losses[1])
    assert torch.equal(losses[0], losses[2])
    assert not torch.allclose(losses[0], cross_entropy(logits, given))
    assert not method.survey_due(moment("correction"))


def test_an_estimate_is_due_once_as_correction_begins_and_the_backbone_is_cross_entropy(
    logits, given, moment
):
    method = Forward()
    due = [(phase, at) for phase in ("backbone", "correction", "finetune") for at in (0.0, 1.0)]
    assert [method.survey_due(moment(*each)) for each in due] == [False, False, True, False, False, False]
    start = method.start_shared(3)
    loss = method.step(logits, method.start_rows(given, 3), given, moment("backbone", **start)).loss
    assert torch.equal(loss, cross_entropy(logits, given))


def predictions(rows=500, classes=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (3 * torch.randn(rows, classes, generator=generator)).softmax(dim=1)


def in_batches(probs):
    return lambda: zip(torch.arange(len(probs)).split(64), probs.split(64), strict=True)


def survey_of(probs, total=lambda values: values):
    def seen():
        return ((indices, batch, indices * 0) for indices, batch in in_batches(probs)())

    return Survey(probs.shape[1], seen, rows=lambda: pytest.fail("asked for rows"), write=None, total=total)


def nearest_by_sorting(probs, quantile):
    """For each class f_i of the example with a share of 1 - quantile above it."""
    above = math.floor((1 - quantile) * len(probs))
    return probs.sort(dim=0, descending=True).values[above]


@pytest.mark.parametrize("quantile", [0.5, 0.97, 1.0])
def test_the_anchors_are_at_the_quantile(quantile):
    probs = predictions()
    found = estimated_transition(survey_of(probs), quantile)
    torch.testing.assert_close(found.sum(dim=1), torch.ones(4))
    torch.testing.assert_close(found.diagonal(), nearest_by_sorting(probs, quantile), rtol=0.008, atol=0)


def test_the_surest_example_is_the_anchor_where_it_is_alone():
    probs = torch.tensor([[0.8, 0.15, 0.05], [0.1, 0.6, 0.3], [0.2, 0.1, 0.7], [0.4, 0.3, 0.3]])
    found = estimated_transition(survey_of(probs), 1.0)
    torch.testing.assert_close(found, probs[:3])


def test_anchors_give_the_matrix_back():
    """A network that predicts noisy labels perfectly: its predictions at sure examples are the rows of T."""
    truth = torch.arange(3).repeat(20)
    found = estimated_transition(survey_of(torch.tensor(MATRIX)[truth]), 0.97)
    torch.testing.assert_close(found, torch.tensor(MATRIX))


def test_bins_are_in_order_and_fine():
    probs = torch.logspace(-9, 0, 20_000, dtype=torch.float64).float()[:, None]
    bins = bins_of(probs)[:, 0]
    assert (bins.diff() >= 0).all()
    assert int(bins.min()) == 0
    assert int(bins.max()) < 24 * 128 + 1
    for number in bins.unique()[1:].tolist():
        held = probs[bins == number]
        assert float(held.max() / held.min()) < 1.0079
    assert bins_of(torch.zeros(1, 1)).item() == 0


class Ranks:
    """Threads in place of processes: ``total`` waits for all and sums."""

    def __init__(self, count):
        self.barrier, self.given = threading.Barrier(count), {}

    def total(self, rank):
        def of(values):
            self.given[rank] = values
            self.barrier.wait()
            result = sum(self.given[each] for each in sorted(self.given))
            self.barrier.wait()
            return result

        return of


@pytest.mark.parametrize("count", [2, 3])
def test_ranks_estimate_what_one_process_would(count):
    probs = predictions()
    whole = estimated_transition(survey_of(probs), 0.97)
    ranks, found = Ranks(count), {}

    def work(rank):
        survey = survey_of(probs.tensor_split(count)[rank], ranks.total(rank))
        found[rank] = estimated_transition(survey, 0.97)

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for each in found.values():
        torch.testing.assert_close(each, whole)
        assert torch.equal(each, found[0])
    assert len(found) == count


def test_the_loop_estimates_at_the_start_of_correction(blobs, make_training):
    training = make_training(blobs, method=Forward(), epochs=(15, 1, 1))
    Loop(training).run()
    found = training.learner.shared["transition"]
    torch.testing.assert_close(found.sum(dim=1), torch.ones(10))
    expected = symmetric_matrix(10, 0.4).float()
    assert float((found - expected).abs().mean()) < 0.5 * float((torch.eye(10) - expected).abs().mean())


def test_a_loop_of_ones_own_surveys_through_the_learner(moment):
    learner = LabelLearner(
        Forward(anchor=0.0),
        torch.tensor([0, 1, 2]),
        three_phases(1, 1, 0, learning_rate=0.1, finetune_rate=0.1),
    )
    probs, rows, logits = torch.tensor(MATRIX), torch.arange(3), torch.zeros(3, 3)
    for epoch in learner.epochs():
        if epoch == 1:
            with pytest.raises(RunError, match=r"LabelLearner\.survey"):
                learner.loss(logits, rows)
        learner.survey(in_batches(probs))
        assert bool(learner.shared["transition"].any()) == (epoch == 1)
    torch.testing.assert_close(learner.shared["transition"][0], probs[0])
    expected = -(torch.full((3,), 1 / 3) @ learner.shared["transition"]).log()
    torch.testing.assert_close(learner.loss(logits, rows, reduction="none"), expected)


def config(noise, **method):
    return RunConfig.of(
        {
            "data": {"kind": "features", "path": "x.npz", **({"noise": noise} if noise else {})},
            "model": {"name": "linear"},
            "method": {"name": "forward", **method},
            "phases": [{"name": "correction", "epochs": 1, "learning_rate": 0.1}],
        }
    )


def test_a_run_takes_the_matrix_of_its_own_noise(blobs):
    settings = config({"kind": "circular", "rate": 0.3}, transition="noise")
    found = build_method(settings, blobs.train)
    assert found == Forward(transition=tuple(map(tuple, circular_matrix(10, 0.3).tolist())))
    plain = config(None, transition=[[0.9, 0.1], [0.2, 0.8]])
    assert build_method(plain, blobs.train) == Forward(transition=((0.9, 0.1), (0.2, 0.8)))


def test_the_matrix_of_no_noise_is_refused(blobs):
    with pytest.raises(ConfigError, match=r"method\.transition: 'noise' needs data\.noise"):
        build_method(config(None, transition="noise"), blobs.train)


@pytest.mark.parametrize(
    "settings",
    [
        {"anchor": 1.0},
        {"transition": ((1.0, 0.0),)},
        {"transition": ((0.5, 0.4), (0.0, 1.0))},
        {"transition": ((1.5, -0.5), (0.0, 1.0))},
    ],
    ids=str,
)
def test_senseless_settings_are_refused_by_name(settings):
    with pytest.raises(ValueError, match=f"^{next(iter(settings))}: "):
        Forward(**settings)


def test_a_matrix_of_other_classes_is_refused():
    with pytest.raises(ValueError, match=r"transition: '3 × 3' must be 4 × 4"):
        Forward(transition=MATRIX).start_shared(4)


def test_the_matrix_is_estimated_once():
    phases = three_phases(1, 2, 1, learning_rate=0.1, finetune_rate=0.01)
    begins, method = moment_at(phases, 1), Forward()
    unknown, known = torch.zeros(3, 3), torch.eye(3)
    assert method.survey_due(replace(begins, shared={"transition": unknown}))
    assert not method.survey_due(replace(begins, shared={"transition": known}))
