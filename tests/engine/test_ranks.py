"""Real processes train as one: every row once an epoch, the labels and weights that one process would find.

Everything is float64 here, where sums in another order agree to many digits. The reference is a naive loop in one
process that takes, at every step, the batches of all ranks together. Starting processes is slow, so three of them do
everything here: two, one and three at a time, with the network whole on each (DDP) and in shards (FSDP2).
"""

import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import nn
from torch.distributed.tensor import DTensor

from pencil.algorithm import Pencil, three_phases
from pencil.data import EpochSampler, Examples, Preparation, RowNumbers, TensorInputs, owned_indices
from pencil.data.sampler import Stretch
from pencil.engine import (
    Checkpoints,
    Events,
    LabelLearner,
    Loop,
    Runtime,
    Training,
    evaluate,
    parallel,
    whole_weights,
)
from pencil.errors import RunError
from pencil.stores import DenseStore, GivenLabels
from support.ranks import meeting_points
from support.warm import together

pytestmark = pytest.mark.ranks

ROWS, CLASSES, DIMS = 61, 4, 6
PHASES = three_phases(1, 2, 1, learning_rate=0.1, finetune_rate=0.05)
EPOCHS = 4
METHOD = Pencil(label_rate=40.0)
LARGE, SMALL = 16, 5  # batches: 4 steps an epoch, or 13 with hardly two rows for each of three ranks
# Two ranks take the first 18 steps, one goes on to 23, three to the end: they change in the second epoch.
STOPS = (18, 23)
TAKEN_BY = [2] * 18 + [1] * 5 + [3] * 29
KINDS = ("ddp", "fsdp")
EXACT = {"rtol": 1e-10, "atol": 1e-10}


class DoubleStore(DenseStore):
    """Rows in float64, which remembers how often each was written."""

    def __init__(self, num_rows, row_width):
        super().__init__(num_rows, row_width)
        self._values = self._values.double()
        self.writes = torch.zeros(num_rows, dtype=torch.long)

    def scatter(self, rows, values):
        self._values[rows] = values.detach().double()
        self.writes[rows] += 1


class DoublePreparation(Preparation):
    """Leaves float64 as it is, and remembers who was seen when."""

    def training(self, inputs, indices, epoch):
        SEEN.extend((epoch, row) for row in indices.tolist())
        return inputs

    def evaluation(self, inputs):
        return inputs


SEEN: list[tuple[int, int]] = []


class Notes:
    """Hears everything; asks the run to stop once a step is done."""

    def __init__(self, stop_after=None):
        self.events, self.stop_after = [], stop_after

    def handle(self, event):
        self.events.append((event.kind, event.step, dict(event.values)))
        if event.kind == "step" and self.stop_after is not None and event.step == self.stop_after - 1:
            os.kill(os.getpid(), signal.SIGTERM)  # heard after this step, obeyed after the next


def problem():
    """Class-sorted, with labels half of which are wrong."""
    generator = torch.Generator().manual_seed(0)
    truth = torch.arange(ROWS) * CLASSES // ROWS
    centers = 2 * torch.randn(CLASSES, DIMS, generator=generator, dtype=torch.float64)
    inputs = centers[truth] + torch.randn(ROWS, DIMS, generator=generator, dtype=torch.float64)
    wrong = torch.randint(CLASSES, (ROWS,), generator=generator)
    labels = torch.where(torch.rand(ROWS, generator=generator) < 0.5, wrong, truth)
    return Examples(
        TensorInputs(inputs),
        GivenLabels.of(labels, CLASSES),
        tuple("abcd"),
        RowNumbers(ROWS),
        reference=truth,
    )


def network(batch_norm=False):
    torch.manual_seed(1)
    layers = [
        nn.Linear(DIMS, 8),
        *([nn.BatchNorm1d(8)] if batch_norm else []),
        nn.Tanh(),
        nn.Linear(8, CLASSES),
    ]
    return nn.Sequential(*layers).double()


def optimizer_of(model, adam=False):
    if adam:
        return torch.optim.AdamW(model.parameters(), lr=0.0, weight_decay=0.01)
    return torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.9, weight_decay=0.01)


def sampler(batch_size, rank, world_size):
    return EpochSampler(ROWS, batch_size, seed=3, rank=rank, world_size=world_size)


