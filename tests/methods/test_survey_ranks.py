"""Two real processes survey as one would, and one process takes over what they learned."""

import os
import shutil
from dataclasses import dataclass, replace

import pytest
import torch

from pencil.algorithm import cross_entropy, three_phases
from pencil.data import EpochSampler, Examples, Preparation, RowNumbers, TensorInputs, owned_indices
from pencil.engine import Checkpoints, LabelLearner, Loop, Runtime, Training, whole_weights
from pencil.methods import DivideMix, Forward, Method, Step
from pencil.models import build_model
from pencil.stores import GivenLabels
from support.ranks import meeting_points
from support.warm import together

pytestmark = pytest.mark.ranks

ROWS, CLASSES = 61, 4
PHASES = three_phases(1, 2, 0, learning_rate=0.0, finetune_rate=0.0)  # the network stays as it begins
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Counted(Method):
    """Learns how often each class is given, and the sum of all rows, from the label table alone."""

    surveys_predictions = False

    def row_width(self, num_classes):
        return 1

    def start_rows(self, given, num_classes):
        return 1.0 + given[:, None]

    def start_shared(self, num_classes):
        return {"counts": torch.zeros(num_classes), "rows": torch.zeros(1)}

    def survey_due(self, moment):
        return True

    def survey(self, survey, shared):
        counts, rows = (torch.zeros_like(shared[name]) for name in ("counts", "rows"))
        for indices, batch, given in survey.rows():
            assert len(indices) == len(batch) == len(given)
            counts += given.bincount(minlength=survey.num_classes)
            rows += batch.sum()
        return {"counts": survey.total(counts), "rows": survey.total(rows)}

    def step(self, logits, rows, given, moment):
        return Step(cross_entropy(logits, given), 2 * rows)


def counted(runtime):
    """What its surveys left, how many examples were sent forward in each epoch, and the last rows."""
    job, epochs = training(runtime, None), []
    job.learner = LabelLearner(Counted(), job.train.labels, PHASES)
    job.events.listeners = [_Epochs(epochs)]
    assert Loop(job).run()
    return {"shared": job.learner.shared, "forward": [each["forward_passes"] for each in epochs]}


class _Epochs:
    def __init__(self, heard):
        self.heard = heard

    def handle(self, event):
        if event.kind == "epoch":
            self.heard.append(event.values)

    def close(self):
        pass


def training(runtime, folder, **options):
    generator = torch.Generator().manual_seed(0)
    values = 3 * torch.randn(ROWS, 6, generator=generator)
    labels = GivenLabels.of(torch.randint(CLASSES, (ROWS,), generator=generator), CLASSES)
    indices = owned_indices(ROWS, runtime.rank, runtime.world_size)
    mine = Examples(TensorInputs(values), labels, tuple("abcd"), RowNumbers(ROWS)).subset(indices)
    torch.manual_seed(1)
    model = runtime.network(build_model("linear", num_classes=CLASSES, input_shape=(6,)))
    return Training(
        runtime=runtime,
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
        learner=LabelLearner(Forward(), mine.labels, PHASES),
        sampler=EpochSampler(ROWS, 16, 3, runtime.rank, runtime.world_size),
        preparation=Preparation(device=CPU),
        train=mine,
        indices=indices,
        checkpoints=Checkpoints(folder, runtime, keep=9) if folder else None,
        **options,
    )


def divided(runtime, kind, rate=0.05):
    """What DivideMix leaves, with passes of an accumulated batch in which one rank has a row and the other none."""
    runtime = replace(runtime, parallel=kind)
    base = training(runtime, None)
    torch.manual_seed(1)
    args = {"name": "mlp", "args": {"hidden": (8,)}}
    model = build_model("pair", num_classes=CLASSES, input_shape=(6,), args=args)
    model = runtime.network(model)
    phases = three_phases(1, 2, 0, learning_rate=rate, finetune_rate=rate)
    job = replace(
        base,
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
        learner=LabelLearner(DivideMix(), base.train.labels, phases),
        sampler=replace(base.sampler, batch_size=5),
        checkpoints=None,
        accumulate=3,
    )
    assert Loop(job).run()
    return {"shared": job.learner.shared, "weights": whole_weights(model)}


