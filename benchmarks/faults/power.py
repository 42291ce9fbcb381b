"""Power loss at any moment: whatever was not synced is lost or torn, and nothing that was published is.

    python benchmarks/faults/power.py [--quick] [--seed 0] [--json]

One process trains, stops, resumes, writes labels and a report, reviews, indexes shards and carries out a grid, while
strace records every change to a file. From the record a disk is made as it could be after power loss (``disk``), at
moments and with losses drawn by seed. On each such disk the work goes on. A point is whole if every published file is
the old or the new one, byte for byte, the newest checkpoint is whole, nothing acknowledged is missing, and the work
ends with what it leaves undisturbed: labels, weights and metrics byte for byte, the time it took apart.
"""

from __future__ import annotations

import itertools
import json
import random
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # the folder of the benchmarks, not the one of this file
    sys.path.insert(0, str(Path(__file__).parents[1]))

from common import followed, measure_by_command

from faults import work
from faults.disk import Disk, File
from faults.trace import Change, attach, changes, mark
from faults.warm import Warm, warm

POINTS = {"train": 60, "resume": 50, "labels": 15, "report": 15, "review": 40, "index": 25, "bench": 45}
QUICK = {"train": 3, "resume": 2, "labels": 1, "report": 1, "review": 2, "index": 1}
STORE = "top:3:mapped"
# What two equal runs of a grid differ in; a run that ended before it was measured does not repeat its warnings.
OTHER = ("seconds", "environment", "warnings")


def measure(*, quick: bool, seed: int = 0) -> dict[str, int]:
    """How many points were tried, and after how many everything was whole."""
    points = QUICK if quick else POINTS
    with warm() as (server, folder):
        record = record_work(server, folder, tuple(points))
        losses = (lose_power(server, record, folder, phase, count, seed) for phase, count in points.items())
        problems = followed(itertools.chain.from_iterable(losses), "losses of power left everything whole")
    return {"power_loss_points": len(problems), "power_loss_whole": problems.count("")}


@dataclass(frozen=True)
class Record:
    """What one undisturbed pass of the work did to the files below ``root``.

    Attributes:
        root: The folder.
        changes: All changes, marks among them.
        versions: The contents that each file was given by a rename, with the positions of the renames.
    """

    root: Path
    changes: Sequence[Change]
    versions: dict[str, list[tuple[int, bytes]]]

    def span(self, phase: str) -> tuple[int, int]:
        """The positions of the first and the last change of a phase."""
        marks = {
            change.path: position for position, change in enumerate(self.changes) if change.kind == "mark"
        }
        return marks[f"begin-{phase}"], marks[f"end-{phase}"]

    def marks(self, position: int, after: int = 0) -> set[str]:
        """The marks until then."""
        return {change.path for change in self.changes[after:position] if change.kind == "mark"}


def record_work(server: Warm, folder: Path, phases: Sequence[str]) -> Record:
    """Carry out the work once, watched."""
    data, root, log = folder / "data", folder / "undisturbed", folder / "trace"
    work.write_data(data)
    root.mkdir()
    job = server.start("faults.power:all_work", str(data), str(root), phases, traced=True)
    tracer = attach(job.pid, log)
    job.result()
    tracer.wait()
    found = changes(log, root)
    return Record(root, found, versions_of(found, root))


def all_work(data: str, root: str, phases: Sequence[str]) -> None:
    """Every phase in turn, its beginning, end and acknowledgements marked."""
    out = f"{root}/run"
    jobs: dict[str, Callable[[], Any]] = {
        "train": partial(work.train, data, out, STORE, work.STOP_AT),
        "resume": partial(work.resume, out),
        "labels": partial(write_labels, root),
        "report": partial(work.command, *report_words(root)),
        "review": partial(work.decide, out, lambda number: mark(f"decision-{number}")),
        "index": partial(write_index, data, root),
        "bench": partial(work.bench, data, f"{root}/bench", lambda done: mark(f"cell-{done.done}")),
    }
    for phase in phases:
        mark(f"begin-{phase}")
        jobs[phase]()
        mark(f"end-{phase}")


def write_labels(root: str) -> None:
    """A table, then another in its place."""
    work.command("labels", f"{root}/run", "--out", f"{root}/labels.csv")
    mark("table")
    work.command("labels", f"{root}/run", "--out", f"{root}/labels.csv", "--distribution")


def report_words(root: str) -> list[str]:
    """The command for the page, the summary and the charts."""
    return ["report", f"{root}/run", "--markdown", f"{root}/report/a.md", "--figures", f"{root}/report"]


def write_index(data: str, root: str) -> None:
    """The index of the shards."""
    shards = (f"{data}/{shard}.tar" for shard in range(3))
    work.command("index", *shards, "--out", f"{root}/indexes/index", "--workers", "1")


def versions_of(found: Sequence[Change], root: Path) -> dict[str, list[tuple[int, bytes]]]:
    """The contents that renames gave to files that count by themselves.

    Those that grow by themselves do not, and neither do parts of checkpoints and labels: a checkpoint counts by its own
    rename, labels by the summary.
    """
    disk, versions = Disk(root), dict[str, list[tuple[int, bytes]]]()
    grown = {change.path for change in found if change.kind == "write"}
    for position, change in enumerate(found):
        disk.apply([change])
        if change.kind == "rename" and isinstance(file := disk.find(change.target), File):
            versions.setdefault(change.target, []).append((position, file.now()))
    aside = ("/checkpoints/", "/labels/", "/.partial-")
    return {
        path: each
        for path, each in versions.items()
        if path not in grown and not any(part in path for part in aside)
    }


