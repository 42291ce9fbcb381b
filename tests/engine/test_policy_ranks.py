"""Real processes follow one policy: every rank is given the same numbers, and all do as the changed plan says.

``test_ranks`` compares a plain run of several ranks with one process; here a run with decisions is compared with the
plain run of the plan that they lead to, bit for bit.
"""

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from pencil.algorithm import Pencil, three_phases
from pencil.data import EpochSampler, Examples, Preparation, RowNumbers, TensorInputs, owned_indices
from pencil.engine import (
    Checkpoints,
    Continue,
    Events,
    LabelLearner,
    Loop,
    NextPhase,
    Restore,
    Runtime,
    Stop,
    Training,
    whole_weights,
)
from pencil.errors import RunError
from pencil.stores import GivenLabels
from support.ranks import meeting_points
from support.warm import together

pytestmark = pytest.mark.ranks

ROWS, CLASSES, DIMS = 61, 4, 6
KINDS = ("ddp", "fsdp")
STEPS = 4  # in an epoch
PLAN = three_phases(1, 3, 1, learning_rate=0.1, finetune_rate=0.05)
LOWER = (PLAN[0], replace(PLAN[1], learning_rate=0.02, epochs=2), PLAN[2])
DECISIONS = {
    1: Continue(keep="start"),
    3: Restore("start", LOWER),
    4: NextPhase(keep="middle"),
    5: Stop(),
}
CHOSEN = (PLAN[0], replace(LOWER[1], epochs=1), PLAN[2])
STOP_AFTER = 13  # one step after the restore


class Script:
    """Decides by the number of epochs trained so far, and remembers the metrics it was given."""

    def __init__(self, decisions):
        self.decisions, self.given = decisions, []

    def decide(self, end):
        self.given.append(dict(end.metrics))
        return self.decisions.get(len(end.history) + 1, Continue())


class Stopper:
    """Asks the run to stop once a step is done."""

    def __init__(self, after):
        self.after = after

    def handle(self, event):
        if event.kind == "step" and event.step == self.after - 1:
            os.kill(os.getpid(), signal.SIGTERM)

    def close(self):
        pass


def trained(runtime, folder, *, policy=None, phases=PLAN, stop_after=None):
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(ROWS, DIMS, generator=generator)
    labels = GivenLabels.of(torch.randint(CLASSES, (ROWS,), generator=generator), CLASSES)
    indices = owned_indices(ROWS, runtime.rank, runtime.world_size)
    everything = Examples(TensorInputs(inputs), labels, tuple("abcd"), RowNumbers(ROWS))
    mine = everything.subset(indices)
    layers = nn.Linear(DIMS, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, CLASSES)
    model = runtime.network(nn.Sequential(*layers))
    torch.manual_seed(100 + runtime.rank)
    training = Training(
        runtime=runtime,
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.9),
        learner=LabelLearner(Pencil(label_rate=40.0), mine.labels, phases),
        sampler=EpochSampler(ROWS, 16, seed=3, rank=runtime.rank, world_size=runtime.world_size),
        preparation=Preparation(device=runtime.device),
        train=mine,
        indices=indices,
        test=everything,
        checkpoints=Checkpoints(Path(folder), runtime, keep=1),
        events=Events([Stopper(stop_after)] if stop_after else []),
        policy=policy,
    )
    loop = Loop(training)
    loop.resume()
    finished = loop.run()
    return {
        "finished": finished,
        "step": loop.step,
        "state": {**whole_weights(model), **training.learner.store.state(), "random": torch.get_rng_state()},
        "given": [] if policy is None else policy.given,
        "kept": sorted(path.name for path in Path(folder).glob("step-*")),
    }


def refusal(runtime, folder, policy):
    """What is raised; all ranks must raise, or this waits for ever."""
    try:
        trained(runtime, folder, policy=policy)
    except (RunError, ZeroDivisionError) as error:
        return type(error).__name__, str(error)
    return None


class Fails:
    def decide(self, end):
        raise ZeroDivisionError("no epoch")


def runs(runtime, folder):
    last = runtime.rank == runtime.world_size - 1
    return {
        "policy": trained(runtime, f"{folder}/policy", policy=Script(DECISIONS)),
        "plan": trained(runtime, f"{folder}/plan", phases=CHOSEN),
        "stopped": trained(runtime, f"{folder}/again", policy=Script(DECISIONS), stop_after=STOP_AFTER),
        "resumed": trained(runtime, f"{folder}/again", policy=Script(DECISIONS)),
        "unlike": refusal(runtime, f"{folder}/unlike", Script({1: Stop()} if last else {})),
        "failing": refusal(runtime, f"{folder}/failing", Fails() if last else Script({})),
    }


def one_process(number, points, folder):
    """Its part in the runs of two and of three ranks."""
    torch.set_num_threads(1)
    results = {}
    for size in (2, 3):
        if number < size:
            os.environ |= {"RANK": str(number), "WORLD_SIZE": str(size), **points[size]}
            runtime = Runtime.start("cpu")
            for kind in KINDS:
                results[size, kind] = runs(replace(runtime, parallel=kind), f"{folder}/{size}-{kind}")
            runtime.stop()
    torch.save(results, f"{folder}/{number}.pt")


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    with pytest.MonkeyPatch.context() as patch, meeting_points(2) as points:
        patch.setenv("OMP_NUM_THREADS", "1")
        together(one_process, dict(zip((2, 3), points, strict=True)), str(folder), count=3)
    return [torch.load(folder / f"{number}.pt", weights_only=False) for number in range(3)]


@pytest.fixture(params=[(2, "ddp"), (3, "ddp"), (2, "fsdp"), (3, "fsdp")], ids=str)
def ranks(request, everything):
    return [each[request.param] for each in everything[: request.param[0]]]


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert torch.equal(other[name], value), name


def test_ranks_with_decisions_train_as_ranks_with_the_plan_they_lead_to(ranks):
    for rank in ranks:
        assert rank["policy"]["finished"]
        assert rank["policy"]["step"] == 5 * STEPS
        assert_same(rank["plan"]["state"], rank["policy"]["state"])


def test_every_rank_is_given_the_same_numbers(ranks):
    given = [rank["policy"]["given"] for rank in ranks]
    assert all(numbers == given[0] for numbers in given)
    assert [metrics["epoch"] for metrics in given[0]] == [1, 2, 3, 2, 3]


def test_ranks_stopped_after_a_restore_resume_bit_for_bit(ranks):
    for rank in ranks:
        assert not rank["stopped"]["finished"]
        assert rank["stopped"]["step"] == STOP_AFTER
        assert rank["resumed"]["finished"]
        assert_same(rank["policy"]["state"], rank["resumed"]["state"])
    assert ranks[0]["stopped"]["kept"] == ["step-0000000004", f"step-{STOP_AFTER:010d}"]
    assert ranks[0]["policy"]["kept"] == ["step-0000000004", "step-0000000016", "step-0000000020"]


def test_ranks_that_decide_differently_are_all_refused(ranks):
    kinds = {rank["unlike"][0] for rank in ranks}
    assert kinds == {"RunError"}
    words = ranks[0]["unlike"][1]
    assert '"continue"' in words
    assert f"on rank {len(ranks) - 1}; let it use nothing but what it is given" in words
    assert '"stop"' in words


def test_a_policy_that_fails_on_one_rank_ends_all(ranks):
    *others, failed = ranks
    assert failed["failing"] == ("ZeroDivisionError", "no epoch")
    for rank in others:
        words = f"the policy failed on rank {len(ranks) - 1}: ZeroDivisionError: no epoch"
        assert rank["failing"] == ("RunError", words)
