"""The course of a run survives JSON to the last digit, whatever plans and decisions it holds."""

import json

import pytest
import torch

from pencil.algorithm import CosineSchedule, LinearSchedule, Phase, PiecewiseSchedule, three_phases
from pencil.engine import Continue, NextPhase, Past, Restore, Runtime, Stop
from pencil.engine.course import Course, Kept, agreed, decision_from_json, decision_to_json
from pencil.errors import RunError

PHASES = (
    Phase(name="backbone", epochs=1, learning_rate=0.1 + 0.2),
    Phase(name="correction", epochs=2, learning_rate=LinearSchedule(1 / 3, 1e-9)),
    Phase(name="correction", epochs=0, learning_rate=CosineSchedule(0.1)),
    Phase(name="finetune", epochs=5, learning_rate=PiecewiseSchedule((0.2, 0.02), (2.5,))),
)
DECISIONS = [
    Continue(),
    Continue(keep="best", release=("a", "b")),
    Stop(keep="last"),
    NextPhase(release=("best",)),
    Restore("best", PHASES),
]


class Ranks(Runtime):
    """A rank among others whose decisions are known."""

    def gathered(self, value, group=None):
        return [*OTHERS, value]


OTHERS = [(False, json.dumps(decision_to_json(Continue())))]


class Fixed:
    def __init__(self, decision):
        self.decision = decision

    def decide(self, end):
        return self.decision


def ranks():
    return Ranks(device=torch.device("cpu"), rank=1, world_size=2)


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda decision: decision.word)
def test_a_decision_comes_back(decision):
    assert decision_from_json(json.loads(json.dumps(decision_to_json(decision)))) == decision


def test_a_course_comes_back():
    past = tuple(Past({"epoch": 1, "loss": 1 / 3}, decision) for decision in DECISIONS)
    course = Course(PHASES, past, {"best": Kept(12, 3), "last": Kept(20, 4)}, undone=8)
    again = Course.from_json(json.loads(json.dumps(course.to_json())))
    assert again == course
    assert again.protected == [12, 20]


def test_a_plan_may_be_given_as_a_list():
    course = Course(PHASES, kept={"best": Kept(2, 1)})
    plan = list(three_phases(1, 1, 1, learning_rate=0.1, finetune_rate=0.1))
    course.follow(Restore("best", plan), {"epoch": 2}, 4)
    assert course.phases == tuple(plan)
    assert Course.from_json(course.to_json()).phases == tuple(plan)


def test_a_decision_stands_where_all_ranks_decide_it():
    assert agreed(Fixed(Continue()), None, ranks()) == Continue()


@pytest.mark.parametrize("decision", [Stop(), Continue(keep="best"), Restore("best", PHASES)])
def test_ranks_that_differ_are_named_with_what_they_decided(decision):
    with pytest.raises(
        RunError, match=r'on rank 1, but \{"word": "continue".*\} on rank 0; let it use nothing but'
    ):
        agreed(Fixed(decision), None, ranks())


def test_what_is_no_decision_is_refused_with_those_there_are():
    with pytest.raises(RunError, match=r"returned 'stop'; return Continue\(\), Stop\(\), NextPhase\(\)"):
        agreed(Fixed("stop"), None, ranks())