def trained(runtime, batch_size, folder=None, *, stop_after=None, batch_norm=False):
    """Go on from the newest checkpoint, where there is one, and tell what this rank saw."""
    SEEN.clear()
    rows = owned_indices(ROWS, runtime.rank, runtime.world_size)
    everything = problem()
    mine = everything.subset(rows)
    store = DoubleStore(len(mine), CLASSES)
    model = runtime.network(network(batch_norm))
    notes = Notes(stop_after)
    loop = Loop(
        Training(
            runtime=runtime,
            model=model,
            optimizer=optimizer_of(model, adam=batch_norm),
            learner=LabelLearner(METHOD, mine.labels, PHASES, store=store),
            sampler=sampler(batch_size, runtime.rank, runtime.world_size),
            preparation=DoublePreparation(device=runtime.device),
            train=mine,
            indices=rows,
            test=everything,
            accumulate=2,
            checkpoints=None if folder is None else Checkpoints(Path(folder), runtime, keep=9),
            checkpoint_steps=5,  # beside training
            events=Events([notes]),
        )
    )
    resumed = loop.resume()
    finished = loop.run()
    return {
        "resumed": resumed,
        "finished": finished,
        "step": loop.step,
        "rows": rows,
        "labels": store.state()["values"],
        "writes": store.writes - 1,  # the first is the start
        "seen": list(SEEN),
        "weights": gathered(loop.training.backbone),
        "kept": whole_weights(model),
        "shards": sum(isinstance(weight, DTensor) for weight in model.parameters()),
        "local": {name: local_rows(weight) for name, weight in model.named_parameters()},
        "events": notes.events,
    }


def gathered(model):
    """Every weight, whole, on every rank."""
    state = model.state_dict()
    return {
        name: value.full_tensor() if isinstance(value, DTensor) else value for name, value in state.items()
    }


def local_rows(weight):
    return len(weight.to_local() if isinstance(weight, DTensor) else weight)


def as_one_of(world_size, rank, meeting_point):
    """What torchrun would announce."""
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(world_size), **meeting_point}
    return Runtime.start("cpu")


def one_process(number, points, folder):
    """Its part in the runs of two, one and three ranks; a process that has none waits for the next run."""
    torch.set_num_threads(1)
    evaluate.BATCH = 10  # ranks need unlike numbers of passes
    parallel.ENOUGH = 40  # the first layer is a block, the last belongs to the root
    results = {}
    for world_size, runs in ((2, runs_of_two), (1, runs_of_one), (3, runs_of_three)):
        if number < world_size:
            runtime = as_one_of(world_size, number, points[world_size])
            results[world_size] = {
                kind: runs(replace(runtime, parallel=kind), f"{folder}/{kind}") for kind in KINDS
            }
            runtime.stop()
    torch.save(results, f"{folder}/{number}.pt")


REQUIRED = ("optimizer", "learner", "sampler", "preparation", "train", "indices")


def runs_of_two(runtime, folder):
    with pytest.raises(RunError, match=r"Runtime\.network"):
        Loop(Training(**(dict.fromkeys(REQUIRED) | {"runtime": runtime, "model": network()})))
    return {
        "plain": trained(runtime, LARGE),
        "relay": trained(runtime, SMALL, f"{folder}/relay", stop_after=STOPS[0]),
        "whole": trained(runtime, LARGE, f"{folder}/whole", batch_norm=True),
        "rewound": rewound(runtime, f"{folder}/whole"),
        "stopped": trained(runtime, LARGE, f"{folder}/again", batch_norm=True, stop_after=6),
        "again": trained(runtime, LARGE, f"{folder}/again", batch_norm=True),
    }


def rewound(runtime, folder):
    """Again from a checkpoint that was written while training went on."""
    if runtime.is_main:
        for path in Path(folder).glob("step-*"):
            if int(path.name[5:]) > 10:
                shutil.rmtree(path)
    runtime.barrier()
    return trained(runtime, LARGE, folder, batch_norm=True)


def runs_of_one(runtime, folder):
    return {"relay": trained(runtime, SMALL, f"{folder}/relay", stop_after=STOPS[1])}


def runs_of_three(runtime, folder):
    return {
        "plain": trained(runtime, LARGE),
        "relay": trained(runtime, SMALL, f"{folder}/relay"),
        "whole": trained(runtime, LARGE, f"{folder}/whole-3", batch_norm=True),
        "rewound": rewound(runtime, f"{folder}/whole-3"),
    }


class Ranks(NamedTuple):
    """What every rank tells, by number of ranks."""

    two: list
    one: list
    three: list

    def legs(self):
        """The runs of the relay, one after another."""
        return [[rank["relay"] for rank in ranks] for ranks in self]


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    with pytest.MonkeyPatch.context() as patch, meeting_points(3) as points:
        patch.setenv("OMP_NUM_THREADS", "1")
        together(one_process, dict(enumerate(points, 1)), str(folder), count=3)
    return [torch.load(folder / f"{number}.pt") for number in range(3)]


