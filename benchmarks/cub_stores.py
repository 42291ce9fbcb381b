"""What cutting label rows costs: CUB-200 features, symmetric 40 %, the same runs with whole and with cut rows.

    python benchmarks/cub_stores.py [--seeds 5] [--json] [--out benchmarks/results/cub_stores.jsonl]

``agreement_*``: the share of rows whose final label is the one of the run with whole rows, in percent, mean and least
over the seeds. ``test_last_*``: last-epoch test accuracy in percent, with its standard deviation.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from common import data_folder, finish
from cub_features import Cell, cell_config
from torch import Tensor

from pencil.run import judged_labels, train

STORES = ("dense", "dense:mapped", "top:4", "top:8", "top:16")


def main() -> None:
    """Train with every store and seed, compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=Path, help="write every run as a JSON line")
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    path = str(data_folder() / "cub" / "cub200_2011_lite0_224_feat.npz")
    results = [result for seed in range(arguments.seeds) for result in compare(path, seed)]
    if arguments.out:
        arguments.out.write_text("".join(json.dumps(each) + "\n" for each in results))
    finish(figures(results), as_json=arguments.json)


def compare(path: str, seed: int) -> list[dict[str, Any]]:
    """One seed with every store; the first has whole rows."""
    runs = {store: labels_and_accuracy(path, seed, store) for store in STORES}
    whole, _ = runs["dense"]
    return [
        {
            "store": store,
            "seed": seed,
            "agreement": round(100 * float((labels == whole).float().mean()), 3),
            "test_last": round(accuracy, 3),
        }
        for store, (labels, accuracy) in runs.items()
    ]


def labels_and_accuracy(path: str, seed: int, store: str) -> tuple[Tensor, float]:
    """Final labels (N,) and last-epoch test accuracy in percent."""
    config = cell_config(Cell("symmetric_40", "pencil", seed, path)).model_copy(update={"store": store})
    with tempfile.TemporaryDirectory() as folder:
        run = train(config, Path(folder) / "run")
        chunks, _ = judged_labels(run)
        labels = torch.cat([chunk.distribution.max(dim=1).indices for chunk in chunks])
        accuracy = 100 * run.summary["last"]["test_accuracy"]
    print(f"seed {seed}  {store}  {accuracy:.1f} %", file=sys.stderr)
    return labels, accuracy


def figures(results: list[dict[str, Any]]) -> dict[str, float]:
    """Means, least agreement and deviations, by store."""
    found = {}
    for store in STORES:
        name = store.replace(":", "")
        agreement = [each["agreement"] for each in results if each["store"] == store]
        accuracy = [each["test_last"] for each in results if each["store"] == store]
        found[f"agreement_{name}"] = round(statistics.mean(agreement), 3)
        found[f"agreement_{name}_least"] = min(agreement)
        found[f"test_last_{name}"] = round(statistics.mean(accuracy), 2)
        found[f"test_last_{name}_std"] = round(statistics.stdev(accuracy), 2) if len(accuracy) > 1 else 0.0
    return found


if __name__ == "__main__":
    main()
