"""Shards trained on by two ranks with two workers each: every row once, every shard by one reader, kills survived."""

import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from pencil.config import RunConfig
from pencil.data import Blocks, Order, blocks_of
from pencil.data.shards import read_shards, write_index
from pencil.engine import Runtime
from pencil.errors import RunError
from pencil.identity import unsealed
from pencil.presets import preset
from pencil.results import SavedLabels
from pencil.run import RunDirectory, resume, train
from pencil.run.build import build_sampler, check_same_rows
from support.ranks import torchrun

pytestmark = pytest.mark.ranks

SHARDS, ROWS, EPOCHS = 12, 10, 3
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
# The command, noting which process opens which shard; a worker of the loader has a number.
PROGRAM = """
import os, sys, time
from torch.utils.data import get_worker_info
from pencil.data.shards import files
from pencil.engine.checkpoint import Checkpoints
opened, save = files._Descriptor.__init__, Checkpoints.begin

def note(self, path):
    worker = get_worker_info()
    if worker is not None:
        with open(os.environ["OPENED"], "a") as log:
            log.write(f"{os.environ['RANK']} {os.getpid()} {path.name}\\n")
    opened(self, path)

def slowly(self, *state):
    time.sleep(0.3)
    return save(self, *state)

files._Descriptor.__init__ = note
if "SLOW" in os.environ:
    Checkpoints.begin = slowly
from pencil.cli import main
main()
"""
SETTINGS = [
    *("--epochs", "1,1,1", "--noise", "symmetric:0.2", "--seed", "3", "--quiet"),
    *("--set", "model.name=small_cnn", "--set", "model.args.widths=[4,4,4]", "--set", "data.size=8"),
    *(
        "--set",
        "method.label_rate=6.0",
        "--set",
        "data.augment={pad=1,crop=8}",
        "--set",
        "data.window=3",
        "--set",
        "train.workers=2",
    ),
    *("--set", "data.validation=0.0", "--set", "train.batch_size=24", "--set", "checkpoint.steps=2"),
    *("--set", "phases.backbone.learning_rate=0.1", "--set", "phases.correction.learning_rate=0.002"),
]


def picture(label, rng):
    pixels = rng.integers(0, 80, (8, 8, 3), dtype=np.uint8)
    pixels[..., label] += 150
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def add(tar, name, content):
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    rng = np.random.default_rng(0)
    for split, count in (("train", SHARDS), ("test", 2)):
        (folder / split).mkdir()
        for shard in range(count):
            with tarfile.open(folder / split / f"{shard:02d}.tar", "w") as tar:
                for row in range(ROWS):
                    label = int(rng.integers(3))
                    add(tar, f"{row:03d}.png", picture(label, rng))
                    add(tar, f"{row:03d}.cls", ["red", "green", "blue"][label].encode())
    write_index({"train": [str(folder / "train")], "test": [str(folder / "test")]}, folder / "index")
    return folder / "index"


def start(folder, *words, ranks=2, **environment):
    program = folder / "program.py"
    program.write_text(PROGRAM)
    return subprocess.Popen(
        [sys.executable, *torchrun(ranks), str(program), *map(str, words)],
        env={**ENVIRONMENT, "OPENED": str(folder / "opened"), **environment},
        stderr=subprocess.DEVNULL,
    )


def family(process: int) -> list[int]:
    """A process and all that descend from it."""
    children = Path(f"/proc/{process}/task/{process}/children")
    try:
        found = [int(child) for child in children.read_text().split()]
    except FileNotFoundError:
        return []
    return [process, *(each for child in found for each in family(child))]