@pytest.fixture(params=KINDS)
def ranks(request, everything):
    return Ranks(*([each[size][request.param] for each in everything[:size]] for size in (2, 1, 3)))


def naive_run(batch_size, taken_by):
    """One process that takes the batches of all ranks together; ``taken_by``: the number of ranks of each step."""
    examples = problem()
    inputs, given = examples.inputs.values, examples.labels.hard
    model = network()
    optimizer = optimizer_of(model)
    learner = LabelLearner(METHOD, examples.labels, PHASES, store=DoubleStore(ROWS, CLASSES))
    steps = sampler(batch_size, 0, 1).steps
    metrics = []
    for epoch in range(EPOCHS):
        sizes = taken_by[epoch * steps : (epoch + 1) * steps]
        loss, agreeing = 0.0, 0
        for step, rows in enumerate(naive_batches(batch_size, epoch, sizes)):
            learner.epoch = epoch + step / steps
            optimizer.param_groups[0]["lr"] = learner.learning_rate
            logits = model(inputs[rows])
            optimizer.zero_grad()
            losses = learner.loss(logits, rows, reduction="none")
            losses.mean().backward()
            optimizer.step()
            learner.step()
            loss += float(losses.detach().sum())
            agreeing += int((logits.argmax(dim=1) == given[rows]).sum())
        learned = learner.labels()
        with torch.no_grad():
            test = (model(inputs).argmax(dim=1) == given).double().mean()
        metrics.append(
            {
                "loss": loss / ROWS,
                "train_agreement": agreeing / ROWS,
                "labels_changed": int((learned.suggested != learned.given).sum()),
                "labels_correct": float((learned.suggested == examples.reference).double().mean()),
                "test_accuracy": float(test),
            }
        )
    return model.state_dict(), learner.store.state()["values"], metrics


def naive_batches(batch_size, epoch, sizes):
    """For each step of an epoch, the rows of all ranks' batches; ``sizes``: the number of ranks of each step."""
    for step, size in enumerate(sizes):
        ends = [end for end in range(1, step + 1) if sizes[end] != sizes[end - 1]]
        earlier = [Stretch(sizes[end - 1], end) for end in ends]
        yield torch.cat(
            [
                owned_indices(ROWS, rank, size)[
                    next(sampler(batch_size, rank, size).batches(epoch, step, earlier))
                ]
                for rank in range(size)
            ]
        )


def metrics_of(results):
    """The epochs that the main ranks of runs told of, without what only the loop knows."""
    told = [values for result in results for kind, _, values in result["events"] if kind == "epoch"]
    names = ("loss", "train_agreement", "labels_changed", "labels_correct", "test_accuracy")
    return [{name: values[name] for name in names} for values in told]


def in_row_order(results):
    table = torch.full((ROWS, CLASSES), float("nan"), dtype=torch.float64)
    for result in results:
        table[result["rows"]] = result["labels"]
    return table


def assert_trained_as(results, weights, labels):
    for result in results:
        assert result["finished"]
        for name, value in weights.items():
            assert torch.equal(result["weights"][name], results[0]["weights"][name]), name
            torch.testing.assert_close(result["weights"][name], value, **EXACT)
    assert sorted(torch.cat([result["rows"] for result in results]).tolist()) == list(range(ROWS))
    torch.testing.assert_close(in_row_order(results), labels, **EXACT)


def assert_told(results, expected):
    found = metrics_of(results)
    assert len(found) == len(expected) == EPOCHS
    for one, other in zip(found, expected, strict=True):
        assert one == pytest.approx(other, rel=1e-10)


@pytest.mark.parametrize("world_size", [2, 3])
def test_ranks_train_as_one_process_would(ranks, world_size):
    results = [rank["plain"] for rank in (ranks.two if world_size == 2 else ranks.three)]
    weights, labels, metrics = naive_run(LARGE, [world_size] * 16)
    assert_trained_as(results, weights, labels)
    assert_told(results[:1], metrics)
    assert metrics[-1]["labels_changed"] > 5
    assert all((result["writes"] == 2).all() for result in results)  # two correction epochs


def test_only_the_main_rank_tells(ranks):
    assert all(rank["plain"]["events"] == [] for rank in (*ranks.two[1:], *ranks.three[1:]))


def test_two_ranks_then_one_then_three_resume_in_mid_epoch_where_the_others_stopped(ranks):
    for results, step, ranks_before in zip(ranks.legs(), (*STOPS, 52), (0, 2, 1), strict=True):
        assert {result["step"] for result in results} == {step}
        assert {result["resumed"] for result in results} == {ranks_before > 0}
        assert {result["finished"] for result in results} == {step == 52}
    assert [kind for kind, _, _ in ranks.two[0]["relay"]["events"]][-3:] == ["checkpoint", "step", "stopped"]


