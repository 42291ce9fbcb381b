"""Nothing goes to the wrong row: files, folders and rows are exchanged, and commands refuse or do what is right.

    python benchmarks/faults/wrong_rows.py [--quick] [--json]

Each mix-up is made with the installed command, as it would happen: two runs of one name, a sheet of another audit, rows
in another order, a label file that counts from 1, two commands that write one file, a damaged cache.
"""

from __future__ import annotations

import contextlib
import csv
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":  # the folder of the benchmarks, not the one of this file
    sys.path.insert(0, str(Path(__file__).parents[1]))

from common import followed, measure_by_command

from pencil.review import Review
from pencil.review.history import Who
from pencil.run import RunDirectory

NAMES = np.array(["ant", "bee", "cow", "dog"])
DECIDED = range(0, 20, 2)  # rows that a reviewer gives the class after the one that they have
PAIRS = 15
QUICK_EVERY = 4
SHORT = ("--epochs", "0,1,1", "--quiet")
ENCODER = """
import zlib
import numpy as np

def encode(texts):
    noise = [np.random.default_rng(zlib.crc32(text.encode())).normal(size=8) for text in texts]
    return np.array([each + 4 * np.eye(8)["xyz".index(text[0])] for each, text in zip(noise, texts)], "f4")

encode.size, encode.takes = 8, "texts"
"""
DYING = """
import os
from pathlib import Path
import numpy as np

def encode(images):
    features = np.stack([np.asarray(image, "f4").mean((0, 1)) for image in images])
    if Path("kill").exists() and features.max() > 150:
        os.kill(os.getpid(), 9)
    return features

encode.size = 3
"""


def measure(*, quick: bool, seed: int = 0) -> dict[str, int]:
    """How many mix-ups were made, and how many of them came to nothing."""
    chosen = MIX_UPS[::QUICK_EVERY] if quick else MIX_UPS
    results = followed(map(_tried, chosen), "mix-ups came to nothing")
    return {"mix_ups": len(results), "mix_ups_held": results.count("")}


def _tried(mix_up: MixUp) -> str:
    with tempfile.TemporaryDirectory(prefix="mix-up-") as folder:
        wrong = mix_up(Place(Path(folder).resolve()))
    return f"{mix_up.__name__}: {wrong}" if wrong else ""


