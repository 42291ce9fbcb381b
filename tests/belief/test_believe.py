"""The belief about small made problems, of which the truth is known."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from pencil.belief import NO_CLASS, SHARE, believe, believe_probabilities

CLASSES = 5


@dataclass(frozen=True)
class Problem:
    x: torch.Tensor
    truth: torch.Tensor
    given: torch.Tensor

    @property
    def wrong(self):
        return self.given != self.truth


def clusters(*, rows=1200, classes=CLASSES, width=8, noise=0.2, seed=0):
    """Rows around centres of length 4; this share of labels is another class."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(classes, width))
    centres *= 4 / np.linalg.norm(centres, axis=1, keepdims=True)
    truth = random.integers(classes, size=rows)
    x = centres[truth] + random.normal(size=(rows, width))
    other = (truth + random.integers(1, classes, size=rows)) % classes
    given = np.where(random.random(rows) < noise, other, truth)
    return Problem(torch.from_numpy(x).float(), torch.from_numpy(truth), torch.from_numpy(given))


def believed(problem, sure=None, classes=CLASSES):
    with torch.no_grad():
        return believe(problem.x, problem.given, classes, sure)


def precision(p_wrong, wrong):
    """Average precision of a ranking by p_wrong."""
    hits = wrong[p_wrong.argsort(descending=True, stable=True)].double()
    return float((hits.cumsum(0) / torch.arange(1, len(hits) + 1))[hits > 0].mean())


def false(found, truth):
    return int((found.suggested != truth)[found.replaced].sum())


@pytest.fixture(scope="module")
def solved():
    """Problems, and the beliefs about them."""
    problems = [clusters(seed=seed) for seed in range(2)]
    return [(problem, believed(problem)) for problem in problems]


def test_wrong_labels_are_ranked_first(solved):
    for problem, belief in solved:
        assert precision(belief.decided().p_wrong, problem.wrong) > 0.95


def test_few_labels_are_replaced_falsely(solved):
    count = wrong = 0
    for problem, belief in solved:
        found = belief.decided()
        count, wrong = count + int(found.replaced.sum()), wrong + false(found, problem.truth)
        assert int((found.replaced & problem.wrong).sum()) > 0.7 * int(problem.wrong.sum())
        assert bool((found.suggested != problem.given)[found.replaced].all())
    assert wrong < 0.12 * count


def test_a_smaller_share_replaces_fewer(solved):
    for problem, belief in solved:
        counts = [int(belief.decided(share).replaced.sum()) for share in (0.02, 0.05, SHARE, 0.3)]
        assert counts == sorted(counts)
        assert counts[0] < counts[-1]
        assert false(belief.decided(0.02), problem.truth) <= 0.04 * max(counts[0], 50)


def test_the_rate_is_near_the_truth_and_the_lower_end_below_it(solved):
    for problem, belief in solved:
        found, rate = belief.decided(), float(problem.wrong.float().mean())
        assert float(found.p_wrong.mean()) == pytest.approx(rate, abs=0.03)
        assert 0.5 * rate < found.at_least <= rate


def test_all_tests_are_passed_by_plain_clusters(solved):
    for _, belief in solved:
        assert belief.checks.passed
        assert belief.checks.known


def test_probabilities_are_probabilities(solved):
    for problem, belief in solved:
        assert belief.posterior.shape == (len(problem.x), CLASSES + 1)
        torch.testing.assert_close(belief.posterior.sum(1), torch.ones(len(problem.x)))
        assert float(belief.posterior.min()) >= 0
        found = belief.decided()
        right = belief.posterior.gather(1, problem.given[:, None])[:, 0]
        torch.testing.assert_close(found.p_wrong, 1 - right)
        torch.testing.assert_close(found.confidence, belief.posterior[:, :CLASSES].amax(1))


def test_stated_confidence_is_about_right(solved):
    stated = torch.cat([belief.decided().p_wrong for _, belief in solved])
    wrong = torch.cat([problem.wrong for problem, _ in solved])
    for low, high in ((0, 0.1), (0.1, 0.5), (0.5, 0.9), (0.9, 1.01)):
        some = (stated >= low) & (stated < high)
        if int(some.sum()) >= 30:
            assert float(wrong[some].float().mean()) == pytest.approx(float(stated[some].mean()), abs=0.2)


def test_the_best_classes_have_fewer_errors_than_the_labels(solved):
    for problem, belief in solved:
        assert float((belief.best() != problem.truth).float().mean()) < 0.4 * float(
            problem.wrong.float().mean()
        )


