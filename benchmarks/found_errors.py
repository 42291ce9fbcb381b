"""Real errors in public labels, found by pencil and checked by people.

    python benchmarks/cifar10_lite0.py CIFAR10 FEATURES.npz --every 5  # once; then export CIFAR10_FEATURES=FEATURES.npz
    python benchmarks/found_errors.py --write                      # CIFAR-10's test labels against the votes of people
    python benchmarks/found_errors.py --show trec --looks 50       # the first 50 rows, to judge by eye
    python benchmarks/found_errors.py --show cifar10 --looks 200 --rejected --sheet FILE.png

CIFAR-10's 10,000 test images with their own labels, EfficientNet-Lite0 features. An error counts as confirmed where
people contradict the label: in CIFAR-10H (about 50 votes an image) another class has most votes, or in the study of
Northcutt et al. (2021; 275 candidates, 5 people each) fewer than 3 of 5 chose the given label. The candidates of that
study were found by cleanlab with another network, so that it rather favours cleanlab. TREC's 5,452 training questions
(TF-IDF of words and letters, 300 components) and Fashion-MNIST's 10,000 test images (random Fourier features of
pixels; FASHION_MNIST names the folder of its four files) have no second opinion: they are judged by eye, in
benchmarks/results/found_errors_by_eye.json.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from answers_estimates import believed, wrong_probability
from answers_scores import STRENGTH, out_of_fold
from common import data_folder, finish
from found_errors_sheet import write_sheet
from torch import Tensor

from pencil.imports import need

LOOKS = (50, 100, 200)
RESULTS = Path(__file__).parent / "results" / "found_errors.json"
BY_EYE = Path(__file__).parent / "results" / "found_errors_by_eye.json"


@dataclass(frozen=True)
class Labelled:
    """Rows with labels of unknown truth.

    Attributes:
        features: (N, D).
        given: (N,) their labels.
        names: Of the classes.
        contents: One per row: a text, or an image (H, W) or (H, W, 3) uint8.
        votes: (N, C) how many people chose each class, where people were asked.
        rejected: (N,) bool, the rows whose label people contradict; see the module.
        seen: What was seen by eye, by row.
    """

    features: Tensor
    given: Tensor
    names: list[str]
    contents: list[str] | np.ndarray
    votes: Tensor | None = None
    rejected: Tensor | None = None
    seen: Mapping[int, str] = field(default_factory=dict)


def main() -> None:
    """Print the figures, or show what comes first."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print the figures as one line of JSON")
    parser.add_argument("--write", action="store_true", help=f"write results/{RESULTS.name}")
    parser.add_argument("--show", choices=SOURCES, help="list the first rows of a set instead")
    parser.add_argument("--looks", type=int, default=50, help="rows to show")
    parser.add_argument("--rejected", action="store_true", help="of these, the rows that people contradict")
    parser.add_argument("--sheet", type=Path, help="write the shown images into this PNG file")
    arguments = parser.parse_args()
    data_folder()
    torch.set_num_threads(1)
    if arguments.show:
        show(SOURCES[arguments.show](), arguments.looks, arguments.sheet, rejected=arguments.rejected)
    else:
        figures = cifar10_figures() | by_eye_figures()
        if arguments.write:
            write(figures)
        finish(figures, as_json=arguments.json)


def write(figures: dict[str, float]) -> None:
    """Keep the figures with the command and the machine."""
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()}"
    about = {"command": "python benchmarks/found_errors.py --write", "machine": machine}
    RESULTS.write_text(json.dumps({**about, "figures": figures}, indent=1) + "\n", encoding="utf-8")


def cifar10_figures() -> dict[str, float]:
    """Confirmed errors in the first looks of each order; empty where the features are not there."""
    if not features_file().is_file():
        print("cifar10 is skipped: CIFAR10_FEATURES does not name a file", file=sys.stderr)
        return {}
    rows = cifar10()
    votes, study = contradicted(rows.given)
    p_wrong = scored(rows)[0]
    strength = STRENGTH["cifar10"]
    probs = out_of_fold(rows.features, rows.given, len(rows.names), 0, strength)
    orders = {"": p_wrong, "_cleanlab": wrong_probability(probs, rows.given)}
    figures: dict[str, float] = {"errors_by_votes": int(votes.sum()), "errors_by_study": int(study.sum())}
    for looks in LOOKS:
        for name, score in orders.items():
            first = score.argsort(descending=True, stable=True)[:looks]
            figures[f"confirmed_in_{looks}_looks{name}"] = int((votes | study)[first].sum())
            figures[f"confirmed_by_votes_in_{looks}_looks{name}"] = int(votes[first].sum())
            figures[f"confirmed_by_study_in_{looks}_looks{name}"] = int(study[first].sum())
        expected = looks * float((votes | study).double().mean())
        figures[f"confirmed_in_{looks}_looks_random"] = round(expected, 1)
    return figures


def by_eye_figures() -> dict[str, float]:
    """Rows looked at and errors seen, by set, as written down in the results."""
    figures = {}
    for name, seen in json.loads(BY_EYE.read_text(encoding="utf-8")).items():
        figures[f"{name}_looks"] = seen["looks"]
        for judgement in ("wrong", "unclear"):
            figures[f"{name}_{judgement}"] = sum(row["judgement"] == judgement for row in seen["rows"])
    return figures


def scored(rows: Labelled) -> tuple[Tensor, Tensor]:
    """The probability (N,) that each label is wrong, and the suggested classes (N,)."""
    found = believed(rows.features, rows.given, len(rows.names)).decided()
    share = float(found.p_wrong.mean())
    print(f"estimated share of wrong labels: {share:.4f}, at least {found.at_least:.4f}", file=sys.stderr)
    return found.p_wrong, found.suggested


