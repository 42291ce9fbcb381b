"""The policy of plan = "auto" decides by held-out agreement alone, and says why."""

import pytest

from pencil.algorithm import Phase, three_phases
from pencil.engine import Auto, Continue, EpochEnd, Past, Restore
from pencil.engine.auto import LIKELIHOOD, MOST, NETWORK, PAIRS, ROUND

PLAN = three_phases(3, 2, 1, learning_rate=0.1, finetune_rate=0.01)
HELD_OUT = 5000


def follow(scores, plan=PLAN, held_out=HELD_OUT, matrix=None):
    """The last decision of a run whose epochs agree with the held-out labels so much, until one restores; and the plan.

    ``matrix``: by epoch, whether held-out labels confirm a noise matrix and how likely they are by it.
    """
    policy, history, kept = Auto(held_out), (), {}
    for epoch, score in enumerate(scores, start=1):
        names = [phase.name for phase in plan for _ in range(phase.epochs)]
        metrics = {"epoch": epoch, "phase": names[epoch - 1]}
        metrics |= {} if score is None else {"validation_accuracy": score}
        metrics |= dict(zip((PAIRS, LIKELIHOOD), (matrix or {}).get(epoch, ()), strict=False))
        decision = policy.decide(EpochEnd(metrics, plan, history, dict(kept)))
        history += (Past(metrics, decision),)
        if isinstance(decision, Restore):
            return history[-1].decision, decision.phases
        kept |= dict.fromkeys(decision.names, epoch)
        plan = decision.phases or plan
    return history[-1].decision, plan


def epochs(plan):
    return [phase.epochs for phase in plan]


def test_correction_begins_after_the_last_epoch_of_a_network_that_still_learns():
    decision, plan = follow([0.3, 0.4, 0.5])
    assert decision == Continue(keep=NETWORK)
    assert epochs(plan) == [3, 2, 1]


def test_a_small_fall_is_chance_and_the_last_network_counts():
    decision, _ = follow([0.3, 0.51, 0.5])
    assert decision == Continue(keep=NETWORK)


def test_a_network_that_has_begun_to_memorise_goes_back_to_its_best_epoch():
    decision, plan = follow([0.3, 0.55, 0.5])
    assert isinstance(decision, Restore)
    assert decision.name == NETWORK
    assert epochs(plan) == [2, 2, 1]
    assert "fell from 55.0 % in epoch 2 to 50.0 %" in decision.reason


def test_with_few_held_out_rows_the_same_fall_is_chance():
    decision, _ = follow([0.3, 0.55, 0.5], held_out=100)
    assert decision == Continue(keep=NETWORK)


def test_a_round_that_helped_is_followed_by_another_until_there_are_enough():
    rising = [0.3, 0.4, 0.5]
    plan = PLAN
    for number in range(1, MOST):
        rising += [0.5 + 0.01 * number] * 3
        decision, plan = follow(rising)
        assert decision.keep == ROUND
        assert "another round follows" in decision.reason
        assert epochs(plan) == [3, *[2, 1] * (number + 1)]
    decision, _ = follow([*rising, 0.6, 0.6, 0.6])
    assert (decision.phases, "no further round" in decision.reason) == (None, True)


def test_a_round_that_did_nothing_is_the_last():
    decision, plan = follow([0.3, 0.4, 0.5, 0.5, 0.5, 0.5])
    assert isinstance(decision, Continue)
    assert "no further round" in decision.reason
    assert epochs(plan) == [3, 2, 1]


def test_a_round_that_did_harm_is_undone_with_its_labels():
    decision, plan = follow([0.3, 0.4, 0.5, 0.46, 0.46, 0.46])
    assert isinstance(decision, Restore)
    assert (decision.name, epochs(plan)) == (NETWORK, [3, 0, 0])
    assert "labels stay as given" in decision.reason


@pytest.mark.parametrize(("now", "undone"), [(0.185, False), (0.177, True)])
def test_a_fall_over_the_first_round_is_judged_as_on_the_same_rows(now, undone):
    decision, _ = follow([0.1, 0.15, 0.188, now, now, now])
    assert isinstance(decision, Restore) == undone


def test_a_later_round_that_did_not_help_is_undone_alone():
    decision, plan = follow([0.3, 0.4, 0.5, 0.51, 0.51, 0.52, 0.5, 0.5, 0.519])
    assert isinstance(decision, Restore)
    assert (decision.name, epochs(plan)) == (ROUND, [3, 2, 1, 0, 0])


def test_a_round_that_an_alarm_has_cut_is_not_repeated():
    cut = three_phases(3, 0, 1, learning_rate=0.1, finetune_rate=0.01)
    decision, plan = follow([0.3, 0.4, 0.5, 0.6], cut)
    assert "no further round" in decision.reason
    assert epochs(plan) == [3, 0, 1]


