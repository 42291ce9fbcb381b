"""Near-identical rows with different labels: how many planted ones a run finds in real features.

    python benchmarks/duplicates.py [--quick] [--json]
    python benchmarks/duplicates.py --rows 1000000 [--features 128] [--threads 1] [--json]

CUB-200 features (PENCIL_DATA). A copy of 1 % of the training rows joins them with another label. Each feature of a copy
gets noise of 10 % of its standard deviation; 20 and 30 % are measured too. A copy is found if it is in a group with its
original. ``others`` counts further training rows in groups with different labels, of which CUB itself has a few.
Seeds 0 to 2; ``--quick`` does seed 0 with 10 % noise on 40 classes.

With ``--rows``, the comparison alone is timed on generated features: groups of 500 rows around their centres, whose
spread falls with the number of the feature as it does for principal components. 0.1 % of the rows are copies of
others, with noise of 10 %. ``nearest_found_percent`` compares 1,000 rows with all others.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from common import data_folder, finish
from torch import Tensor

from pencil.config import RunConfig
from pencil.estimates import neighbours as near
from pencil.presets import preset
from pencil.run import LabelTable, train

FILE = "cub/cub200_2011_lite0_224_feat.npz"
SHARE = 0.01
SPREADS = (0.1, 0.2, 0.3)
SEEDS = (0, 1, 2)
QUICK_CLASSES = 40
GENERATED_SHARE, GROUP, CHECKED = 0.001, 500, 1000


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
    parser.add_argument("--rows", type=int, help="compare this many generated rows instead")
    parser.add_argument("--features", type=int, default=128, help="of a generated row")
    parser.add_argument("--threads", type=int, default=1, help="for generated rows")
    parser.add_argument("--json", action="store_true", dest="as_json")
    arguments = parser.parse_args()
    if arguments.rows is None:
        found = figures(data_folder() / FILE, quick=arguments.quick)
    else:
        torch.set_num_threads(arguments.threads)
        found = compared(arguments.rows, arguments.features)
    finish(found, as_json=arguments.as_json)


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


def compared(rows: int, width: int) -> dict[str, float]:
    """Seconds and memory of the comparison of generated rows, and what it finds."""
    values, originals = generated(rows, width)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun, used = time.monotonic(), time.process_time()
    features = near.centred(lambda: iter([(torch.arange(rows), values)]), rows)
    found = near.nearest(features)
    groups = near.duplicate_groups(found)
    outliers = near.outliers(found)
    seconds, used = time.monotonic() - begun, time.process_time() - used
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    first = rows - len(originals)
    together = (groups[first:] == groups[originals]) & (groups[originals] >= 0)
    grouped = groups >= 0
    grouped[originals] = grouped[first:] = False
    return {
        "rows": rows,
        "features": width,
        "threads": torch.get_num_threads(),
        "seconds": round(seconds, 1),
        "processor_seconds": round(used, 1),
        "memory_mb": round((after - before) / 1024),
        "planted": len(originals),
        "found_percent": round(100 * float(together.float().mean()), 1),
        "others": int(grouped.sum()),
        "outliers": int((outliers > 0).sum()),
        "nearest_found_percent": round(100 * agreement(features, found), 1),
    }


def generated(rows: int, width: int) -> tuple[Tensor, Tensor]:
    """Features (rows, width) with the copies last, and the numbers of their originals (M,)."""
    generator = torch.Generator().manual_seed(SEEDS[0])
    copies = max(1, round(GENERATED_SHARE * rows))
    scale = torch.arange(1, width + 1) ** -0.5
    number = rows - copies
    values = torch.randn(rows, width, generator=generator)
    centres = torch.randn(-(-number // GROUP), width, generator=generator)
    values[:number] += centres[torch.randint(len(centres), (number,), generator=generator)]
    values[:number] *= scale
    originals = torch.randperm(number, generator=generator)[:copies]
    values[number:] *= SPREADS[0] * values[:number].std(0)
    values[number:] += values[originals]
    return values, originals


def agreement(features: Tensor, found: near.Neighbours) -> float:
    """The share of the nearest rows of some rows that were found, by an exact comparison."""
    generator = torch.Generator().manual_seed(SEEDS[1])
    chosen = torch.randperm(len(features), generator=generator)[:CHECKED]
    hits = 0
    for rows in chosen.split(20):
        distances = torch.cdist(features[rows], features)
        distances[torch.arange(len(rows)), rows] = torch.inf
        exact = distances.topk(near.K, largest=False).indices
        hits += int((found.rows[rows][:, :, None] == exact[:, None]).sum())
    return hits / (near.K * len(chosen))


def _config(data: Path, seed: int) -> RunConfig:
    """One epoch of cross entropy: what is measured does not depend on the training."""
    table = preset("features", str(data)).table() | {"seed": seed, "method": {"name": "cross_entropy"}}
    table["phases"] = [{**table["phases"][0], "epochs": 1}]
    table["data"]["validation"] = 0.0
    return RunConfig.of(table)


if __name__ == "__main__":
    main()
