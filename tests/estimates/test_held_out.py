"""The posterior of a trained network: its equation, what it recovers, and alike over ranks."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_left_out import rows_of
from torch.nn.functional import one_hot

from pencil.data import RowNumbers
from pencil.errors import DataError
from pencil.estimates import fit_held_out, left_out_likelihood
from pencil.estimates.held_out import WIDEST
from pencil.estimates.relabel import RelabelCounts
from pencil.results import RELABEL, VerdictRule, judge_all
from support.estimating import batches, on_ranks, symmetric

CLASSES, RATE, HELD, ROWS = 5, 0.3, 2000, 6000


def drawn(rows, seed, sharp=2.0):
    """Log f (N, C), true classes that f is right about, and given ones."""
    generator = torch.Generator().manual_seed(seed)
    scores = (sharp * torch.randn(rows, CLASSES, generator=generator)).log_softmax(1)
    true = scores.exp().multinomial(1, generator=generator)[:, 0]
    return scores, true, symmetric(true, CLASSES, RATE, seed=seed)


@pytest.fixture(scope="module")
def held_out():
    scores, _, labels = drawn(HELD, 1)
    return scores, labels


@pytest.fixture(scope="module")
def rows():
    return drawn(ROWS, 2)


def leaning(scores, labels, lean):
    return (scores + lean * one_hot(labels, CLASSES)).log_softmax(1)


def test_the_noise_and_the_lean_are_recovered(held_out, rows):
    scores, true, labels = rows
    found = fit_held_out(batches(leaning(scores, labels, 1.5)), labels, held_out)
    assert found.map.weights[0] / WIDEST == pytest.approx(1, abs=0.1)
    assert found.lean == pytest.approx(1.5, abs=0.3)
    wrong = float((labels != true).float().mean())
    assert found.noise.rate.low < wrong < found.noise.rate.high
    assert found.noise.rate.value == pytest.approx(wrong, abs=0.03)
    assert not found.noise.alarms


def test_probabilities_come_true_and_beat_the_network_and_the_given_labels(held_out, rows):
    scores, true, labels = rows
    network = leaning(scores, labels, 1.5)
    q = fit_held_out(batches(network), labels, held_out).posterior(network, labels)
    best, suggested = q.max(1)
    for part in best.argsort().chunk(5):
        assert float(best[part].mean()) == pytest.approx(
            float((suggested[part] == true[part]).float().mean()), abs=0.05
        )
    right = [float((each == true).float().mean()) for each in (suggested, network.argmax(1), labels)]
    assert right[0] > max(right[1:])


def test_a_network_that_is_too_sure_is_corrected(held_out, rows):
    scores, labels = held_out
    sure = fit_held_out(batches(3 * rows[0]), rows[2], (3 * scores, labels))
    plain = fit_held_out(batches(rows[0]), rows[2], held_out)
    assert sure.map.weights[0] == pytest.approx(plain.map.weights[0] / 3, rel=0.02)
    torch.testing.assert_close(
        sure.posterior(3 * rows[0], rows[2]), plain.posterior(rows[0], rows[2]), atol=0.01, rtol=0
    )


def test_a_network_that_has_memorised_its_labels_is_noticed(held_out, rows):
    scores, _, labels = rows
    heart = one_hot(labels, CLASSES) * 0.98 + 0.004
    found = fit_held_out(batches(heart.log()), labels, held_out)
    learned = fit_held_out(batches(scores), labels, held_out)
    assert found.noise.rate.value == pytest.approx(learned.noise.rate.value, abs=0.02)
    assert found.has_memorised
    assert not learned.has_memorised


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.floats(-2, 2))
def test_a_row_is_its_equation(seed, lean):
    scores, _, labels = drawn(300, seed)
    found = fit_held_out(batches(leaning(scores, labels, lean)), labels, drawn(300, seed + 1)[::2])
    rows = leaning(scores, labels, lean)[:20]
    q = found.posterior(rows, labels[:20])
    sharp, likely = found.map.weights[0] / WIDEST, found.likely.exp().double()
    for row, label, got in zip(rows.double(), labels.tolist(), q, strict=False):
        wanted = torch.stack(
            [
                torch.exp(sharp * row[c] + found.prior[c] - (found.lean if c == label else 0))
                * likely[c, label]
                for c in range(CLASSES)
            ]
        )
        wanted = wanted / wanted.sum()
        sure = found.sure
        other = sure * wanted + (1 - sure) * (1 - wanted[label]) / (CLASSES - 1)
        other[label] = wanted[label]
        wanted = other
        torch.testing.assert_close(got.double(), wanted, atol=1e-4, rtol=0)


def circular(rows, seed, sharp=4.0, share=0.4):
    """Log f, true classes and given ones, of which this share are the next class."""
    scores, true, _ = drawn(rows, seed, sharp)
    wrong = torch.rand(rows, generator=torch.Generator().manual_seed(seed)) < share
    return scores, true, torch.where(wrong, (true + 1) % CLASSES, true)


def test_errors_between_particular_classes_are_found_by_pairs():
    scores, true, labels = circular(ROWS, 3)
    held = circular(3 * HELD, 4)[::2]
    found = fit_held_out(batches(scores), labels, held)
    assert found.noise.rate.value == pytest.approx(0.4, abs=0.03)
    wrong = float((labels != true).float().mean())
    assert found.noise.rate.low < wrong < found.noise.rate.high < found.noise.rate.low + 0.15
    shares = torch.stack([(labels != true)[labels == given].float().mean() for given in range(CLASSES)])
    _, low, high = found.noise.per_class.unbind(1)
    assert bool(((low < shares) & (shares < high) & (high < low + 0.25)).all())
    torch.testing.assert_close(
        found.likely.exp(), 0.6 * torch.eye(CLASSES) + 0.4 * torch.eye(CLASSES).roll(1, 1), atol=0.06, rtol=0
    )
    right = float((found.posterior(scores, labels).argmax(1) == true).float().mean())
    assert right > float((scores.argmax(1) == true).float().mean())


@pytest.mark.parametrize(
    ("noise", "alarms", "sure"), [((4.0, 0.4), [], 0.96), ((2.0, 0.2), ["hard rows"], 0.85)]
)
def test_labels_are_replaced_by_pairs_unless_there_is_an_alarm(noise, alarms, sure):
    scores, true, labels = circular(ROWS, 3, *noise)
    found = fit_held_out(batches(scores), labels, circular(3 * HELD, 4, *noise)[::2])
    assert found.prior.any()  # the matrix is used
    assert ([alarm.name for alarm in found.noise.alarms], found.sure) == (alarms, sure)
    best, suggested = found.posterior(scores, labels).max(1)
    counts = RelabelCounts(CLASSES)
    counts.add(labels, best, suggested != labels)
    replaced = (suggested != labels) & (best >= counts.thresholds(0.1, 0.25)[labels])
    assert bool(replaced.any()) == (not alarms)
    assert int((suggested != true)[replaced].sum()) <= 0.1 * int(replaced.sum())


def test_without_proof_wrong_labels_fall_on_all_classes_alike(held_out, rows):
    found = fit_held_out(batches(rows[0]), rows[2], held_out)
    other = ~torch.eye(CLASSES, dtype=torch.bool)
    assert float(found.likely[other].std()) < 1e-6
    assert not found.prior.any()


def test_few_held_out_rows_leave_suggestions_less_sure(held_out, rows):
    scores, _, labels = rows
    few = (held_out[0][:200], held_out[1][:200])
    assert fit_held_out(batches(scores), labels, few).sure == 0.85
    assert fit_held_out(batches(held_out[0]), held_out[1], (scores, labels)).sure == 0.96


def test_with_two_classes_nothing_is_replaced_if_the_noise_is_uncertain():
    """Nothing can be spread over further classes there, so the surest suggestions are as sure as before."""
    generator = torch.Generator().manual_seed(0)
    scores = (4 * torch.randn(3000, 2, generator=generator)).log_softmax(1)
    true = scores.exp().multinomial(1, generator=generator)[:, 0]
    labels = symmetric(true, 2, RATE, seed=0)
    found = fit_held_out(batches(scores), labels, (scores[:200], labels[:200]))
    q = found.posterior(scores, labels)
    assert (found.sure, found.noise.surest) == (0.85, 0.85)
    assert float(q.max()) > 0.99
    verdicts = [
        judge_all(q, labels, VerdictRule(), ids=RowNumbers(3000), surest=surest).verdict
        for surest in (1.0, found.noise.surest)
    ]
    replaced = [int((verdict == RELABEL).sum()) for verdict in verdicts]
    assert replaced[0] > 100
    assert replaced[1] == 0


def test_verified_labels_do_not_count_as_noise(held_out, rows):
    scores, true, labels = rows
    trusted = torch.arange(ROWS) < ROWS // 2
    mixed = torch.where(trusted, true, labels)
    found = fit_held_out(batches(scores), mixed, held_out, trusted=trusted)
    assert found.lean == pytest.approx(0, abs=0.2)
    assert found.noise.rate.value == pytest.approx(RATE / 2, abs=0.03)


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_fit_what_one_process_does(held_out, rows, ranks):
    scores, _, labels = rows
    alone = fit_held_out(batches(scores), labels, held_out)
    cut = [
        list(zip(*(each.chunk(ranks) for each in pair), strict=True)) for pair in ((scores, labels), held_out)
    ]
    parts = [(mine[0], (mine[1], held)) for mine, held in zip(*cut, strict=True)]
    several = on_ranks(
        parts, CLASSES, lambda passes, own, _, total: fit_held_out(passes, own[0], own[1], total=total)
    )
    for found in several:
        assert found.lean == pytest.approx(alone.lean, abs=1e-4)
        assert found.noise.rate.value == pytest.approx(alone.noise.rate.value, abs=1e-5)


def test_a_rank_may_have_no_rows(held_out, rows):
    scores, _, labels = rows
    nothing = (torch.zeros(0, CLASSES), torch.zeros(0, dtype=torch.long))
    alone = fit_held_out(batches(scores), labels, held_out)
    parts = [(scores, (labels, held_out)), (nothing[0], (nothing[1], nothing))]
    several = on_ranks(
        parts, CLASSES, lambda passes, own, _, total: fit_held_out(passes, own[0], own[1], total=total)
    )
    assert several[1].lean == pytest.approx(alone.lean, abs=1e-4)


# how likely left-out labels are


def test_labels_are_likelier_by_a_network_that_knows_more():
    scores, _, labels = circular(HELD, 5)
    unsure = (scores + torch.randn(HELD, CLASSES, generator=torch.Generator().manual_seed(0))).log_softmax(1)
    (confirmed, more), (_, less) = (left_out_likelihood(each, labels) for each in (scores, unsure))
    assert confirmed
    assert more > less + 0.05


def test_they_do_not_depend_on_how_sure_the_network_says_it_is():
    scores, _, labels = circular(HELD, 5)
    surer = (3 * scores).log_softmax(1)
    found = [left_out_likelihood(each, labels)[1] for each in (scores, surer)]
    assert found[0] == pytest.approx(found[1], abs=0.01)


def test_the_matrix_counts_as_confirmed_where_the_fit_uses_it(held_out):
    assert left_out_likelihood(*held_out)[0] is False
    assert left_out_likelihood(*(each[:50] for each in held_out)) is None  # too few rows


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_find_labels_as_likely_as_one_process(ranks):
    held = circular(HELD, 5)[::2]
    parts = list(zip(*(each.chunk(ranks) for each in held), strict=True))
    several = on_ranks(
        parts, CLASSES, lambda passes, own, _, total: left_out_likelihood(rows_of(passes), own, total=total)
    )
    confirmed, likelihood = left_out_likelihood(*held)
    for found in several:
        assert found == (confirmed, pytest.approx(likelihood, abs=1e-4))


def test_scores_may_be_double_and_exclude_classes(held_out, rows):
    scores, _, labels = rows
    plain = fit_held_out(batches(scores), labels, held_out)
    double = fit_held_out(batches(scores.double()), labels, (held_out[0].double(), held_out[1]))
    torch.testing.assert_close(double.posterior(scores.double(), labels), plain.posterior(scores, labels))
    excluded = scores.masked_fill(scores < scores.topk(2).values[:, 1:], -torch.inf)
    assert bool(
        fit_held_out(batches(excluded), labels, held_out).posterior(excluded, labels).isfinite().all()
    )


def test_without_held_out_rows_there_is_nothing_to_fit(rows):
    with pytest.raises(DataError, match="held_out: there are no rows"):
        fit_held_out(batches(rows[0]), rows[2], (torch.zeros(0, CLASSES), torch.zeros(0, dtype=torch.long)))
