"""An alarm on two ranks: both act alike, as the changed plan says bit for bit, and as one process does."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from pencil.algorithm import Pencil, three_phases
from pencil.data import EpochSampler, Preparation, owned_indices
from pencil.engine import AlarmActions, Checkpoints, LabelLearner, Loop, Runtime, Training, whole_weights
from support.moments import assert_same
from support.ranks import meeting_points
from support.training import make_blobs
from support.warm import together

pytestmark = pytest.mark.ranks

ROWS = 200
PLAN = three_phases(2, 10, 2, learning_rate=0.05, finetune_rate=0.05)
ALARMS = {
    "collapse": (Pencil(label_rate=50.0, pull=0.0, entropy_weight=20.0), AlarmActions(drift="report"), PLAN),
    "not_finite": (
        Pencil(),
        AlarmActions(not_finite="finish"),
        (PLAN[0], replace(PLAN[1], learning_rate=1e6), PLAN[2]),
    ),
}


def trained(runtime, folder, name, *, phases=None, watched=True, batch_size=16):
    method, actions, plan = ALARMS[name]
    torch.manual_seed(1)
    examples = make_blobs(rows=ROWS, classes=10, dims=2, noise=0.2).train
    indices = owned_indices(ROWS, runtime.rank, runtime.world_size)
    mine = examples.subset(indices)
    model = runtime.network(nn.Linear(2, 10))
    training = Training(
        runtime=runtime,
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.9, weight_decay=0.005),
        learner=LabelLearner(method, mine.labels, phases or plan),
        sampler=EpochSampler(ROWS, batch_size, seed=3, rank=runtime.rank, world_size=runtime.world_size),
        preparation=Preparation(device=runtime.device),
        train=mine,
        indices=indices,
        validation=examples,
        checkpoints=Checkpoints(Path(folder), runtime, keep=1),
        alarms=actions if watched else None,
    )
    loop = Loop(training)
    assert loop.run()
    rows = training.learner.store.state()
    return {
        "state": {**whole_weights(model), **rows},
        "alarms": loop.alarms,
        "phases": training.learner.phases,
    }


def one_process(number, points, folder):
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(number), "WORLD_SIZE": "2", **points}
    runtime, found = Runtime.start("cpu"), {}
    for name in ALARMS:
        found[name] = trained(runtime, f"{folder}/{name}", name)
        found[name, "plan"] = trained(
            runtime, f"{folder}/{name}-plan", name, phases=found[name]["phases"], watched=False
        )
    found["whole"] = trained(runtime, f"{folder}/whole", "collapse", batch_size=ROWS)
    runtime.stop()
    torch.save(found, f"{folder}/{number}.pt")


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    with pytest.MonkeyPatch.context() as patch, meeting_points(1) as points:
        patch.setenv("OMP_NUM_THREADS", "1")
        together(one_process, points[0], str(folder), count=2)
    return [torch.load(folder / f"{number}.pt", weights_only=False) for number in range(2)]


@pytest.mark.parametrize("name", ALARMS)
def test_ranks_act_on_an_alarm_as_the_changed_plan_says(ranks, name):
    for rank in ranks:
        assert [record["name"] for record in rank[name]["alarms"]] == [name]
        assert "were restored" in rank[name]["alarms"][0]["action"]
        assert_same(rank[name, "plan"]["state"], rank[name]["state"])
    assert ranks[0][name]["alarms"] == ranks[1][name]["alarms"]


def test_two_ranks_act_as_one_process(ranks, tmp_path):
    """With all rows in one batch both see the same sums, but for rounding; decisions agree exactly."""
    alone = trained(Runtime(device=torch.device("cpu")), tmp_path, "collapse", batch_size=ROWS)
    assert [record["name"] for record in alone["alarms"]] == ["collapse"]
    places = owned_indices(ROWS, 0, 1).argsort()  # of the rows in the store of one process
    (rows,) = (name for name in alone["state"] if name not in ("weight", "bias"))
    for number, rank in enumerate(ranks):
        assert alone["alarms"] == rank["whole"]["alarms"]
        assert alone["phases"] == rank["whole"]["phases"]
        mine, state = owned_indices(ROWS, number, 2), rank["whole"]["state"]
        torch.testing.assert_close(state["weight"], alone["state"]["weight"], rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(state[rows], alone["state"][rows][places[mine]], rtol=1e-3, atol=1e-3)