@pytest.mark.parametrize("scores", [[None], [None] * 6, [0.3, 0.4, None, 0.1]])
def test_epochs_that_were_not_evaluated_decide_nothing(scores):
    assert follow(scores)[0] == Continue()


# labels that are recomputed

UNCHANGED = [0.3, 0.4, 0.5, 0.5, 0.5, 0.5]
"""The first round ends after epoch 6 and changes nothing."""


def test_labels_begin_anew_where_held_out_ones_confirm_a_matrix():
    decision, plan = follow(UNCHANGED, matrix={6: (True, -0.8)})
    assert (decision.keep, epochs(plan)) == (ROUND, [3, 2, 1, 3])
    assert [phase.labels for phase in plan] == ["kept", "kept", "kept", "calibrated"]
    assert (plan[-1].name, plan[-1].learning_rate) == ("finetune", 0.01)
    assert "so labels are recomputed, calibrated" in decision.reason


@pytest.mark.parametrize("matrix", [{}, {6: (False, -0.8)}])
def test_without_a_confirmed_matrix_they_do_not(matrix):
    decision, plan = follow(UNCHANGED, matrix=matrix)
    assert (decision.keep, plan) == (None, PLAN)


def test_they_begin_anew_after_the_last_round_that_helped():
    scores = [0.3, 0.4, 0.5, 0.5, 0.5, 0.55, 0.55, 0.55, 0.54]
    decision, plan = follow(scores, matrix={6: (True, -0.8), 9: (False, -0.9)})
    assert (decision.name, epochs(plan)) == (ROUND, [3, 2, 1, 0, 0, 3])
    assert plan[-1].labels == "calibrated"
    assert "the last round is undone; " in decision.reason


UNDONE = [0.3, 0.4, 0.5, 0.46, 0.46, 0.46]
"""The first round ends after epoch 6 and does harm."""


def test_they_begin_anew_from_the_network_before_correction_where_that_was_undone():
    decision, plan = follow(UNDONE, matrix={3: (False, -0.8), 6: (True, -0.7)})
    assert (decision.name, epochs(plan)) == (NETWORK, [3, 0, 0, 3])
    assert plan[-1].labels == "calibrated"
    assert decision.reason.endswith("correction is undone; labels are recomputed, calibrated")


def test_without_enough_held_out_rows_the_labels_stay_as_given():
    decision, plan = follow(UNDONE, matrix={6: (True, -0.8)})
    assert (decision.name, epochs(plan)) == (NETWORK, [3, 0, 0])
    assert decision.reason.endswith("correction is undone, and the labels stay as given")


def test_a_plan_of_ones_own_is_judged_by_agreement_where_the_likelihood_is_not_known():
    calibrated = Phase(name="finetune", epochs=3, learning_rate=0.01, labels="calibrated")
    plan = (*three_phases(3, 0, 0, learning_rate=0.1, finetune_rate=0.01), calibrated)
    decision, _ = follow(UNCHANGED, plan)
    assert "no further round" in decision.reason


@pytest.mark.parametrize(("likelihood", "stay"), [(-0.79, True), (-0.8, False)])
def test_after_an_undone_correction_they_are_compared_with_the_network_before_it(likelihood, stay):
    plan = (
        *three_phases(3, 0, 0, learning_rate=0.1, finetune_rate=0.01),
        Phase(name="finetune", epochs=3, learning_rate=0.01, labels="calibrated"),
    )
    scores, matrix = [0.3, 0.4, 0.5, 0.5, 0.5, 0.5], {3: (False, -0.8), 6: (False, likelihood)}
    decision, plan = follow(scores, plan, matrix=matrix)
    assert ("the calibrated labels stay" in decision.reason) == stay
    assert stay or (decision.name, epochs(plan)) == (NETWORK, [3, 0, 0, 0])


def test_they_stay_if_held_out_labels_have_become_more_likely():
    decision, plan = follow([*UNCHANGED, 0.5, 0.5, 0.49], matrix={6: (True, -0.8), 9: (False, -0.79)})
    assert isinstance(decision, Continue)
    assert decision.reason == (
        "held-out labels are more likely (-0.790, -0.800 before): the calibrated labels stay"
    )
    assert epochs(plan) == [3, 2, 1, 3]


def test_they_are_undone_if_not():
    decision, plan = follow([*UNCHANGED, 0.5, 0.5, 0.6], matrix={6: (True, -0.8), 9: (True, -0.8)})
    assert (decision.name, epochs(plan)) == (ROUND, [3, 2, 1, 0])
    assert "not more likely" in decision.reason
