"""Labels by people: what pencil.find_errors leaves wrong, without answers and with a hundred, beside cleanlab.

    pip install "pencil-labels[benchmark]"
    python benchmarks/people.py --json             # 25,000 rows of CIFAR-10 with people's labels, and TREC
    python benchmarks/people.py --json --quick     # 5,000 rows, without TREC

The features of CIFAR-10 stand in for a strong encoder; TREC's questions become hashed n-grams, and 20 % of their labels
are drawn anew. Answers are right. ``--seed`` chooses rows, noise and nothing else. cleanlab finds issues by five folds
of logistic regression (C = 0.01 on scaled features) and replaces them by its own suggestions. ``run_...`` is what the
commands leave: ``train``, ``review --ask``, ``labels``, and ``train --trusted`` and ``--from`` after the answers.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import data_folder, measure_by_command
from numpy.typing import NDArray

import pencil
from pencil.imports import need

ROWS, QUICK_ROWS, ANSWERS = 25_000, 5_000, 100
LABELS = {"worst": "worse_label", "aggregate": "aggre_label"}
TREC_NOISE = 0.2
Array = NDArray[Any]
Problem = tuple[Any, Array, Array]
"""Features or texts, true labels, given labels."""


def measure(*, quick: bool, seed: int) -> dict[str, float]:
    """Wrong labels that are left, and the share of false ones among those replaced."""
    data_folder()
    torch.set_num_threads(1)
    figures: dict[str, float] = {}
    for name, key in LABELS.items():
        problem = people(key, QUICK_ROWS if quick else ROWS, seed)
        figures |= {f"{name}_{what}": value for what, value in of_pencil(problem).items()}
        figures |= {f"cleanlab_{name}_{what}": value for what, value in of_cleanlab(problem).items()}
        if name == "worst":
            figures |= {f"run_{what}": value for what, value in of_commands(problem).items()}
    later = max(figures["run_left_after_trusted"], figures["run_left_after_from"])
    figures["left_after_from_over_before"] = round(later / figures["run_left_answered"], 3)
    figures["false_relabels_worst_percent"] = figures["worst_false_relabels_percent"]
    ours, theirs = (figures[f"{who}worst_seconds"] for who in ("", "cleanlab_"))
    figures["find_errors_seconds_over_cleanlab"] = round(ours / theirs, 2)
    if not quick:
        figures |= {f"trec_{what}": value for what, value in of_pencil(trec(seed)).items()}
    return figures


def people(key: str, rows: int, seed: int) -> Problem:
    """CIFAR-10 with labels of one kind by people."""
    folder = data_folder() / "cifar"
    features, labels = np.load(folder / "cifar10_strong_feat.npz"), np.load(folder / "cifar10n.npz")
    chosen = np.random.default_rng([seed, 7]).permutation(len(features["rows"]))[:rows]
    places = features["rows"][chosen]
    return features["train"][chosen].astype(np.float32), labels["clean_label"][places], labels[key][places]


def trec(seed: int) -> Problem:
    """Questions by what they ask for, with other labels in place of some."""
    lines = (data_folder() / "trec" / "train_5500.label").read_text(encoding="latin-1").splitlines()
    parts = [line.split(" ", 1) for line in lines if line.strip()]
    truth = np.unique([kind.split(":")[0] for kind, _ in parts], return_inverse=True)[1]
    draw = np.random.default_rng([seed, 11])
    given, hit = truth.copy(), draw.random(len(truth)) < TREC_NOISE
    given[hit] = (truth[hit] + draw.integers(1, truth.max() + 1, hit.sum())) % (truth.max() + 1)
    return [question for _, question in parts], truth, given


def of_pencil(problem: Problem) -> dict[str, float]:
    """With no answer and with some."""
    x, truth, given = problem
    errors, seconds = timed(lambda: pencil.find_errors(x, given))
    rows = errors.ask(ANSWERS)
    answered = errors.answer(rows, truth[rows])
    changed = answered.labels() != given
    return {
        "wrong": int((given != truth).sum()),
        "left_sure": left(errors.labels(), truth),
        "left_best": left(errors.labels("best"), truth),
        "left_answered": left(answered.labels(), truth),
        "left_best_answered": left(answered.labels("best"), truth),
        "false_relabels_percent": percent((answered.labels() != truth)[changed]),
        "at_least": round(len(errors) * errors.noise.at_least),
        "seconds": round(seconds, 1),
    }


def of_commands(problem: Problem) -> dict[str, float]:
    """What somebody has after the commands; the answers to the questions are right."""
    x, truth, given = problem
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        np.savez(folder / "rows.npz", X=x, y=given)

        def run(*words: str) -> None:
            command = [sys.executable, "-m", "pencil", *words]
            subprocess.run(
                command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )

        def left_by(name: str, take: str = "sure") -> int:
            run("labels", name, "--out", "labels.csv", "--take", take)
            with (folder / "labels.csv").open(newline="") as file:
                return left(np.array([int(row["label"]) for row in csv.DictReader(file)]), truth)

        run("train", "rows.npz", "--out", "first")
        figures: dict[str, float] = {"left_sure": left_by("first"), "left_best": left_by("first", "best")}
        run("review", "first", "--ask", str(ANSWERS), "--csv", "questions.csv")
        with (folder / "questions.csv").open(newline="") as file:
            lines = list(csv.DictReader(file))
        with (folder / "answers.csv").open("w", newline="") as file:
            sheet = csv.DictWriter(file, lines[0])
            sheet.writeheader()
            sheet.writerows(line | {"answer": str(truth[int(line["id"])])} for line in lines)
        run("review", "first", "--answers", "answers.csv")
        figures["left_answered"] = left_by("first")
        for option in ("trusted", "from"):
            run("train", "rows.npz", f"--{option}", "first", "--out", option)
            figures[f"left_after_{option}"] = left_by(option)
    return figures


def of_cleanlab(problem: Problem) -> dict[str, float]:
    """The labels that cleanlab would have."""
    x, truth, given = problem
    classification = need("cleanlab.classification", extra="benchmark", purpose="compare with cleanlab")
    linear = need("sklearn.linear_model", extra="benchmark", purpose="compare with cleanlab")
    pipeline = need("sklearn.pipeline", extra="benchmark", purpose="compare with cleanlab")
    scaling = need("sklearn.preprocessing", extra="benchmark", purpose="compare with cleanlab")
    model = pipeline.make_pipeline(scaling.StandardScaler(), linear.LogisticRegression(C=0.01, max_iter=400))
    cleaning = classification.CleanLearning(model, cv_n_folds=5, seed=0)
    issues, seconds = timed(lambda: cleaning.find_label_issues(x, given))
    better = np.where(issues["is_label_issue"], issues["predicted_label"], given)
    return {"left": left(better, truth), "seconds": round(seconds, 1)}


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What it returns, and the processor seconds it took."""
    begun = time.process_time()
    return work(), time.process_time() - begun


def left(labels: Array, truth: Array) -> int:
    """Wrong labels."""
    return int((labels != truth).sum())


def percent(false: Array) -> float:
    """The share of false ones."""
    return round(100 * float(false.mean()), 1) if len(false) else 0.0


if __name__ == "__main__":
    measure_by_command(measure, __doc__)
