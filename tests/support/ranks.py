"""Several processes of one group: under torchrun, or where those that a test starts meet."""

import contextlib
import os
import subprocess
import sys
import uuid

from torch.distributed import TCPStore

from support import warm


def torchrun(ranks, *options):
    """The arguments of Python before the program (``-m``, module) that so many processes run."""
    return ("-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}", *options)


def on_ranks(ranks, *words):
    """A command of pencil on so many ranks, as torchrun would start them, which must succeed."""
    with meeting_points(1) as [point]:
        group = {**point, "WORLD_SIZE": str(ranks), "TORCHELASTIC_RUN_ID": uuid.uuid4().hex}
        numbers = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(ranks)]
        started = [warm.pencil([*words, "--quiet"], group | number) for number in numbers]
        try:
            for process in started:
                process.join(300)
            assert [process.exitcode for process in started] == [0] * ranks
        finally:
            for process in started:
                process.kill()


def under_torchrun(ranks, *words, **environment):
    """The same from new processes."""
    subprocess.run(
        [sys.executable, *torchrun(ranks), "-m", "pencil", *map(str, words), "--quiet"],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        timeout=300,
        check=True,
    )


@contextlib.contextmanager
def meeting_points(count):
    """What each of several groups needs in its environment to meet.

    The stores run in this process, on ports that the system chose for them, so that nobody else can take a port before
    the processes begin. Processes find a running store by the variable that torchrun sets for its workers.
    """
    stores = [TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False) for _ in range(count)]
    yield [
        {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(store.port),
            "TORCHELASTIC_USE_AGENT_STORE": "True",
        }
        for store in stores
    ]
    del stores
