"""Processes that begin with everything imported, which takes a new one three to four seconds of a processor.

A server imports once for each process that runs tests, when it is first needed, and forks from then on. Use it where
a test is about what several processes do together, and not about how one of them begins.
"""

import multiprocessing
import os
import sys

import torch
from torch.multiprocessing import start_processes

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    [
        "torch._dynamo",  # which optimisers import on their first step
        "torch.distributed.checkpoint.filesystem",
        "torch.distributed.checkpoint.state_dict_loader",
        "torch.distributed.checkpoint.state_dict_saver",
        "torch.distributed.fsdp",
        "torch.nn.parallel.distributed",
        "torch.utils.serialization",
        "pencil.bench.workers",
        "pencil.cli.main",
        "pencil.run",
        "pytest",
    ]
)


def together(function, *values, count):
    """Call ``function(number, *values)`` in so many processes, and wait; fails if one of them does."""
    start_processes(function, values, count, start_method="forkserver")


def pencil(words, environment):
    """A command of pencil in a process that has begun; ``environment`` joins this process's own."""
    process = PROCESSES.Process(target=_command, args=([*map(str, words)], {**os.environ, **environment}))
    process.start()
    return process


def _command(words, environment):
    from pencil.cli import main

    os.environ.clear()
    os.environ |= environment
    torch.set_num_threads(1)
    sys.argv = ["pencil", *words]
    main()
