"""Label learning adds no communication: a correction step moves exactly the bytes of a cross-entropy step.

Counted twice. Every collective, whoever calls it (DDP's reducer and FSDP call from C++), passes torch's dispatcher, and
there a mode notes it with its bytes. And the kernel counts, for every TCP connection of the process, the bytes sent:
gloo sends a header more or less where one rank waits for another, but nothing like a label row.
"""

import contextlib
import os
import socket
import struct
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from pencil.algorithm import Pencil, Phase
from pencil.data import EpochSampler, Examples, Preparation, RowNumbers, TensorInputs, owned_indices
from pencil.engine import LabelLearner, Loop, Runtime, Training, accuracy, evaluate, parallel, whole_weights
from pencil.methods import CrossEntropy
from pencil.stores import GivenLabels
from support.ranks import meeting_points
from support.warm import together

pytestmark = pytest.mark.ranks

ROWS, BATCH, CLASSES, SIDE = 96, 24, 500, 6
LABEL_BYTES = ROWS * CLASSES * 4  # of all ranks in an epoch: every row is written once
METHOD = Pencil(label_rate=10.0)
CORRECTION = (Phase(name="correction", epochs=1, learning_rate=0.01),)
SIZES, KINDS = (2, 3), ("ddp", "fsdp")
SENT_AND_SENT_AGAIN = 200  # where tcpi_bytes_sent and tcpi_bytes_retrans are in Linux's struct tcp_info


class Collectives(TorchDispatchMode):
    """Notes every collective of this process: its name and the bytes of its tensors."""

    def __init__(self):
        super().__init__()
        self.noted = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.namespace.lstrip("_").startswith("c10d"):
            self.noted.append((function.name(), sum(each.nbytes for each in tensors_of(args))))
        return function(*args, **(kwargs or {}))

    @property
    def bytes(self):
        return sum(size for _, size in self.noted)


def tensors_of(values):
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors_of(value)


def bytes_sent():
    """By this process on all its TCP connections, as the kernel counts them."""
    total = 0
    for file in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # no socket, or not of TCP
            if str(file.readlink()).startswith("socket:"):
                with socket.socket(fileno=os.dup(int(file.name))) as connection:
                    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
                sent, again = struct.unpack_from("=QQ", info, SENT_AND_SENT_AGAIN)
                total += sent - again
    return total


class Chatty(LabelLearner):
    """Would tell every other rank the rows it writes."""

    def step(self):
        for visit in self._visits:
            dist.all_reduce(visit.rows.clone())
        return super().step()


def examples():
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (ROWS, 3, SIDE, SIDE), generator=generator, dtype=torch.uint8)
    labels = torch.randint(CLASSES, (ROWS,), generator=generator)
    names = tuple(map(str, range(CLASSES)))
    return Examples(TensorInputs(images), GivenLabels.of(labels, CLASSES), names, RowNumbers(ROWS))


def network():
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.ReLU(), nn.Flatten(), nn.Linear(5 * 16, CLASSES)
    )


def training(runtime, method, learner=LabelLearner):
    indices = owned_indices(ROWS, runtime.rank, runtime.world_size)
    mine = examples().subset(indices)
    model = runtime.network(runtime.place(network()))
    return Training(
        runtime=runtime,
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.9),
        learner=learner(method, mine.labels, CORRECTION),
        sampler=EpochSampler(ROWS, BATCH, rank=runtime.rank, world_size=runtime.world_size),
        preparation=Preparation(device=runtime.device, channels_last=runtime.channels_last),
        train=mine,
        indices=indices,
    )


def counted(job):
    """An epoch of four steps, and all that was said in it."""
    loop = Loop(job)
    before = job.learner.store.state()["values"].clone()
    dist.barrier()
    sent = bytes_sent()
    with Collectives() as collectives:
        loop.run()
    sent = bytes_sent() - sent
    moved = int((job.learner.store.state()["values"] != before).any(dim=1).sum())
    return {"collectives": collectives.noted, "bytes": collectives.bytes, "sent": sent, "moved": moved}


