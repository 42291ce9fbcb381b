"""Several processes of one group: under torchrun, or where those that a test starts meet."""

import contextlib
import os
import subprocess
import sys

from torch.distributed import TCPStore


def torchrun(ranks, *options):
    """The arguments of Python before the program (``-m``, module) that so many processes run."""
    return ("-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}", *options)


def on_ranks(ranks, *words, **environment):
    """A command of pencil on so many ranks, which must succeed."""
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
