"""Whatever a library says when memory, descriptors or disk run out, the user hears one line."""

import errno
import os

import numpy as np
import pytest
from safetensors import SafetensorError

from pencil.machine import FILES, MEMORY, SPACE, fault_of


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), MEMORY),
        (OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)), MEMORY),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes."), MEMORY),
        (RuntimeError("can't start new thread"), MEMORY),
        (OSError(errno.EMFILE, os.strerror(errno.EMFILE)), FILES),
        (RuntimeError("received 0 items of ancdata"), FILES),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), SPACE),
        (SafetensorError("I/O error: No space left on device (os error 28)"), SPACE),
    ],
    ids=str,
)
def test_the_machines_faults_are_told_in_a_line(error, words):
    assert fault_of(error) == words


def test_the_cause_of_an_error_is_found_behind_it():
    error = RuntimeError("file write failed")
    error.__cause__ = OSError(errno.ENOSPC, "full")
    assert fault_of(error) == SPACE


def test_an_array_too_large_for_any_machine_is_a_lack_of_memory():
    with pytest.raises(MemoryError) as caught:
        np.empty(1 << 60, dtype=np.uint8)
    assert fault_of(caught.value) == MEMORY


@pytest.mark.parametrize("error", [ValueError("No space left on device"), OSError("gone"), KeyError("a")])
def test_other_errors_are_not(error):
    assert fault_of(error) is None
