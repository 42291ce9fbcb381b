"""Near-identical rows with different labels: how many planted ones a run finds in real features.

    python benchmarks/duplicates.py [--quick] [--json]

CUB-200 features (PENCIL_DATA). A copy of 1 % of the training rows joins them with another label. Each feature of a copy
gets noise of 10 % of its standard deviation; 20 and 30 % are measured too. A copy is found if it is in a group with its
original. ``others`` counts further training rows in groups with different labels, of which CUB itself has a few.
Seeds 0 to 2; ``--quick`` does seed 0 with 10 % noise on 40 classes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from common import data_folder, finish

from pencil.config import RunConfig
from pencil.presets import preset
from pencil.run import LabelTable, train

FILE = "cub/cub200_2011_lite0_224_feat.npz"
SHARE = 0.01
SPREADS = (0.1, 0.2, 0.3)
SEEDS = (0, 1, 2)
QUICK_CLASSES = 40


@dataclass(frozen=True)
class Found:
    """What a run found.

    Attributes:
        planted: Copies that were planted.
        found: Copies that are in a group with their originals.
        others: Further rows in groups with different labels.
        seconds: How long the whole run took.
    """

    planted: int
    found: int
    others: int
    seconds: float


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true", dest="as_json")
    arguments = parser.parse_args()
    finish(figures(data_folder() / FILE, quick=arguments.quick), as_json=arguments.as_json)


def figures(features: Path, *, quick: bool) -> dict[str, float]:
    """The share of planted copies that are found, in percent, by their noise, and the mean number of other rows."""
    result: dict[str, float] = {}
    for spread in SPREADS[:1] if quick else SPREADS:
        found = [measured(features, spread, seed, quick=quick) for seed in (SEEDS[:1] if quick else SEEDS)]
        name = "" if spread == SPREADS[0] else f"_{100 * spread:.0f}"
        share = sum(each.found for each in found) / sum(each.planted for each in found)
        result[f"duplicates_found_percent{name}"] = round(100 * share, 1)
        result[f"duplicates_others{name}"] = round(sum(each.others for each in found) / len(found), 1)
    return result


def measured(features: Path, spread: float, seed: int, *, quick: bool) -> Found:
    """Plant copies, train, and count."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "planted.npz"
        originals = plant(features, data, spread, seed, QUICK_CLASSES if quick else None)
        run = train(_config(data, seed), Path(folder) / "run")
        near = LabelTable.open(run).near
        assert near is not None
        groups, differing = near.groups["train"].numpy(), near.has_different_labels().numpy()
        first = len(groups) - len(originals)
        together = (groups[first:] == groups[originals]) & (groups[originals] >= 0)
        known = np.zeros(len(groups), dtype=bool)
        known[originals] = known[first:] = True
        seconds = float(run.summary["seconds"])
    found = Found(len(originals), int(together.sum()), int((differing & ~known).sum()), seconds)
    print(f"noise {spread}, seed {seed}: {found}", file=sys.stderr, flush=True)
    return found


def plant(features: Path, out: Path, spread: float, seed: int, classes: int | None) -> np.ndarray:
    """Write the data with its copies last, and return the numbers of the originals (M,)."""
    with np.load(features) as file:
        values, labels = file["feat"].astype(np.float32), file["labels"]
        is_train = file["is_train"].astype(bool)
    number = int(labels.max()) + 1 if classes is None else classes
    inside = labels < number
    values, labels, is_train = values[inside], labels[inside], is_train[inside]
    x, y = values[is_train], labels[is_train]
    rng = np.random.default_rng(seed)
    originals: np.ndarray = rng.choice(len(x), round(SHARE * len(x)), replace=False)
    noise = rng.normal(size=(len(originals), x.shape[1])) * x.std(0) * spread
    copies = (x[originals] + noise).astype(np.float32)
    wrong = (y[originals] + rng.integers(1, number, len(originals))) % number
    np.savez(
        out,
        X=np.concatenate([x, copies]),
        y=np.concatenate([y, wrong]),
        X_test=values[~is_train],
        y_test=labels[~is_train],
    )
    return originals


def _config(data: Path, seed: int) -> RunConfig:
    """One epoch of cross entropy: what is measured does not depend on the training."""
    table = preset("features", str(data)).table() | {"seed": seed, "method": {"name": "cross_entropy"}}
    table["phases"] = [{**table["phases"][0], "epochs": 1}]
    table["data"]["validation"] = 0.0
    return RunConfig.of(table)


if __name__ == "__main__":
    main()
