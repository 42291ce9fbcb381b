"""Bad and hostile data: every case works, or ends with one error that names file, row and remedy, within bounds.

The cases are tables, ``bad_images`` and those beside it. Each is read by the package's readers, in a process whose
memory is limited, and all that are data sets by the command ``pencil train`` too.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import re
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from faults import bad_arrays, bad_images, bad_runs, bad_settings, bad_shards, bad_tables
from faults.bad_input import Case
from pencil.data import Splits
from pencil.errors import PencilError

SECONDS = 10.0  # of processor time a case may take
PATIENCE = 120.0  # of the clock, before a case counts as hanging
MEMORY = 512 << 20  # bytes a case may take beyond what was there
SAMPLE = 8  # the quick form takes every so many-th case
IDS = tuple("abcd")  # of the rows that label files are for


def cases() -> list[Case]:
    """All of them, by name."""
    tables = (bad_images, bad_arrays, bad_tables, bad_shards, bad_settings, bad_runs)
    found = [case for table in tables for case in table.cases()]
    assert len({case.name for case in found}) == len(found), "two cases have one name"
    return found


def measure(*, quick: bool) -> dict[str, int]:
    """How many inputs were tried, and how many of them did what they should."""
    chosen = cases()[::SAMPLE] if quick else cases()
    tried = [(case, False) for case in chosen]
    tried += [(case, True) for case in (chosen[::SAMPLE] if quick else chosen) if case.reader == "data"]
    faults = 0
    for (case, by_command), fault in zip(tried, _in_worker(tried), strict=True):
        if fault is not None:
            faults += 1
            print(f"{case.name}{' by command' if by_command else ''}: {fault}", file=sys.stderr)
    return {"bad_inputs": len(tried), "bad_inputs_clean": len(tried) - faults}


def fault_of(case: Case, *, by_command: bool = False) -> str | None:
    """What is wrong with how a case ends; None where it ends as it should."""
    with tempfile.TemporaryDirectory(prefix="pencil-input-") as place:
        folder = Path(place) / "data"
        folder.mkdir()
        path = case.write(folder)
        begun, before = time.process_time(), _memory(reset=True)
        with warnings.catch_warnings(action="ignore"):
            run = by_command or case.reader == "command"
            fault = _judge_command(case, path) if run else _judge_reader(case, path)
        seconds, taken = time.process_time() - begun, _memory() - before
    if fault is None and seconds > SECONDS:
        return f"took {seconds:.1f} s"
    if fault is None and taken > MEMORY:
        return f"took {taken >> 20} MB"
    return fault


def _memory(*, reset: bool = False) -> int:
    """The most bytes that were in memory since the last reset; as far as the system tells, else since the beginning."""
    if reset:
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
    with contextlib.suppress(OSError):
        return int(re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[0]) << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _judge_reader(case: Case, path: Path) -> str | None:
    try:
        read(case, path)
    except PencilError as error:
        return _judge_error(case, str(error))
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return "was read, but should be refused" if case.expected == "error" else None


def _judge_error(case: Case, message: str) -> str | None:
    if case.expected == "works":
        return f"should work: {message}"
    if not re.search(case.tells, message):
        return f"does not tell {case.tells!r}: {message}"
    return None if re.search(r";|\bfix\b", message) else f"has no remedy: {message}"


def read(case: Case, path: Path) -> None:
    """Read a case, every row of it."""
    from pencil.config import RunConfig
    from pencil.data import read_label_file, read_trusted_file

    match case.reader:
        case "settings":
            RunConfig.read(path)
        case "labels":
            read_label_file(path, ids=IDS, class_names=("cat", "dog"))
        case "trusted":
            read_trusted_file(path)
        case _:
            splits = _splits(case, path)
            for examples in filter(None, (splits.train, splits.test)):
                examples.inputs.fetch(torch.arange(len(examples)))


def _splits(case: Case, path: Path) -> Splits:
    from pencil.configure import data_section
    from pencil.data import read_shards, write_index
    from pencil.run import read_splits

    if case.reader == "data":
        return read_splits(data_section(str(path), _known(case)))
    if case.reader == "shards":
        write_index({"train": [str(path)]}, path.parent / "index")
    return read_shards(path if case.reader == "index" else path.parent / "index", size=8)


def _known(case: Case) -> tuple[str, ...]:
    return tuple(f"data.{setting}" for setting in case.settings)


def _words(case: Case, path: Path) -> list[str]:
    if case.words:
        return [word.replace("FOLDER", str(path)) for word in case.words]
    words = ["train", str(path), "--out", str(path.parent / "run"), "--quiet", "--epochs", "1,2,1"]
    settings = [word for setting in ("data.validation=0", *_known(case)) for word in ("--set", setting)]
    if any(setting.startswith("size") for setting in case.settings):
        settings += ["--set", "model.name=small_cnn"]
    return words + settings


def _judge_command(case: Case, path: Path) -> str | None:
    from pencil.cli.main import main

    told, argv = io.StringIO(), sys.argv
    sys.argv = ["pencil", *_words(case, path)]
    try:
        with contextlib.redirect_stderr(told), contextlib.redirect_stdout(io.StringIO()):
            main()
        code: object = 0
    except SystemExit as stop:
        code = stop.code
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    finally:
        sys.argv = argv
    return _judge_output(case, code, told.getvalue())


def _judge_output(case: Case, code: object, told: str) -> str | None:
    """What is read may still be too little to train on, which is one error as well."""
    errors = [line for line in told.split("\n") if line.startswith("error: ")]
    if code == 0:
        return "was taken, but should be refused" if case.expected == "error" else None
    if code != 2 or len(errors) != 1 or "Traceback" in told:
        return f"ended with {code}: {told}"
    return _judge_error(case, told) if case.expected == "error" or case.words else None


# a process whose memory is limited


def _in_worker(tried: Sequence[tuple[Case, bool]]) -> Iterator[str | None]:
    """The fault of each; a case that hangs or kills its process is one, and the next ones get a new process."""
    numbers = {case.name: number for number, case in enumerate(cases())}
    with contextlib.ExitStack() as stack:
        pipe: Connection | None = None
        for case, by_command in tried:
            if pipe is None:
                pipe = stack.enter_context(_worker())
            pipe.send((numbers[case.name], by_command))
            try:
                fault: str | None = pipe.recv() if pipe.poll(PATIENCE) else "hangs"
            except EOFError:
                fault = "its process died"
            if fault in ("hangs", "its process died"):
                stack.pop_all().close()
                pipe = None
            yield fault


@contextlib.contextmanager
def _worker() -> Iterator[Connection]:
    context = multiprocessing.get_context("spawn")
    mine, other = context.Pipe()
    process = context.Process(target=_serve, args=(other,), daemon=True)
    process.start()
    other.close()
    try:
        yield mine
    finally:
        process.kill()
        process.join()


def _serve(pipe: Connection) -> None:
    torch.set_num_threads(1)
    sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 - open as long as the process
    known = cases()
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + 24 * MEMORY,) * 2)
    while True:
        try:
            number, by_command = pipe.recv()
        except EOFError:
            return
        pipe.send(fault_of(known[number], by_command=by_command))


if __name__ == "__main__":
    print(measure(quick="--quick" in sys.argv))
