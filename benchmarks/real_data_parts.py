"""The parts of ``real_data``: what they write, which commands they run, and what they measure."""

from __future__ import annotations

import csv
import io
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import data_folder
from PIL import Image

from pencil.review import Review
from pencil.review.history import Who
from pencil.run import RunDirectory

SEED = 0
WRONG = 0.2  # the share of wrong labels in the text and the table
LITE0 = "efficientnet_lite0"
DECIDED = 50  # rows that a person decides before new rows join
Figures = dict[str, float]


@dataclass(frozen=True)
class Commands:
    """Runs ``pencil`` as a user does, in a folder of its own."""

    place: Path

    def __call__(self, *words: str) -> tuple[dict[str, Any], float]:
        """The result of a command with ``--json``, and its seconds."""
        begun = time.monotonic()
        command = [sys.executable, "-m", "pencil", *words, "--json"]
        done = subprocess.run(command, cwd=self.place, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"pencil {' '.join(words)} ended with {done.returncode}")
        return json.loads(done.stdout.splitlines()[-1]), time.monotonic() - begun

    def right(self, run: str, truth: Mapping[str, str]) -> Figures:
        """The percentage of right labels as given and as suggested, by id."""
        self("labels", run, "--out", f"{run}-labels.csv")
        with (self.place / f"{run}-labels.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        given = np.mean([row["given_label"] == truth[row["id"]] for row in rows])
        suggested = np.mean([row["suggested_label"] == truth[row["id"]] for row in rows])
        return {"before": percent(given), "after": percent(suggested)}


def percent(share: Any) -> float:
    """A share as a percentage with one decimal."""
    return round(100 * float(share), 1)


def folder(commands: Commands, *, quick: bool) -> Figures:
    """CIFAR-10 as PNG files in the folders of CIFAR-10N's worse labels, from the folder to an audit; then new rows."""
    rows, more, tests = (150, 30, 50) if quick else (5000, 1000, 1000)
    truth = write_cifar(commands.place / "photos", range(rows), range(tests))
    result, seconds = commands("train", "photos", "--embed", LITE0, "--out", "run")
    right = commands.right("run", truth)
    reporting = commands("report", "run", "--out", "report.html")[1]
    auditing = commands("audit", "run", "--what", "all", "--csv", "sheet.csv", "--seed", "0")[1]
    scratch, _ = commands("train", "photos", "--embed", "none", "--out", "scratch")
    figures = {
        "folder_labels_before": right["before"],
        "folder_labels_after": right["after"],
        "folder_test": percent(result["last"]["test_accuracy"]),
        "folder_seconds": round(seconds + reporting + auditing),
        "folder_scratch_labels_after": commands.right("scratch", truth)["after"],
        "folder_scratch_test": percent(scratch["last"]["test_accuracy"]),
    }
    return figures | joined(commands, truth, range(rows, rows + more), seconds)


def joined(commands: Commands, truth: dict[str, str], new: range, first: float) -> Figures:
    """New rows join the run; then the same again, and a run on all rows, both with all features in the cache."""
    truth |= write_cifar(commands.place / "photos", new, ())
    _, joining = commands("train", "photos", "--from", "run", "--out", "joined")
    _, again = commands("train", "photos", "--from", "run", "--out", "again")
    _, anew = commands("train", "photos", "--embed", LITE0, "--out", "anew")
    return {
        "join_labels_after": commands.right("joined", truth)["after"],
        "anew_labels_after": commands.right("anew", truth)["after"],
        "join_seconds": round(joining, 1),
        "join_seconds_over_full": round(joining / first, 3),
        "join_seconds_over_full_cached": round(again / anew, 3),
    }


def finetuning(commands: Commands, *, quick: bool) -> Figures:
    """CIFAR-10 as PNG files: a head on frozen features, then the last block of the network too."""
    rows, tests = (100, 30) if quick else (1500, 1000)
    truth = write_cifar(commands.place / "photos", range(rows), range(tests))
    frozen, first = commands("train", "photos", "--embed", f"{LITE0}:128", "--out", "head")
    tuned, more = commands("train", "photos", "--from", "head", "--finetune", "last", "--out", "tuned")
    return {
        "finetune_test_before": percent(frozen["last"]["test_accuracy"]),
        "finetune_test": percent(tuned["last"]["test_accuracy"]),
        "finetune_labels_before": commands.right("head", truth)["after"],
        "finetune_labels_after": commands.right("tuned", truth)["after"],
        "finetune_first_seconds": round(first, 1),
        "finetune_seconds": round(more, 1),
    }


def features(commands: Commands, *, quick: bool) -> Figures:
    """CIFAR-100 as features with CIFAR-100N's labels; a person decides some rows, then a hundred new rows join."""
    rows, new = (1500, 100) if quick else (50_000, 100)
    truth = write_features(commands.place / "features.npz", rows - new, new=0)
    first, first_used = measured_command(commands, "train", "features.npz", "--out", "run")
    decided = decide(commands.place / "run", truth)
    truth = write_features(commands.place / "features.npz", rows - new, new)
    join, join_used = measured_command(commands, "train", "features.npz", "--from", "run", "--out", "joined")
    right = commands.right("joined", truth)
    with (commands.place / "joined-labels.csv").open(newline="", encoding="utf-8") as file:
        labels = {row["id"]: row["suggested_label"] for row in csv.DictReader(file)}
    return {
        "features_labels_before": right["before"],
        "features_labels_after": right["after"],
        "features_seconds": round(first, 1),
        "features_processor_seconds": round(first_used, 1),
        "features_join_seconds": round(join, 1),
        "features_join_processor_seconds": round(join_used, 1),
        "features_decisions_kept_percent": percent(
            np.mean([labels[name] == truth[name] for name in decided])
        ),
    }


def measured_command(commands: Commands, *words: str) -> tuple[float, float]:
    """Seconds, and seconds of processor time, of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _, seconds = commands(*words)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def decide(run: Path, truth: Mapping[str, str]) -> list[str]:
    """Give the first rows of the review their true labels; their ids."""
    review, decided = Review(RunDirectory.open(run), with_sure=True), []
    for number in range(DECIDED):
        item = review.take("one")["items"][0]
        label = review.class_names.index(truth[item["id"]])
        review.decide(
            Who("one", "one"), f"decision {number}", [(item["row"], item["version"])], "choose", label
        )
        decided.append(item["id"])
    review.close()
    return decided


def write_features(path: Path, rows: int, new: int) -> dict[str, str]:
    """The first rows of CIFAR-100 and the last ones, which are new, as features with ids; the truth by id."""
    with np.load(data_folder() / "cifar" / "cifar100n.npz") as people:
        noisy = people["noisy_label"]
    with np.load(data_folder() / "cifar" / "cifar100_lite0_128_pca384.npz") as arrays:
        train, true, names = arrays["train"], arrays["train_labels"], arrays["names"]
        test = {"X_test": arrays["test"].astype(np.float32), "y_test": arrays["test_labels"].astype(int)}
    chosen = np.r_[:rows, len(train) - new : len(train)]
    ids = np.array([f"row {row:05d}" for row in chosen])
    values = {
        "X": train[chosen].astype(np.float32),
        "y": noisy[chosen].astype(int),
        "ids": ids,
        "names": names,
    }
    np.savez(path, **values, **test)
    return dict(zip(ids.tolist(), names[true[chosen]].tolist(), strict=True))


def text(commands: Commands, *, quick: bool) -> Figures:
    """TREC's questions as a CSV, a fifth of the labels wrong, without and with a pretrained encoder."""
    train, test = (read_trec(name) for name in ("train_5500.label", "TREC_10.label"))
    if quick:
        train, test = train[:800], test[:200]
    names = sorted({label for label, _ in train})
    noisy = corrupted([label for label, _ in train], names)
    rows = [
        {"id": f"q{row}", "text": words, "label": noisy[row], "split": "train"}
        for row, (_, words) in enumerate(train)
    ]
    rows += [
        {"id": f"t{row}", "text": words, "label": label, "split": "test"}
        for row, (label, words) in enumerate(test)
    ]
    write_csv(commands.place / "questions.csv", rows)
    truth = {f"q{row}": label for row, (label, _) in enumerate(train)}
    figures: Figures = {}
    for name, encoder in (("text", "minilm"), ("text_ngrams", "ngrams")):
        result, seconds = commands("train", "questions.csv", "--embed", encoder, "--out", name)
        right = commands.right(name, truth)
        figures |= {
            f"{name}_labels_before": right["before"],
            f"{name}_labels_after": right["after"],
            f"{name}_test": percent(result["last"]["test_accuracy"]),
            f"{name}_seconds": round(seconds, 1),
        }
    return figures


def table(commands: Commands, *, quick: bool) -> Figures:
    """A table of numbers, categories and gaps, a fifth of the labels wrong."""
    rows, truth = generated_table(600 if quick else 4000)
    write_csv(commands.place / "records.csv", rows)
    result, seconds = commands("train", "records.csv", "--out", "records")
    right = commands.right("records", truth)
    return {
        "table_labels_before": right["before"],
        "table_labels_after": right["after"],
        "table_test": percent(result["last"]["test_accuracy"]),
        "table_seconds": round(seconds, 1),
    }


def photos(commands: Commands, *, quick: bool) -> Figures:
    """Larger JPEGs of mixed sizes and modes, as cameras and scanners write them."""
    rows = 40 if quick else 200
    truth = write_jpegs(commands.place / "jpegs", rows)
    _, seconds = commands("train", "jpegs", "--embed", LITE0, "--out", "large")
    right = commands.right("large", truth)
    return {"photos_labels_after": right["after"], "photos_seconds": round(seconds, 1)}


def write_cifar(place: Path, rows: Iterable[int], tests: Iterable[int]) -> dict[str, str]:
    """PNG files in a folder for each worse label, and test files by their true label; the truth by id."""
    with np.load(data_folder() / "cifar" / "cifar10n.npz") as people:
        worse = people["worse_label"]
    truth: dict[str, str] = {}
    for split, chosen, given in (
        ("train", rows, lambda row, _: worse[row]),
        ("test", tests, lambda _, true: true),
    ):
        images, labels, names = read_cifar(f"cifar10_{split}.npz")
        for row in chosen:
            name = Path(split) / str(names[given(row, labels[row])]) / f"{row:05d}.png"
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(images[row]).save(place / name)
            truth[str(name)] = str(names[labels[row]])
    return truth


def read_cifar(name: str) -> tuple[Any, Any, Any]:
    """Images (N, 32, 32, 3), labels (N,) and class names."""
    with np.load(data_folder() / "cifar" / name) as arrays:
        strips = sorted(key for key in arrays.files if key.startswith("webp_"))
        images = [np.asarray(Image.open(io.BytesIO(arrays[strip].tobytes()))) for strip in strips]
        return (
            np.concatenate([each.reshape(-1, 32, 32, 3) for each in images]),
            arrays["labels"],
            arrays["names"],
        )


def read_trec(name: str) -> list[tuple[str, str]]:
    """The coarse class and the words of each question."""
    lines = (data_folder() / "trec" / name).read_text(encoding="latin-1").splitlines()
    return [(line.partition(":")[0], line.partition(" ")[2]) for line in lines]


def corrupted(labels: list[str], names: list[str]) -> list[str]:
    """The labels, a fifth of them replaced by any other."""
    random = np.random.default_rng(SEED)
    wrong = random.random(len(labels)) < WRONG
    return [
        str(random.choice([name for name in names if name != label])) if bad else label
        for label, bad in zip(labels, wrong, strict=True)
    ]


def generated_table(rows: int) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Loans by income, age, debt, region and employment; a twentieth of the cells empty; and the truth by id."""
    random = np.random.default_rng(SEED)
    income, age = random.lognormal(10.3, 0.5, rows), random.integers(18, 80, rows)
    debt = income * random.beta(2, 4, rows)
    region = random.choice(["north", "south", "east", "west"], rows)
    work = random.choice(["salaried", "self-employed", "retired", "student"], rows, p=[0.6, 0.2, 0.1, 0.1])
    score = (
        3 * (0.35 - debt / income)
        + np.log(income / 30000)
        + 0.8 * (work == "salaried")
        - 0.6 * (work == "student")
    )
    score += 0.5 * (region == "north") + 0.01 * (age - 45) + random.normal(0, 0.15, rows)
    true = np.array(["refused", "checked", "granted"])[np.digitize(score, [0.1, 0.9])]
    split = np.where(random.random(rows) < 0.2, "test", "train")
    noisy = corrupted(true.tolist(), ["refused", "checked", "granted"])
    table = [
        {
            "id": f"r{row}",
            "income": "" if random.random() < 0.05 else round(float(income[row]), 2),
            "age": int(age[row]),
            "debt": "" if random.random() < 0.05 else round(float(debt[row]), 2),
            "region": region[row],
            "work": "" if random.random() < 0.05 else work[row],
            "label": true[row] if split[row] == "test" else noisy[row],
            "split": split[row],
        }
        for row in range(rows)
    ]
    return table, {f"r{row}": str(true[row]) for row in range(rows)}


def write_jpegs(place: Path, rows: int) -> dict[str, str]:
    """Two classes of CIFAR-10 at 200 to 1,200 pixels, in colour, grey and CMYK, a tenth of them in the wrong folder."""
    random = np.random.default_rng(SEED)
    images, labels, names = read_cifar("cifar10_train.npz")
    truth: dict[str, str] = {}
    chosen = [row for row in range(len(labels)) if labels[row] in (1, 7)][:rows]
    for number, row in enumerate(chosen):
        label = 8 - labels[row] if random.random() < 0.1 else labels[row]
        size = tuple(int(side) for side in random.integers(200, 1200, 2))
        picture = Image.fromarray(images[row]).resize(size, Image.Resampling.BICUBIC)
        name = Path(str(names[label])) / f"{row:05d}.jpg"
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        picture.convert(("RGB", "L", "CMYK")[number % 3]).save(place / name, quality=85)
        truth[str(name)] = str(names[labels[row]])
    return truth


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    """A CSV with a header."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
