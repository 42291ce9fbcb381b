"""Every reader of files from others, given damaged ones: nothing but the package's own errors may come out.

An input counts as unexpected where it ends in another exception, takes more than 5 s of processor time, takes more
memory than the limit allows, or ends the process. Each input is drawn by its target's name and its number alone, so
any can be tried again:

    python benchmarks/faults/fuzz.py                       10^6 inputs, of which 10^5 for each of the riskiest readers
    python benchmarks/faults/fuzz.py --quick               a few thousand
    python benchmarks/faults/fuzz.py --target image --input 1234
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import mmap
import os
import random
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faults import fuzz_data, fuzz_runs
from faults.fuzz_target import Made, Target
from faults.mutate import mutated
from pencil.errors import PencilError

SECONDS = 5.0  # of processor time for one input; the machine may be busy with others
WAIT = 600.0  # for a hundred inputs, until one that takes neither time nor end is given up
MEMORY = 1 << 30  # more than the process took before its first input
BROKEN = 3  # exit code
SHOWN = 3  # unexpected ends of a target that are told
_STATE = struct.Struct("<qq")  # inputs done, unexpected


class HangError(BaseException):
    """An input took too long; not an Exception, so that no reader takes it for a fault of the file."""


def measure(*, quick: bool) -> dict[str, int]:
    """All targets; counts of each go to stderr."""
    done = unexpected = 0
    for target in all_targets():
        tries = target.tries.quick if quick else target.tries.long
        begun = time.monotonic()
        faults = attempt(target, tries)
        done, unexpected = done + tries, unexpected + faults
        pace = tries / max(time.monotonic() - begun, 1e-9)
        print(
            f"{target.name:<22}{tries:>9,} inputs {faults:>5} unexpected {pace:>9,.0f}/s",
            file=sys.stderr,
            flush=True,
        )
    return {"fuzz_inputs": done, "fuzz_unexpected": unexpected}


def all_targets() -> list[Target]:
    """Readers of data, then those of settings and runs."""
    return [*fuzz_data.targets(), *fuzz_runs.targets()]


def attempt(target: Target, tries: int) -> int:
    """How many of the first inputs of a target end unexpectedly. A process that dies costs one, and another goes on."""
    with scratch() as folder, mmap.mmap(-1, _STATE.size) as state:
        state[:] = _STATE.pack(0, 0)
        while _STATE.unpack(state[:])[0] < tries:
            worker = os.fork()
            if not worker:
                _work(target, tries, folder, state)
            _, status = os.waitpid(worker, 0)
            if os.waitstatus_to_exitcode(status) == BROKEN:
                raise RuntimeError(f"{target.name}: the harness itself failed, see above")
            done, unexpected = _STATE.unpack(state[:])
            if done < tries:
                print(
                    f"{target.name}: input {done} ended the process ({status})", file=sys.stderr, flush=True
                )
                state[:] = _STATE.pack(done + 1, unexpected + 1)
        return int(_STATE.unpack(state[:])[1])


def _work(target: Target, tries: int, folder: Path, state: mmap.mmap) -> None:
    """The inputs from where the one before left off, in a process of its own; never returns."""
    try:
        seeds, read = prepared(target, folder)
        _limit()
        armed = False
        while (done := _STATE.unpack(state[:])[0]) < tries:
            if done % 100 == 0 or not armed:  # which starts a thread: too dear for every input
                faulthandler.dump_traceback_later(WAIT, exit=True)
                armed = True
            problem = outcome(read, mutated(seeds, target.changes, draw(target, done)))
            unexpected = _STATE.unpack(state[:])[1] + (problem is not None)
            if problem is not None and unexpected <= SHOWN:
                print(f"{target.name}: input {done}: {problem}", file=sys.stderr, flush=True)
            state[:] = _STATE.pack(done + 1, unexpected)
    except BaseException:  # the harness itself failed, not a reader
        traceback.print_exc()
        os._exit(BROKEN)
    os._exit(0)


def draw(target: Target, number: int) -> random.Random:
    """The chances of one input."""
    return random.Random(f"{target.name} {number}")


def prepared(target: Target, folder: Path) -> Made:
    """A clean folder with what the target needs; its seeds, the first of which is whole, and its reader."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    warnings.simplefilter("ignore")
    seeds, read = target.make(folder)
    read(seeds[0])  # a reader that takes nothing shows nothing
    return seeds, read


def outcome(read: Callable[[bytes], object], content: bytes) -> str | None:
    """What came of one input that should not have; None where it was read or refused."""
    signal.signal(signal.SIGPROF, _too_long)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        read(content)
    except PencilError:
        return None
    except BaseException as error:  # whatever else it is, it is a finding
        place = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in place if "/pencil/" in frame.filename] or place
        return f"{type(error).__name__}: {str(error)[:150]!r} in {Path(ours[-1].filename).name}:{ours[-1].lineno}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return None


def _too_long(*_: object) -> None:
    raise HangError(f"more than {SECONDS} s")


def _limit() -> None:
    """From here on the process may take so much more memory, and no core is written."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder in memory where there is one."""
    memory = Path("/dev/shm")  # noqa: S108 - a new folder in it
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder) / "inputs"


def replay(name: str, number: int) -> None:
    """One input again, with the traceback of what it ends in."""
    target = next(target for target in all_targets() if target.name == name)
    with scratch() as folder:
        seeds, read = prepared(target, folder)
        content = mutated(seeds, target.changes, draw(target, number))
        print(f"{len(content):,} bytes: {content[:2000]!r}")
        read(content)


def main() -> None:
    """By command."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--quick", action="store_true", help="a few thousand inputs")
    words.add_argument("--target", help="one reader alone")
    words.add_argument("--input", type=int, help="one input of it, with the traceback")
    words.add_argument("--tries", type=int, help="so many inputs of it")
    chosen = words.parse_args()
    if chosen.input is not None:
        replay(chosen.target, chosen.input)
    elif chosen.target is not None:
        target = next(target for target in all_targets() if target.name == chosen.target)
        tries = chosen.tries or target.tries.long
        print(json.dumps({"fuzz_inputs": tries, "fuzz_unexpected": attempt(target, tries)}))
    else:
        print(json.dumps(measure(quick=chosen.quick)))


if __name__ == "__main__":
    main()