@dataclass(frozen=True)
class Place:
    """A working folder."""

    folder: Path

    def inside(self, name: str) -> Place:
        """A folder in it."""
        (self.folder / name).mkdir(exist_ok=True)
        return Place(self.folder / name)

    def begin(self, *words: str) -> subprocess.Popen[str]:
        """Start a command."""
        environment = {**os.environ, "PENCIL_CACHE": str(self.folder / "cache"), "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(
            [sys.executable, "-m", "pencil", *words],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def works(self, *words: str) -> bool:
        """Whether a command succeeds; if not, it must say why."""
        process = self.begin(*words)
        _, said = process.communicate()
        assert process.returncode in (0, 2), said
        assert "Traceback" not in said, said
        return process.returncode == 0

    def must(self, *words: str) -> None:
        """A command without which there would be nothing to try."""
        if not self.works(*words):
            raise RuntimeError(f"pencil {' '.join(words)} failed")

    def save(self, name: str, values: Any, labels: Any, **more: Any) -> None:
        """Features and labels."""
        np.savez(self.folder / name, X=values, y=labels, **more)

    def given(self, run: str) -> dict[str, str]:
        """The given label of each row of a run, by id."""
        self.must("labels", run, "--out", "given.csv")
        return {row["id"]: row["given_label"] for row in read(self.folder / "given.csv")}

    def decide(self, run: str, choices: Mapping[str, int]) -> None:
        """A reviewer chooses classes by id, and skips other rows."""
        left = dict(choices)
        with contextlib.closing(Review(RunDirectory.open(self.folder / run), with_sure=True)) as review:
            item = review.take("window")["items"][0]
            while item is not None and left:
                label = left.pop(item["id"], None)
                seen, action = [(item["row"], item["version"])], "skip" if label is None else "choose"
                item = review.decide(Who("r", "window"), item["id"], seen, action, label)["items"][0]
        assert not left


MixUp = Callable[[Place], str]
"""Makes a mix-up; what went wrong, "" if nothing did."""


def points(rows: int = 200, *, noise: float = 0.2, classes: int = 4, seed: int = 3) -> tuple[Any, Any, Any]:
    """Features (N, 8), labels of which some are wrong (N,), and the true ones (N,)."""
    draw = np.random.default_rng(seed)
    truth = draw.integers(0, classes, rows)
    values = (draw.normal(size=(classes, 8)) * 5)[truth] + draw.normal(size=(rows, 8))
    labels, wrong = truth.copy(), draw.choice(rows, int(rows * noise), replace=False)
    labels[wrong] = (labels[wrong] + draw.integers(1, classes, len(wrong))) % classes
    return values.astype("f4"), labels, truth


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a table."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


# what people verified


def sheet_of_another_run(place: Place) -> str:
    """The answers on a sheet are about the rows of the run that it was written for."""
    truths = {}
    for name, seed in (("a", 3), ("b", 2)):
        values, labels, truths[name] = points(400, seed=seed)
        place.save(f"{name}.npz", values, labels, ids=[f"{name}{row}" for row in range(400)], names=NAMES)
        place.must("train", f"{name}.npz", "--out", f"run-{name}", "--quiet")
        place.must(
            "audit", f"run-{name}", "--what", "all", "--csv", f"{name}.csv", "--looks", "30", "--seed", "5"
        )
    lines = read(place.folder / "a.csv")
    for line in lines:
        right = NAMES[truths["a"][int(line["id"][1:])]]
        line["answer"] = next((choice for choice in "abc" if line[choice] == right), right)
    with (place.folder / "filled.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, lines[0])
        writer.writeheader()
        writer.writerows(lines)
    taken = place.works("audit", "run-b", "--answers", "filled.csv", "--out", "certificate.json")
    return "a certificate by the answers about another run" if taken else ""


def page_of_an_earlier_audit(place: Place) -> str:
    """A page that is open while a new audit begins cannot answer for that."""
    values, labels, _ = points()
    place.save("x.npz", values, labels, names=NAMES)
    place.must("train", "x.npz", "--out", "run", "--quiet")
    audit = ("audit", "run", "--what", "all", "--looks", "20")
    with served(place, *audit, "--page", "--seed", "1") as ask:
        item = ask("/api/next", {})["items"][0]
        place.must(*audit, "--new", "--csv", "new.csv", "--seed", "2")
        seen = [{"row": item["row"], "version": item["version"]}]
        ask("/api/decide", {"reviewer": "r", "ticket": "t", "items": seen, "action": "choose", "label": 0})
    told, _ = place.begin("audit", "run", "--json").communicate()
    return "the new audit has an answer" if json.loads(told)["findings"]["answered"] else ""


@contextlib.contextmanager
def served(place: Place, *words: str) -> Iterator[Callable[[str, dict[str, Any]], Any]]:
    """A server of pages; asks it."""
    process = place.begin(*words, "--json", "--port", "0")
    assert process.stdout is not None
    about = json.loads(process.stdout.readline())
    head = {"Authorization": f"Bearer {about['token']}", "Content-Type": "application/json"}

    def ask(path: str, body: dict[str, Any]) -> Any:
        server = urllib.parse.urlsplit(about["url"])
        connection = http.client.HTTPConnection(str(server.hostname), server.port, timeout=60)
        connection.request("POST", path, json.dumps({"client": "c", **body}), head)
        return json.loads(connection.getresponse().read())

    try:
        yield ask
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate()


def decisions_of_another_project(place: Place) -> str:
    """Two projects have a run ``march``; a run of one goes on in the folder of the other."""
    _two_projects(place)
    place.inside("2").must("train", "x.npz", "--from", "../1/april", "--out", "may", "--quiet")
    return _of_project_2(place.inside("2"), "may")


def earlier_run_replaced(place: Place) -> str:
    """The run that another began with is replaced by one of the same name."""
    _two_projects(place)
    shutil.rmtree(place.folder / "1/march")
    shutil.copytree(place.folder / "2/march", place.folder / "1/march")
    taken = place.inside("1").works("train", "x.npz", "--from", "april", "--out", "june", "--quiet")
    return _of_project_2(place.inside("1"), "june") if taken else ""


def _two_projects(place: Place) -> None:
    values, labels, _ = points()
    for name, step in (("1", 1), ("2", 2)):
        project = place.inside(name)
        project.save("x.npz", values, NAMES[labels], ids=[f"p{row}" for row in range(200)])
        project.must("train", "x.npz", "--out", "march", "--quiet")
        project.decide("march", {f"p{row}": int((labels[row] + step) % 4) for row in DECIDED})
    place.inside("1").must("train", "x.npz", "--from", "march", "--out", "april", "--quiet")


def _of_project_2(place: Place, run: str) -> str:
    given, labels = place.given(run), points()[1]
    wrong = sum(given[f"p{row}"] == NAMES[(labels[row] + 2) % 4] for row in DECIDED)
    return f"{wrong} labels were decided in another project" if wrong else ""


def rows_without_ids(place: Place) -> str:
    """Rows are known by their number alone, and a row in front moves all numbers."""
    values, labels, _ = points()
    place.save("x.npz", values, NAMES[labels])
    place.must("train", "x.npz", "--out", "run", "--quiet")
    place.decide("run", {str(row): int((labels[row] + 1) % 4) for row in DECIDED})
    moved = np.r_[199, 0:199]
    place.save("y.npz", ((values - values.mean(0)) / values.std(0))[moved], NAMES[labels[moved]])
    if not place.works("train", "y.npz", "--from", "run", "--out", "next", "--quiet"):
        return ""
    given, decided = place.given("next"), {row: NAMES[(labels[row] + 1) % 4] for row in DECIDED}
    wrong = sum(
        given[str(row)] not in (NAMES[labels[old]], decided.get(int(old))) for row, old in enumerate(moved)
    )
    return f"{wrong} rows have the decision about another" if wrong else ""


# what belongs to a row, by order or by number


def labels_counted_from_1(place: Place) -> str:
    """A label file has an id for each row, in another order, and counts from 1."""
    values, labels, _ = points(noise=0)
    np.save(place.folder / "x.npy", values)
    order = np.random.default_rng(0).permutation(200)
    lines = ["id,label", *(f"{row + 1},{labels[row]}" for row in order)]
    (place.folder / "labels.csv").write_text("\n".join(lines))
    if not place.works(
        "train", "x.npy", "--set", "data.labels=labels.csv", "--set", "data.validation=0", "--out", "run"
    ):
        return ""
    given = place.given("run")
    wrong = sum(int(given[str(row)]) != labels[row] for row in range(200))
    return f"{wrong} rows have the label of another" if wrong else ""


def images_counted_from_1(place: Place) -> str:
    """A row was left out, and the images count from 1: the numbers fit nearly all rows, each to the wrong one."""
    from PIL import Image

    values, labels, _ = points(40, classes=2)
    values[7] = np.nan
    place.save("x.npz", values, labels)
    for number in range(1, 41):
        image = Image.fromarray(np.full((8, 8, 3), number, "u1"))
        image.save(place.inside("images").folder / f"{number:04d}.png")
    place.must("train", "x.npz", "--on-error", "skip", "--out", "run", "--quiet")
    shown = place.works("report", "run", "--images", "images")
    return "a report shows the image of the row before" if shown else ""


def rows_in_another_order(place: Place) -> str:
    """Rows of one class are exchanged in the middle of the data."""
    values, labels, _ = points(9000)
    order = np.argsort(labels, kind="stable")
    place.save("x.npz", values[order], labels[order])
    place.must("train", "x.npz", "--out", "run", *SHORT)
    sample = {index * 8999 // 63 for index in range(64)}
    middle = [row for row in range(1000, 1100) if row not in sample]
    order[middle] = order[middle[::-1]]
    place.save("x.npz", values[order], labels[order])
    (place.folder / "run/summary.json").unlink()
    return "the run goes on with other rows" if place.works("resume", "run", "--quiet") else ""


# what is on the disk


def links_in_a_run(place: Place) -> str:
    """A run of somebody else's leads to files outside it."""
    values, labels, _ = points()
    place.save("x.npz", values, labels)
    place.must("train", "x.npz", "--out", "run", "--quiet")
    run, file, folder = place.folder / "run", place.folder / "precious", place.folder / "step-000000001"
    file.write_text("precious")
    folder.mkdir()
    (run / ".partial-report.html").symlink_to(file)
    place.works("report", "run")
    shutil.rmtree(run / "checkpoints")
    (run / "checkpoints").symlink_to(place.folder)
    (run / "summary.json").unlink()
    place.works("resume", "run", "--from-start", "--quiet")
    return "" if file.read_text() == "precious" and folder.is_dir() else "what lies outside was changed"


def two_commands_one_file(place: Place) -> str:
    """Two commands write one file at a time."""
    values, labels, _ = points(20_000)
    place.save("x.npz", values, labels)
    place.must("train", "x.npz", "--out", "run", *SHORT)
    commands, whole = (
        [("labels", "run", "--out", "same.csv", *more) for more in ((), ("--distribution",))],
        [],
    )
    for words in commands:
        place.must(*words)
        whole.append((place.folder / "same.csv").read_bytes())
    torn = 0
    for _ in range(PAIRS):
        for process in [place.begin(*words) for words in commands]:
            process.communicate()
        torn += (place.folder / "same.csv").read_bytes() not in whole
    return f"{torn} of {PAIRS} files are mixtures" if torn else ""


def damaged_cache(place: Place) -> str:
    """The features of rows are exchanged in the cache."""
    from safetensors.torch import load_file, save_file

    _texts(place)
    place.must("train", "x.csv", "--embed", "encoder:encode", "--out", "run", "--quiet")
    for path in (place.folder / "cache").rglob("*.safetensors"):
        found = load_file(path)
        save_file({**found, "features": found["features"].flip(0).contiguous()}, path)
    again = place.works("train", "x.csv", "--embed", "encoder:encode", "--out", "again", "--quiet")
    for run in ("run", "again") if again else ():
        place.must("labels", run, "--out", f"{run}.csv")
    same = not again or read(place.folder / "run.csv") == read(place.folder / "again.csv")
    return "" if same else "other labels from exchanged features"


def embedding_goes_on(place: Place) -> str:
    """Images change while the features of others are still to be made."""
    from PIL import Image

    for row in range(300):
        folder = place.inside("images").inside("ab"[row % 2]).folder
        Image.fromarray(np.full((4, 4, 3), row % 200, "u1")).save(folder / f"{row:03d}.png")
    (place.folder / "encoder.py").write_text(DYING)
    (place.folder / "kill").touch()
    words = ("embed", "images", "--model", "encoder:encode", "--out", "x", "--part-rows", "50", "--quiet")
    place.begin(*words).communicate()
    assert (place.folder / "x/train-00000.parquet").exists()
    (place.folder / "kill").unlink()
    Image.fromarray(np.full((4, 4, 3), 250, "u1")).save(place.folder / "images/a/006.png")
    return "features of an image that is no more" if place.works(*words) else ""


def _texts(place: Place) -> None:
    (place.folder / "encoder.py").write_text(ENCODER)
    lines = [f"{'xyz'[row % 3]} {row},{'xyz'[(row + (row % 7 == 0)) % 3]}" for row in range(300)]
    (place.folder / "x.csv").write_text("\n".join(["text,label", *lines]))


MIX_UPS: tuple[MixUp, ...] = (
    *(labels_counted_from_1, rows_without_ids, images_counted_from_1, rows_in_another_order),
    *(damaged_cache, embedding_goes_on, two_commands_one_file, links_in_a_run),
    *(sheet_of_another_run, page_of_an_earlier_audit, decisions_of_another_project, earlier_run_replaced),
)


if __name__ == "__main__":
    measure_by_command(measure, __doc__)