def in_half_precision(runtime):
    """bf16, channels_last, two kinds of forward pass; the first of all is an evaluation."""
    runtime = replace(runtime, precision="bf16", channels_last=True)
    job = training(runtime, METHOD)
    before = accuracy(job.backbone, examples(), job.preparation, runtime)
    Loop(job).run()
    measured = accuracy(job.backbone, examples(), job.preparation, runtime)
    return {"before": before, "accuracy": measured, "weights": whole_weights(job.model)}


def one_process(number, points, folder):
    torch.set_num_threads(1)
    evaluate.BATCH = 16
    parallel.ENOUGH = 1000
    results = {}
    for size in SIZES:
        if number < size:
            os.environ |= {"RANK": str(number), "WORLD_SIZE": str(size), **points[size]}
            runtime = Runtime.start("cpu")
            for kind in KINDS:
                results[size, kind] = runs(replace(runtime, parallel=kind))
            runtime.stop()
    torch.save(results, f"{folder}/{number}.pt")


def runs(runtime):
    return {
        "cross entropy": counted(training(runtime, CrossEntropy())),
        "pencil": counted(training(runtime, METHOD)),
        "chatty": counted(training(runtime, METHOD, Chatty)),
        "half": in_half_precision(runtime),
    }


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    folder = tmp_path_factory.mktemp("traffic")
    with pytest.MonkeyPatch.context() as patch, meeting_points(len(SIZES)) as points:
        patch.setenv("OMP_NUM_THREADS", "1")
        together(one_process, dict(zip(SIZES, points, strict=True)), str(folder), count=3)
    return [torch.load(Path(folder) / f"{number}.pt") for number in range(3)]


@pytest.fixture(
    params=[(size, kind) for size in SIZES for kind in KINDS], ids=lambda case: f"{case[1]}-{case[0]}"
)
def ranks(request, everything):
    size, _ = request.param
    return [each[request.param] for each in everything[:size]]


def test_label_learning_adds_no_collective_and_no_byte(ranks):
    for rank in ranks:
        assert rank["cross entropy"]["moved"] == 0
        assert rank["pencil"]["moved"] == ROWS // len(ranks)
        assert rank["pencil"]["collectives"] == rank["cross entropy"]["collectives"]
        assert rank["pencil"]["bytes"] == rank["cross entropy"]["bytes"] > 0


def test_the_gradients_are_among_what_is_counted(ranks):
    """So collectives that DDP and FSDP call from C++ are seen."""
    weights = sum(weight.numel() * weight.element_size() for weight in network().parameters())
    for rank in ranks:
        names = Counter(name for name, _ in rank["pencil"]["collectives"])
        assert rank["pencil"]["bytes"] >= 4 * weights  # four steps
        assert any("reduce" in name for name in names)


def test_telling_label_rows_would_be_noticed(ranks):
    for rank in ranks:
        more = rank["chatty"]["bytes"] - rank["pencil"]["bytes"]
        assert more == LABEL_BYTES // len(ranks)
        assert len(rank["chatty"]["collectives"]) == len(rank["pencil"]["collectives"]) + 4


def test_the_kernel_counts_the_same(ranks):
    for rank in ranks:
        rows = LABEL_BYTES // len(ranks)
        assert abs(rank["pencil"]["sent"] - rank["cross entropy"]["sent"]) < 0.05 * rows
        assert rank["chatty"]["sent"] - rank["cross entropy"]["sent"] > 0.9 * rows


def test_half_precision_and_channels_last_train_alike_whole_and_in_shards(everything):
    for size in SIZES:
        whole, shards = (everything[0][size, kind]["half"] for kind in KINDS)
        assert whole["before"] == shards["before"]
        assert abs(whole["accuracy"] - shards["accuracy"]) < 0.1
        for name, weight in whole["weights"].items():
            assert weight.dtype == shards["weights"][name].dtype
            torch.testing.assert_close(shards["weights"][name], weight, rtol=0.02, atol=0.02)