def test_the_same_rows_give_the_same_belief(solved):
    problem, belief = solved[0]
    torch.rand(5)  # whatever else is drawn
    again = believed(problem)
    assert torch.equal(again.posterior, belief.posterior)
    assert torch.equal(again.posterior, belief.posterior)
    assert torch.equal(again.decided().replaced, belief.decided().replaced)


def test_other_numbers_of_the_classes_change_little(solved):
    problem, belief = solved[0]
    order = torch.tensor([3, 0, 4, 1, 2])
    other = believed(Problem(problem.x, order[problem.truth], order[problem.given]))
    difference = (other.posterior[:, [*order.tolist(), CLASSES]] - belief.posterior).abs()
    assert float(difference.mean()) < 0.005
    assert float(difference.max()) < 0.2
    one, two = belief.decided(), other.decided()
    assert float((order[one.suggested] == two.suggested).float().mean()) > 0.99


def test_ranking_has_the_doubtful_rows_in_order(solved):
    for problem, belief in solved:
        ranking = belief.ranking.rows
        chance = belief.posterior[:, :CLASSES].scatter(1, problem.given[:, None], 0.0).amax(1)
        assert bool((chance[ranking].diff() <= 0).all())
        assert sorted(ranking.tolist()) == (chance > 0.2).nonzero()[:, 0].tolist()