def one_of_two(rank, meeting_point, folder):
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", **meeting_point}
    runtime = Runtime.start("cpu")
    job = training(runtime, folder / "checkpoints", checkpoint_steps=3)
    assert Loop(job).run()
    torch.save(job.learner.shared["transition"], folder / f"{rank}.pt")
    torch.save(counted(runtime), folder / f"counted-{rank}.pt")
    for kind in ("ddp", "fsdp"):
        torch.save(divided(runtime, kind), folder / f"divided-{kind}-{rank}.pt")
    runtime.stop()


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("survey")
    with meeting_points(1) as (point,):
        together(one_of_two, point, folder, count=2)
    return folder


def test_two_ranks_learn_what_one_process_learns(two_ranks, tmp_path):
    found = [torch.load(two_ranks / f"{rank}.pt") for rank in (0, 1)]
    assert torch.equal(*found)
    alone = training(Runtime(device=CPU), tmp_path)
    assert Loop(alone).run()
    torch.testing.assert_close(found[0], alone.learner.shared["transition"])
    torch.testing.assert_close(found[0].sum(dim=1), torch.ones(CLASSES))


def test_a_survey_of_the_label_table_makes_no_forward_pass_and_is_the_same_on_two_ranks(two_ranks):
    """Only the training passes are counted, one per example and epoch."""
    first, second = (torch.load(two_ranks / f"counted-{rank}.pt") for rank in (0, 1))
    alone = counted(Runtime(device=CPU))
    assert alone["forward"] == first["forward"] == [ROWS] * 3
    generator = torch.Generator().manual_seed(0)
    torch.randn(ROWS, 6, generator=generator)
    labels = torch.randint(CLASSES, (ROWS,), generator=generator)
    assert torch.equal(alone["shared"]["counts"], labels.bincount(minlength=CLASSES).float())
    assert float(alone["shared"]["rows"]) == float(
        4 * (labels + 1).sum()
    )  # twice doubled before the last survey
    for name, value in alone["shared"].items():
        assert torch.equal(first["shared"][name], value)
        assert torch.equal(second["shared"][name], value)


def test_one_process_resumes_with_what_two_ranks_learned(two_ranks, tmp_path):
    """From step 6, within the epoch that the survey preceded (steps 4 to 7): it is read, not made again."""
    for step in (3, 6):
        name = f"step-{step:010d}"
        shutil.copytree(two_ranks / "checkpoints" / name, tmp_path / name)
    job = training(Runtime(device=CPU), tmp_path)
    loop = Loop(job)
    assert loop.resume()
    assert loop.step == 6
    assert torch.equal(job.learner.shared["transition"], torch.load(two_ranks / "0.pt"))
    assert loop.run()


def test_ranks_divide_alike_and_keep_one_network(two_ranks):
    """Whole or in shards: the mixtures and the weights agree, though each rank guesses and mixes its own rows."""
    ddp, other, fsdp, last = (
        torch.load(two_ranks / f"divided-{kind}-{rank}.pt") for kind in ("ddp", "fsdp") for rank in (0, 1)
    )
    for name, value in ddp["shared"].items():
        assert torch.equal(value, other["shared"][name])
        assert torch.equal(fsdp["shared"][name], last["shared"][name])
        torch.testing.assert_close(fsdp["shared"][name], value, rtol=1e-3, atol=1e-4)
    for name, value in ddp["weights"].items():
        assert torch.equal(value, other["weights"][name])
        torch.testing.assert_close(fsdp["weights"][name], value, rtol=1e-3, atol=1e-4)