def lose_power(
    server: Warm, record: Record, folder: Path, phase: str, count: int, seed: int
) -> Iterator[str]:
    """What was wrong after each of some moments of a phase; "" where nothing was."""
    first, last = record.span(phase)
    draw = random.Random(f"{seed} {phase}")
    disk, done = Disk(record.root), 0
    for number, position in enumerate(sorted(draw.randint(first + 1, last) for _ in range(count))):
        disk.apply(record.changes[done:position])
        done, place = position, folder / f"{phase}-{number}"
        disk.after_loss(draw, place)
        wrong = torn_files(record, position, place)
        if not wrong:
            marks = sorted(record.marks(position))
            saved = sorted(disk.synced_names(record.root / "run" / "checkpoints"))
            wrong = server.call("faults.power:go_on", phase, str(folder), str(place), marks, saved)
        yield "; ".join(f"{phase}, after change {position}: {each}" for each in wrong)
        shutil.rmtree(place)


def torn_files(record: Record, position: int, place: Path) -> list[str]:
    """What is wrong with the files that renames published until a moment: each is old or new, and never torn."""
    wrong = []
    for path, versions in record.versions.items():
        known = [content for moment, content in versions if moment < position]
        sure = sum(bool(record.marks(position, after=moment)) for moment, _ in versions if moment < position)
        file = place / Path(path).relative_to(record.root)
        if file.exists() and file.read_bytes() not in known[max(sure - 1, 0) :]:
            wrong.append(f"{file.relative_to(place)} is torn or too old")
        elif sure and not file.exists():
            wrong.append(f"{file.relative_to(place)} is lost")
    return wrong


def go_on(phase: str, folder: str, place: str, marks: list[str], saved: list[str]) -> list[str]:
    """Go on with the work after power loss; what was wrong."""
    undisturbed, data = Path(folder) / "undisturbed", f"{folder}/data"
    try:
        if phase in ("train", "resume"):
            continue_run(data, Path(place) / "run", saved)
        else:
            CONTINUE[phase](data, Path(place), undisturbed, marks)
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]
    return work.difference(Path(place) / "run", undisturbed / "run")


def continue_run(data: str, out: Path, saved: list[str]) -> None:
    """From the newest checkpoint on, which is one that was surely on disk or a newer one."""
    if not (out / "config.toml").exists():
        assert not saved, "the run's settings are lost"
        assert work.train(data, str(out), STORE)
        return
    newest, finished = work.newest_step(out), (out / "summary.json").exists()
    assert newest >= max((int(name[5:]) for name in saved if name.startswith("step-")), default=0)
    begun = work.resume(str(out))
    assert begun == (-1 if finished else newest), f"it went on at {begun}, not at {newest}"


def labels_again(data: str, place: Path, undisturbed: Path, marks: list[str]) -> None:
    """The table can be written once more, and is the same."""
    write_labels(str(place))
    assert (place / "labels.csv").read_bytes() == (undisturbed / "labels.csv").read_bytes()


def report_again(data: str, place: Path, undisturbed: Path, marks: list[str]) -> None:
    """The report can be written once more."""
    work.command(*report_words(str(place)))


def continue_review(data: str, place: Path, undisturbed: Path, marks: list[str]) -> None:
    """Every decision that was answered is there; the others are made."""
    answered = sum(word.startswith("decision-") for word in marks)
    expected, found = work.decisions(f"{undisturbed}/run"), work.decisions(f"{place}/run")
    assert len(found) >= answered, f"{len(found)} of {answered} decisions are left"
    assert found == expected[: len(found)], "other decisions than those that were made"
    work.decide(f"{place}/run")
    assert work.decisions(f"{place}/run") == expected


def continue_index(data: str, place: Path, undisturbed: Path, marks: list[str]) -> None:
    """The index is there, whole, or not at all."""
    index, expected = place / "indexes" / "index", undisturbed / "indexes" / "index"
    assert index.exists() or "end-index" not in marks, "the index is lost"
    if not index.exists():
        write_index(data, str(place))
    for file in expected.iterdir():
        assert (index / file.name).read_bytes() == file.read_bytes(), f"{file.name} differs"


def continue_bench(data: str, place: Path, undisturbed: Path, marks: list[str]) -> None:
    """Results that were told are there; the grid ends as it would have."""
    told, file = sum(word.startswith("cell-") for word in marks), place / "bench" / "results.jsonl"
    lines = file.read_bytes().count(b"\n") if file.exists() else 0
    assert lines >= told, f"{lines} of {told} results are left"
    work.bench(data, f"{place}/bench")
    expected = results(undisturbed / "bench" / "results.jsonl")
    assert results(file) == expected, "other results"


def results(file: Path) -> list[dict[str, Any]]:
    """The lines of a grid, without what two equal runs differ in."""
    lines = map(json.loads, file.read_text().splitlines())
    return [{name: value for name, value in line.items() if name not in OTHER} for line in lines]


CONTINUE = {
    "labels": labels_again,
    "report": report_again,
    "review": continue_review,
    "index": continue_index,
    "bench": continue_bench,
}


if __name__ == "__main__":
    measure_by_command(measure, __doc__)
