"""Device, precision and memory format as asked; one process needs nobody else."""

import pytest
import torch

from pencil.engine import Runtime, is_lost_rank
from pencil.errors import ConfigError


@pytest.fixture(autouse=True)
def one_process(monkeypatch):
    for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)


def test_one_process_is_the_main_one_and_needs_no_group():
    runtime = Runtime.start("cpu")
    assert (runtime.rank, runtime.world_size, runtime.is_main) == (0, 1, True)
    assert not torch.distributed.is_initialized()
    runtime.barrier()
    runtime.stop()


def test_alone_a_process_heeds_no_torchrun(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    runtime = Runtime.alone("cpu")
    assert (runtime.rank, runtime.world_size, runtime.is_main) == (0, 1, True)
    assert not torch.distributed.is_initialized()


def test_auto_takes_the_gpu_only_where_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert Runtime.start("auto").device == torch.device("cpu")
    chosen = []  # no GPU here: what would be told to CUDA is only noted
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert Runtime.start("auto").device == torch.device("cuda", 3)
    assert chosen == [torch.device("cuda", 3)]


@pytest.fixture
def two_gpus(monkeypatch):
    """No GPU here: what would be told to CUDA is only noted."""
    chosen = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    return chosen


@pytest.mark.parametrize(
    ("wanted", "local", "number"), [("cuda", "0", 0), ("cuda", "1", 1), ("cuda:1", "0", 1)]
)
def test_a_gpu_that_is_asked_for_has_a_number(two_gpus, monkeypatch, wanted, local, number):
    monkeypatch.setenv("LOCAL_RANK", local)
    assert Runtime.start(wanted).device == torch.device("cuda", number)
    assert two_gpus == [torch.device("cuda", number)]


@pytest.mark.parametrize(("wanted", "local"), [("cuda:7", "0"), ("cuda", "2")])
def test_a_gpu_beyond_the_last_is_refused(two_gpus, monkeypatch, wanted, local):
    monkeypatch.setenv("LOCAL_RANK", local)
    with pytest.raises(
        ConfigError, match=rf"train\.device: '{wanted}' would be GPU .*sees 2, numbered from 0"
    ):
        Runtime.start(wanted)


def test_an_unknown_device_is_named_in_the_error():
    with pytest.raises(ConfigError, match=r"train\.device.*'gpu7'"):
        Runtime.start("gpu7")


def test_a_gpu_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=r"train\.device.*no GPU"):
        Runtime.start("cuda")


def test_bf16_is_autocast_and_leaves_weights_in_float32():
    model = torch.nn.Linear(2, 2)
    with Runtime.start("cpu", "bf16").autocast():
        assert model(torch.ones(1, 2)).dtype == torch.bfloat16
    with Runtime.start("cpu").autocast():
        assert model(torch.ones(1, 2)).dtype == torch.float32
    assert model.weight.dtype == torch.float32


@pytest.mark.parametrize(
    ("capabilities", "chosen"),
    [
        ({}, "fp32"),
        ({"avx512_bf16": False}, "fp32"),
        ({"avx512_bf16": True}, "bf16"),
        ({"amx_bf16": True}, "bf16"),
    ],
)
def test_auto_takes_bf16_only_where_the_processor_has_it(monkeypatch, capabilities, chosen):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    assert Runtime.start("cpu", "auto").precision == chosen


def test_auto_is_fp32_on_a_torch_that_cannot_tell(monkeypatch):
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    assert Runtime.start("cpu", "auto").precision == "fp32"


@pytest.mark.parametrize("channels_last", [False, True])
def test_convolutions_are_placed_in_the_memory_format_asked_for(channels_last):
    model = Runtime.start("cpu", channels_last=channels_last).place(torch.nn.Conv2d(3, 4, 3))
    assert model.weight.is_contiguous(memory_format=torch.channels_last) is channels_last


def test_alone_the_model_is_not_wrapped_and_the_sum_is_its_own():
    runtime, model = Runtime.start("cpu"), torch.nn.Linear(2, 2)
    assert runtime.network(model) is model
    assert torch.equal(runtime.total(torch.tensor([1.0, 2.0])), torch.tensor([1.0, 2.0]))


@pytest.mark.parametrize("rank", [0, 1])
def test_rank_and_world_size_come_from_torchrun(monkeypatch, rank):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    runtime = Runtime.start("cpu")
    assert (runtime.rank, runtime.world_size, runtime.is_main) == (rank, 2, rank == 0)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("[gloo/transport/tcp/pair.cc:553] Connection closed by peer"),
        RuntimeError(
            "[/a/gloo/gloo/transport/tcp/pair.cc:537] Read error [10.0.0.2]:1: Connection timed out"
        ),
        RuntimeError("[/a/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1000ms for recv"),
        RuntimeError("[/a/gloo/gloo/allreduce.cc:153] Timed out waiting 1000ms"),
        torch.distributed.DistBackendError("NCCL"),
        torch.distributed.DistNetworkError("Connection reset"),
        torch.distributed.DistStoreError("wait timeout after 1000ms"),
    ],
)
def test_a_lost_rank_is_known_by_what_collectives_and_stores_say(error):
    assert is_lost_rank(error)


def test_a_lost_rank_is_told_from_other_errors():
    assert not is_lost_rank(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