@pytest.mark.parametrize("number", [1, 50, 700, 5000])
def test_so_many_rows_are_asked_about_and_doubtful_ones_first(solved, number):
    belief = solved[0][1]
    asked = belief.ask(number).tolist()
    assert len(asked) == len(set(asked)) == min(number, 1200)
    doubtful = set(belief.ranking.rows.tolist())
    first = asked[: len(doubtful)]
    assert set(first) <= doubtful if number <= len(doubtful) else doubtful <= set(asked)
    known = belief.answered(dict.fromkeys(asked[: len(asked) // 2], 0))
    assert not set(known.ask(30).tolist()) & set(known.answers)


def answered(problem, belief, number, truth=None):
    truth = problem.truth if truth is None else truth
    rows = belief.ask(number).tolist()
    return belief.answered({row: int(truth[row]) for row in rows})


def test_answered_rows_take_their_answer(solved):
    problem, belief = solved[0]
    rows = [*belief.ask(20).tolist(), *(~problem.wrong).nonzero()[:5, 0].tolist()]
    said = {row: (row + 1) % CLASSES for row in rows}
    found = belief.answered(said).decided()
    for row, label in said.items():
        wrong = label != int(problem.given[row])
        assert int(found.suggested[row]) == label
        assert float(found.confidence[row]) == 1
        assert float(found.p_wrong[row]) == wrong
        assert bool(found.replaced[row]) == wrong


def test_rows_of_no_class_are_wrong_and_not_replaced(solved):
    _, belief = solved[0]
    rows = belief.ask(20).tolist()
    found = belief.answered(dict.fromkeys(rows, NO_CLASS)).decided()
    for row in rows:
        assert float(found.p_wrong[row]) == 1
        assert not bool(found.replaced[row])


def test_answers_release_more_labels_that_are_right(solved):
    before = after = count = wrong = 0
    for problem, belief in solved:
        first, second = belief.decided(0.02), answered(problem, belief, 100).decided(0.02)
        before += int(first.replaced.sum()) - false(first, problem.truth)
        after += int(second.replaced.sum()) - false(second, problem.truth)
        count, wrong = count + int(second.replaced.sum()), wrong + false(second, problem.truth)
    assert after > before
    assert wrong < 0.04 * count


def test_answers_release_labels_where_the_tests_forbid_it(solved):
    problem, belief = solved[1]
    forbidden = replace(belief, checks=replace(belief.checks, identified=False))
    assert int(forbidden.decided().replaced.sum()) == 0
    assert forbidden.decided().at_least == 0
    assert torch.equal(forbidden.best(), problem.given)
    found = answered(problem, forbidden, 100).decided()
    assert int(found.replaced.sum()) > 0.5 * int(problem.wrong.sum())
    assert false(found, problem.truth) < 0.12 * int(found.replaced.sum())


def test_answers_release_noise_that_blurred_features_would_explain():
    """Hard rows have labels of similar classes, and features between them, as if no label were wrong."""
    random, classes, rows = np.random.default_rng(0), 6, 3000
    truth, hard = random.integers(classes, size=rows), random.lognormal(-0.3, 0.6, size=rows)
    angle = 2 * np.pi * np.arange(classes) / classes
    ring = np.stack([np.cos(angle), np.sin(angle)], 1) @ random.normal(size=(2, 32))
    means = ring + 0.6 * random.normal(size=(classes, 32))
    x = means[truth] + hard[:, None] * random.normal(size=(rows, 32))
    errs = random.random(rows) < (0.25 * hard).clip(0, 0.7)
    given = (truth + errs * random.choice((-1, 1), size=rows)) % classes
    problem = Problem(torch.from_numpy(x).float(), torch.from_numpy(truth), torch.from_numpy(given))
    belief = believed(problem, classes=classes)
    assert not belief.checks.identified
    assert not bool(belief.decided().replaced.any())
    found = answered(problem, belief, 100).decided()
    count = int(found.replaced.sum())
    assert count > 0.7 * int(problem.wrong.sum())
    assert false(found, problem.truth) < 0.1 * count


def test_answers_that_labels_were_right_release_nothing_else(solved):
    problem, belief = solved[1]
    found = answered(problem, belief, 100, problem.given).decided()
    assert int(found.replaced.sum()) < 0.1 * int(belief.decided().replaced.sum())
    assert float(found.p_wrong.mean()) < 0.5 * float(belief.decided().p_wrong.mean())


def test_answers_one_by_one_say_the_same_as_together(solved):
    problem, belief = solved[0]
    rows, step = belief.ask(30).tolist(), belief
    for row in rows:
        step = step.answered({row: int(problem.truth[row])})
    together = belief.answered({row: int(problem.truth[row]) for row in rows}).decided()
    assert torch.equal(step.decided().p_wrong, together.p_wrong)
    assert torch.equal(step.decided().replaced, together.replaced)
    assert belief.answers == {}


def test_clean_labels_of_a_checkerboard_are_not_replaced():
    random = np.random.default_rng(5)
    x = torch.from_numpy(random.uniform(-1, 1, size=(900, 2))).float()
    truth = ((x[:, 0] > 0) ^ (x[:, 1] > 0)).long()
    found = believed(Problem(x, truth, truth), classes=2).decided()
    assert int(found.replaced.sum()) == 0
    assert found.at_least == 0


def test_features_that_say_nothing_replace_nothing():
    random = np.random.default_rng(6)
    x = torch.from_numpy(random.normal(size=(900, 8))).float()
    given = torch.from_numpy(random.integers(CLASSES, size=900))
    belief = believed(Problem(x, given, given))
    assert not belief.checks.known
    assert belief.checks.reason
    assert int(belief.decided().replaced.sum()) == 0
    assert belief.decided().at_least == 0
    assert torch.equal(belief.best(), given)


def test_hardly_any_clean_label_is_replaced():
    problem = clusters(rows=900, noise=0.0, seed=7)
    found = believed(problem).decided()
    assert int(found.replaced.sum()) <= 0.005 * len(problem.x)
    assert found.at_least <= 0.002
    assert float(found.p_wrong.mean()) < 0.02


@pytest.fixture(scope="module")
def partly_known():
    """A third of the rows is verified, also some whose features look like another class; a tenth has no label."""
    problem = clusters(seed=8)
    sure = torch.arange(1200) % 3 == 0
    odd = torch.arange(0, 120, 3)
    truth = problem.truth.clone()
    truth[odd] = (truth[odd] + 1) % CLASSES
    given = torch.where(sure, truth, problem.given)
    given[1::10] = -1
    sure &= given >= 0
    problem = Problem(problem.x, truth, given)
    return problem, sure, believed(problem, sure)


def test_verified_rows_are_never_called_wrong(partly_known):
    _, sure, belief = partly_known
    found = belief.decided()
    assert not bool(found.replaced[sure].any())
    assert float(found.p_wrong[sure].mean()) < 0.05
    assert float(belief.posterior[sure, CLASSES].max()) < 1e-3


def test_verified_rows_are_no_evidence_that_noise_is_rare(partly_known):
    problem, sure, belief = partly_known
    rest = ~sure & (problem.given >= 0)
    expected = float(problem.wrong[rest].float().mean())
    assert float(belief.decided().p_wrong[rest].mean()) == pytest.approx(expected, abs=0.04)


def test_rows_without_a_label_get_the_right_class(partly_known):
    problem, _, belief = partly_known
    without = problem.given < 0
    found = belief.decided()
    assert int(without.sum()) > 100
    assert float((found.suggested == problem.truth)[without].float().mean()) > 0.9
    assert float(found.p_wrong[without].max()) == 0  # no label, so none that is wrong


def test_rows_without_a_label_are_not_wrong_after_answers_about_others(partly_known):
    problem, _, belief = partly_known
    rows = [row for row in belief.ask(60).tolist() if int(problem.given[row]) >= 0]
    found = belief.answered({row: int(problem.truth[row]) for row in rows}).decided()
    assert float(found.p_wrong[problem.given < 0].max()) == 0


def test_a_class_that_is_mislabelled_into_another_is_found():
    problem = clusters(rows=1500, noise=0.02, seed=9)
    moved = (problem.truth == 0) & (torch.rand(1500, generator=torch.Generator().manual_seed(1)) < 0.3)
    problem = Problem(problem.x, problem.truth, torch.where(moved, 1, problem.given))
    found = believed(problem).decided()
    assert precision(found.p_wrong, problem.wrong) > 0.9
    assert float(((found.p_wrong > 0.5) & (found.suggested == 0))[moved].float().mean()) > 0.7
    assert false(found, problem.truth) <= 0.12 * int(found.replaced.sum())


@pytest.mark.parametrize("classes", [2, 3])
def test_few_classes(classes):
    problem = clusters(classes=classes, seed=10)
    found = believed(problem, classes=classes).decided()
    assert precision(found.p_wrong, problem.wrong) > 0.9
    assert false(found, problem.truth) <= 0.12 * int(found.replaced.sum())
    assert found.at_least <= float(problem.wrong.float().mean())


def test_copies_with_copied_labels_count_once():
    problem = clusters(rows=400, seed=11)
    places = torch.cat([torch.arange(400), torch.arange(150).repeat(2)])
    copied = Problem(problem.x[places], problem.truth[places], problem.given[places])
    p_wrong = believed(copied).decided().p_wrong
    assert precision(p_wrong[:150], problem.wrong[:150]) > 0.85  # copies do not confirm each other's label
    torch.testing.assert_close(p_wrong[400:550], p_wrong[:150], rtol=0, atol=0.05)


@pytest.fixture(scope="module")
def calibrated():
    """Probabilities that truths were drawn from, and labels of which 40 % are another class."""
    random = torch.Generator().manual_seed(12)
    probabilities = (4 * torch.randn(1500, CLASSES, generator=random)).softmax(1)
    truth = probabilities.multinomial(1, generator=random)[:, 0]
    other = (truth + torch.randint(1, CLASSES, (1500,), generator=random)) % CLASSES
    given = torch.where(torch.rand(1500, generator=random) < 0.4, other, truth)
    with torch.no_grad():
        return Problem(probabilities, truth, given), believe_probabilities(probabilities, given)


def test_calibrated_probabilities_are_believed(calibrated):
    problem, belief = calibrated
    noise = torch.full((CLASSES, CLASSES), 0.1).fill_diagonal_(0.6)
    ideal = problem.x * noise.T[problem.given]
    ideal = ideal / ideal.sum(1, keepdim=True)
    assert float((belief.posterior[:, :CLASSES] - ideal).abs().mean()) < 0.03
    found = belief.decided()
    assert float(found.p_wrong.mean()) == pytest.approx(float(problem.wrong.float().mean()), abs=0.05)
    assert int(found.replaced.sum()) > 100
    assert false(found, problem.truth) <= 0.12 * int(found.replaced.sum())
    assert 0 < found.at_least <= float(problem.wrong.float().mean())


def test_labels_of_probabilities_that_may_be_blurred_are_not_replaced():
    random = torch.Generator().manual_seed(14)
    probabilities = (4 * torch.randn(1500, CLASSES, generator=random)).softmax(1)
    truth = (0.8 * probabilities + 0.2 / CLASSES).multinomial(1, generator=random)[:, 0]
    with torch.no_grad():
        belief = believe_probabilities(probabilities, truth)
    assert belief.checks.known
    assert not bool(belief.decided().replaced.any())
    assert belief.decided().at_least == 0


def test_probabilities_that_are_too_sure_are_corrected(calibrated):
    problem, belief = calibrated
    sharper = problem.x**3 / (problem.x**3).sum(1, keepdim=True)
    with torch.no_grad():
        other = believe_probabilities(sharper, problem.given)
    assert float((other.posterior - belief.posterior).abs().mean()) < 0.03


def test_probabilities_with_verified_rows(calibrated):
    problem, _ = calibrated
    sure = torch.arange(1500) % 2 == 0
    given = torch.where(sure, problem.truth, problem.given)
    with torch.no_grad():
        found = believe_probabilities(problem.x, given, sure).decided()
    assert not bool(found.replaced[sure].any())
    assert float(found.p_wrong[sure].mean()) < 0.1
    assert float(found.p_wrong[~sure].mean()) == pytest.approx(0.4, abs=0.05)


def test_probabilities_that_say_nothing_replace_nothing():
    random = torch.Generator().manual_seed(13)
    probabilities = torch.randn(1500, CLASSES, generator=random).softmax(1)
    given = torch.randint(CLASSES, (1500,), generator=random)
    with torch.no_grad():
        belief = believe_probabilities(probabilities, given)
    assert not belief.checks.known
    assert not bool(belief.decided().replaced.any())