@pytest.fixture(scope="module")
def undisturbed(index, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    assert start(folder, "train", index, "--out", folder / "run", *SETTINGS).wait(120) == 0
    return folder


def test_every_row_has_a_label_and_the_network_learned(undisturbed, index):
    directory = RunDirectory(undisturbed / "run")
    expected = [f"train/{shard:02d}.tar/{row:03d}" for shard in range(SHARDS) for row in range(ROWS)]
    assert saved(directory.path).ids == expected
    assert directory.summary["last"]["test_accuracy"] > 0.5


def test_a_shard_is_opened_by_one_worker_of_one_rank_but_for_the_one_that_two_ranks_share(undisturbed):
    readers = defaultdict(set)
    for line in (undisturbed / "opened").read_text().splitlines():
        rank, process, shard = line.split()
        readers[shard].add((rank, process))
    assert len(readers) == SHARDS
    ranks = {shard: {rank for rank, _ in found} for shard, found in readers.items()}
    shared = [shard for shard, found in ranks.items() if len(found) > 1]
    assert len(shared) <= 1
    passes = EPOCHS + 1  # each has workers of its own; the last one is for features early in training
    for shard, found in readers.items():
        assert len(found) == passes * len(ranks[shard]), shard
    assert len({reader for found in readers.values() for reader in found}) == passes * 4


def test_killed_in_mid_epoch_with_all_its_processes_a_run_ends_the_same(undisturbed, index, tmp_path):
    run = tmp_path / "run"
    process = start(tmp_path, "train", index, "--out", run, *SETTINGS, SLOW="1")
    while not any(int(path.name[5:]) >= 6 for path in (run / "checkpoints").glob("step-*")):
        assert process.poll() is None
        time.sleep(0.005)
    for each in family(process.pid):
        with contextlib.suppress(ProcessLookupError):  # workers end by themselves too
            os.kill(each, signal.SIGKILL)
    process.wait()
    assert not (run / "summary.json").exists()
    shutil.copytree(run, tmp_path / "alone")
    assert start(tmp_path, "resume", run, "--quiet").wait(120) == 0
    parts = [f"labels/0000{rank}-00000.safetensors" for rank in range(2)]
    for name in ("model.safetensors", *parts):
        assert unsealed(run / name) == unsealed(undisturbed / "run" / name), name

    assert_one_process_finishes_it(tmp_path / "alone", undisturbed / "run")


def assert_one_process_finishes_it(run, expected):
    """What two ranks left in mid-shard, one takes over: in the epoch of correction every row moves, none is lost."""
    method = resume(run).config.method
    found, wanted = saved(run), saved(expected)
    assert torch.equal(found.given.values, wanted.given.values)
    assert found.ids == wanted.ids
    begun = method.start_rows(found.given.values, 3)
    for each in (found, wanted):
        assert (each.rows["values"] != begun).any(dim=1).all()


def saved(run):
    """All labels that a run left."""
    labels = SavedLabels(run, 3)
    return labels.rows(0, labels.num_rows)


def test_skipped_shards_are_in_the_summary_and_their_rows_in_no_label_file(index, tmp_path):
    gone = index.parent / "train/05.tar"
    gone.rename(tmp_path / "away.tar")
    try:
        table = preset("shards", str(index)).table()
        table["data"] |= {"size": 8, "augment": {"pad": 1, "crop": 8}, "missing_shards": "skip"}
        table["model"] = {"name": "small_cnn", "args": {"widths": [4, 4, 4]}}
        table["method"] = {"name": "cross_entropy"}
        table["phases"] = [{**phase, "epochs": int(phase["name"] == "backbone")} for phase in table["phases"]]
        with pytest.warns(UserWarning, match="1 shards with 10 rows are skipped"):
            directory = train(RunConfig.of(table), tmp_path / "run")
    finally:
        (tmp_path / "away.tar").rename(gone)
    assert directory.summary["skipped_shards"] == {"train/05.tar": 10}
    ids = saved(directory.path).ids
    assert not any(name.startswith("train/05.tar") for name in ids)
    assert len(ids) == 99  # of 110 a tenth is held out


def test_a_rank_that_sees_other_shards_is_refused():
    orders = [Order(120, Blocks(torch.tensor([60, 60]), torch.tensor(shards))) for shards in ([0, 1], [0, 2])]
    seen = []

    class Two(Runtime):
        def total(self, values):
            seen.append(values)
            return values + seen[0]

    runtime = Two(device=torch.device("cpu"), world_size=2)
    check_same_rows(orders[0], runtime)
    with pytest.raises(
        RunError, match=r"the ranks read different shards \(rank 0: 2 with 120 rows\); make the same"
    ):
        check_same_rows(orders[1], runtime)


def test_the_window_is_the_one_in_the_settings(index):
    table = preset("shards", str(index)).table()
    table["data"]["window"] = 5
    train_split = read_shards(index).train
    order = Order(len(train_split), blocks_of(train_split.inputs))
    sampler = build_sampler(RunConfig.of(table), order, Runtime(device=torch.device("cpu")))
    assert sampler.window == 5
    assert sampler.blocks is order.placed