def show(rows: Labelled, looks: int, sheet: Path | None, *, rejected: bool) -> None:
    """Print the rows most probably wrong, and draw them."""
    p_wrong, suggested = scored(rows)
    first = p_wrong.argsort(descending=True, stable=True)[:looks].tolist()
    if rejected:
        first = [row for row in first if (row in rows.seen if rows.rejected is None else rows.rejected[row])]
    captions = []
    for row in first:
        given, better = rows.names[int(rows.given[row])], rows.names[int(suggested[row])]
        content = rows.contents[row] if isinstance(rows.contents, list) else voted(rows, row)
        print(f"row {row:<5} {given} -> {better}  {float(p_wrong[row]):.3f}  {content}")
        captions.append(f"{row}: {given}\n{voted(rows, row) or better}")
    if sheet is not None and not isinstance(rows.contents, list):
        write_sheet(sheet, [rows.contents[row] for row in first], captions)


def voted(rows: Labelled, row: int) -> str:
    """The two classes with most votes, or what was seen by eye; empty where nobody looked."""
    if rows.votes is None:
        return rows.seen.get(row, "")
    counts, classes = rows.votes[row].sort(descending=True)
    best = [f"{rows.names[int(classes[place])]} {int(counts[place])}" for place in (0, 1) if counts[place]]
    return ", ".join(best)


def contradicted(given: Tensor) -> tuple[Tensor, Tensor]:
    """(N,) bool each: the most votes of CIFAR-10H are for another class; the study's people reject the label."""
    folder = data_folder() / "labels"
    study = torch.zeros(len(given), dtype=torch.bool)
    for row in json.loads((folder / "cifar10_mturk.json").read_text(encoding="utf-8")):
        study[row["id"]] = row["mturk"]["given"] < 3
    return votes().argmax(1) != given, study


def votes() -> Tensor:
    """(10000, 10) how many people of CIFAR-10H chose each class."""
    with np.load(data_folder() / "labels" / "cifar10h.npz") as arrays:
        return torch.from_numpy(arrays["counts"].astype(np.int64))


def features_file() -> Path:
    """The file that benchmarks/cifar10_lite0.py wrote."""
    return Path(os.environ.get("CIFAR10_FEATURES", "CIFAR10_FEATURES is not set"))


def cifar10() -> Labelled:
    """CIFAR-10's test rows."""
    sys.path.insert(0, str(data_folder()))
    import unpack  # type: ignore[import-not-found]  # it lies beside the data

    images, labels, names = unpack.read(data_folder() / "cifar" / "cifar10_test.npz")
    with np.load(features_file()) as arrays:
        features = torch.from_numpy(arrays["test"]).float()
    given = torch.from_numpy(labels.astype(np.int64))
    by_votes, by_study = contradicted(given)
    classes = [str(name) for name in names]
    return Labelled(features, given, classes, images, votes(), by_votes | by_study)


def trec() -> Labelled:
    """TREC's training questions with their coarse classes."""
    text = need("sklearn.feature_extraction.text", extra="sklearn", purpose="make features of text")
    pipeline = need("sklearn.pipeline", extra="sklearn", purpose="make features of text")
    reduce = need("sklearn.decomposition", extra="sklearn", purpose="make features of text")
    lines = (data_folder() / "trec" / "train_5500.label").read_text(encoding="latin-1").splitlines()
    kinds = [line.split(":", 1)[0] for line in lines]
    questions = [line.split(" ", 1)[1] for line in lines]
    words = text.TfidfVectorizer(ngram_range=(1, 3), min_df=2, sublinear_tf=True)
    letters = text.TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), min_df=3, sublinear_tf=True)
    both = pipeline.FeatureUnion([("words", words), ("letters", letters)])
    values = reduce.TruncatedSVD(300, random_state=0).fit_transform(both.fit_transform(questions))
    names = sorted(set(kinds))
    given = torch.tensor([names.index(kind) for kind in kinds])
    return Labelled(torch.from_numpy(values).float(), given, names, questions, seen=seen_by_eye("trec"))


def fashion() -> Labelled:
    """Fashion-MNIST's test images; random Fourier features of their pixels."""
    kernels = need("sklearn.kernel_approximation", extra="sklearn", purpose="make features of pixels")
    folder = Path(os.environ.get("FASHION_MNIST", "/usr/share/datasets/fashion-mnist"))
    labels = _idx(folder / "t10k-labels-idx1-ubyte.gz", header=8)
    pixels = _idx(folder / "t10k-images-idx3-ubyte.gz", header=16)
    values = pixels.reshape(-1, 784).astype(np.float32) / 255
    gamma = 1 / (784 * values.var())
    features = kernels.RBFSampler(gamma=gamma, n_components=1000, random_state=0).fit_transform(values)
    names = ["T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"]
    given = torch.from_numpy(labels.astype(np.int64))
    images = pixels.reshape(-1, 28, 28)
    return Labelled(torch.from_numpy(features).float(), given, names, images, seen=seen_by_eye("fashion"))


def seen_by_eye(name: str) -> dict[int, str]:
    """What the rows of a set show whose labels were judged wrong by eye."""
    rows = json.loads(BY_EYE.read_text(encoding="utf-8")).get(name, {"rows": []})["rows"]
    return {row["row"]: row["seen"] for row in rows if row["judgement"] == "wrong"}


def _idx(path: Path, header: int) -> np.ndarray:
    """The bytes of an IDX file after its header."""
    return np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=header)


SOURCES = {"cifar10": cifar10, "trec": trec, "fashion": fashion}


if __name__ == "__main__":
    main()