def test_taking_turns_in_mid_epoch_every_row_is_seen_exactly_once_an_epoch(ranks):
    seen = [each for results in ranks.legs() for result in results for each in result["seen"]]
    assert sorted(seen) == [(epoch, row) for epoch in range(EPOCHS) for row in range(ROWS)]


def test_taking_turns_in_mid_epoch_every_row_is_written_exactly_once_a_correction_epoch(ranks):
    writes = torch.zeros(ROWS, dtype=torch.long)
    for results in ranks.legs():
        for result in results:
            writes[result["rows"]] += result["writes"]
    assert writes.tolist() == [2] * ROWS


def test_taking_turns_in_mid_epoch_labels_and_weights_are_those_of_one_process(ranks):
    weights, labels, _ = naive_run(SMALL, TAKEN_BY)
    assert_trained_as(ranks.legs()[-1], weights, labels)


def test_taking_turns_in_mid_epoch_metrics_are_those_of_one_process(ranks):
    main = [results[0] for results in ranks.legs()]
    _, _, metrics = naive_run(SMALL, TAKEN_BY)
    assert_told(main, metrics)
    assert metrics[1]["labels_changed"] > 0
    assert [len(metrics_of([result])) for result in main] == [1, 0, 3]


def test_the_relay_has_a_rank_without_rows_in_some_step():
    """So the tests above prove that such a rank neither hangs nor moves anything."""
    steps = sampler(SMALL, 0, 3).steps
    earlier = [Stretch(2, STOPS[0] - steps), Stretch(1, STOPS[1] - steps)]
    sizes = [
        [len(batch) for batch in sampler(SMALL, rank, 3).batches(1, STOPS[1] - steps, earlier)]
        for rank in range(3)
    ]
    assert min(map(min, sizes)) == 0


def test_ranks_with_batch_norm_resume_bit_for_bit(ranks):
    """Each rank has running statistics of its own until the next forward pass; those of the main rank count."""
    for rank in ranks.two:
        assert (rank["stopped"]["step"], rank["again"]["resumed"], rank["again"]["finished"]) == (
            6,
            True,
            True,
        )
        assert rank["rewound"]["resumed"]
        assert rank["rewound"]["writes"].max() == 1  # of the two correction epochs, one was saved
        for other in ("again", "rewound"):
            assert torch.equal(rank[other]["labels"], rank["whole"]["labels"])
            for name, value in rank["whole"]["weights"].items():
                assert torch.equal(rank[other]["weights"][name], value), (other, name)
        for name, value in rank["whole"]["weights"].items():
            assert torch.equal(ranks.two[0]["whole"]["weights"][name], value), name


def test_three_ranks_resume_bit_for_bit(ranks):
    """Their sums depend on where a value lies among those sent together, and DDP moves them after its first pass."""
    for rank in ranks.three:
        assert rank["rewound"]["resumed"]
        assert torch.equal(rank["rewound"]["labels"], rank["whole"]["labels"])
        for name, value in rank["whole"]["weights"].items():
            assert torch.equal(rank["rewound"]["weights"][name], value), name


def test_ranks_with_batch_norm_measure_the_network_that_is_kept(ranks):
    model = network(batch_norm=True)
    model.load_state_dict(ranks.two[0]["whole"]["kept"])
    model.eval()
    examples = problem()
    with torch.no_grad():
        right = model(examples.inputs.values).argmax(dim=1) == examples.labels.hard
    assert metrics_of([ranks.two[0]["whole"]])[-1]["test_accuracy"] == float(right.double().mean())


def test_the_main_rank_keeps_the_whole_network_in_plain_tensors(ranks):
    for results in (ranks.two, ranks.one, ranks.three):
        kept, weights = results[0]["relay"]["kept"], results[0]["relay"]["weights"]
        assert kept.keys() == weights.keys()
        assert all(type(kept[name]) is torch.Tensor for name in kept)
        assert all(torch.equal(kept[name], weights[name]) for name in kept)


def test_fsdp_leaves_each_rank_a_shard_even_where_ranks_do_not_divide_a_weight(everything):
    local = [each[3]["fsdp"]["plain"]["local"] for each in everything]
    assert [rows["0.weight"] for rows in local] == [3, 3, 2]
    assert [rows["2.weight"] for rows in local] == [2, 2, 0]
    assert [each[size]["fsdp"]["relay"]["shards"] for size in (2, 1, 3) for each in everything[:1]] == [
        4,
        0,
        4,
    ]
    assert all(each[3]["ddp"]["plain"]["shards"] == 0 for each in everything)
