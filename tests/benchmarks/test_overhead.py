"""Steps take turns as the benchmark says, the interval is one of the median, and the docs show what was recorded."""

import itertools
from pathlib import Path

import pytest
import torch

from pencil.algorithm import Pencil
from pencil.engine import LabelLearner
from pencil.methods import CrossEntropy

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def overhead(imported):
    with imported("overhead") as module:
        yield module


def test_the_docs_show_what_was_recorded(overhead):
    readings = overhead.recorded()
    assert len(readings) >= 3
    assert overhead.table(readings) in (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")


def test_both_kinds_of_step_run_on_each_batch_and_their_order_alternates(overhead):
    order = []

    def step(name, seconds):
        def run(rows):
            order.append((name, int(rows)))
            return overhead.Taken(seconds, 0.0)

        return run

    found = overhead.alternated(step("a", 1.0), step("b", 2.0), map(torch.tensor, itertools.count()), 3)
    assert order == [("a", 0), ("b", 0), ("b", 1), ("a", 1), ("a", 2), ("b", 2)]
    assert [(first.step, second.step) for first, second in found] == [(1.0, 2.0)] * 3


@pytest.mark.parametrize(("count", "dropped"), [(3, 0), (6, 0), (8, 0), (9, 1), (14, 2), (24, 6), (100, 39)])
def test_the_interval_of_the_median_drops_as_many_values_as_the_binomial_allows(overhead, count, dropped):
    """Numbers of values from tables of the sign test's 95 % interval."""
    values = torch.randperm(count).tolist()
    assert overhead.median_interval(values) == (dropped, count - 1 - dropped)


def test_the_interval_covers_the_median_of_a_skewed_distribution(overhead):
    generator = torch.Generator().manual_seed(0)
    samples = torch.rand(2000, 14, generator=generator).log().neg()  # exponential: the median is log 2
    found = [overhead.median_interval(sample) for sample in samples.tolist()]
    covered = sum(least <= 0.6931 <= most for least, most in found) / len(found)
    assert 0.95 <= covered <= 1


def test_by_parts_only_what_depends_on_the_method_differs(overhead):
    plain, pencil = overhead.Taken(1.01, 0.01), overhead.Taken(1.32, 0.02)
    assert overhead.by_parts(plain, pencil) == pytest.approx((1.15 + 0.02) / (1.15 + 0.01))
    assert overhead.by_parts(plain, overhead.Taken(5.01, 0.01)) == 1


def test_a_step_with_the_loss_timed_apart_trains_as_a_plain_step(overhead):
    rows = torch.arange(4)
    weights = []
    for apart in (True, False):
        torch.manual_seed(0)
        trainer = overhead.Trainer(3)
        learner = LabelLearner(Pencil(), trainer.examples.labels, overhead.CORRECTION)
        step = trainer.steps_of(learner)
        if apart:
            taken = step(rows)
            assert 0 < taken.labels < taken.step
        else:
            learner.loss(trainer.forward(rows), rows).backward()
            trainer.optimizer.step()
            learner.step()
        parts = [learner.label_distribution(rows), *trainer.model.parameters()]
        weights.append(torch.cat([part.detach().flatten() for part in parts]))
    assert torch.equal(*weights)


def test_pencils_steps_move_labels_and_cross_entropys_do_not(overhead):
    rows = torch.arange(4)
    trainer = overhead.Trainer(3)
    moved = []
    for method in (CrossEntropy(), Pencil()):
        learner = LabelLearner(method, trainer.examples.labels, overhead.CORRECTION)
        before = learner.label_distribution(rows).clone()
        trainer.steps_of(learner)(rows)
        moved.append(not torch.equal(before, learner.label_distribution(rows)))
    assert moved == [False, True]
