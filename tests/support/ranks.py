"""Several processes of one group: where they meet."""

import contextlib

from torch.distributed import TCPStore


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
