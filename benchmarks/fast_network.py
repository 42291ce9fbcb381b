"""The fast network beside PreAct ResNets on CIFAR-10: time of an epoch, and accuracy with right labels.

    python benchmarks/fast_network.py [--rows 10000] [--epochs 10] [--repeats 20] [--alone] [--json] [--write]
    python benchmarks/fast_network.py --quick --json

``seconds_*``: an epoch of 50,000 images, from the median time of a training step (forward, loss, backward, optimiser)
with 128 images, in seconds of one thread. The networks take turns, step by step, in one process; ``*_over_fast`` are
ratios of these medians. ``accuracy_*``: of the test set after training with cross entropy on ``--rows`` correctly
labelled images, with the optimiser, batches and augmentation of the preset and a learning rate that falls to 0 over
``--epochs``; PreAct ResNet-20, left out with ``--alone``, has as many epochs as fit into the same time. ``--write``
records the result.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from common import cifar10_folder, finish
from torch.nn import functional as F

from pencil.config import RunConfig
from pencil.engine import Runtime, read_json_lines
from pencil.models import build_model
from pencil.presets import preset
from pencil.run import train

RECORDED = Path(__file__).parent / "results" / "fast_network.json"
NETWORKS = ("fast", "preact_resnet20", "preact_resnet32")
IMAGES, BATCH = 50_000, 128


def main() -> None:
    """Measure, print, record if asked to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rows", type=int, default=10_000, help="images to train on, at most 50,000; 0 for no training"
    )
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=20, help="steps of each network")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--alone", action="store_true", help="train the fast network only")
    parser.add_argument("--quick", action="store_true", help="500 images, two epochs, three steps")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", action="store_true", help=f"record the result in {RECORDED.name}")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rows, arguments.epochs, arguments.repeats = 500, 2, 3
    torch.set_num_threads(1)
    figures = times(arguments.repeats)
    if arguments.rows:
        with tempfile.TemporaryDirectory() as folder:
            figures |= accuracies(Path(folder), arguments, figures["preact_resnet20_over_fast"])
        figures |= {name: getattr(arguments, name) for name in ("rows", "epochs", "seed")}
    if arguments.write:
        RECORDED.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    finish(figures, as_json=arguments.json)


def times(repeats: int) -> dict[str, Any]:
    """Seconds of an epoch by network, and ratios to the fast one."""
    steps = {name: training_step(name) for name in NETWORKS}
    turns = [{name: timed(step) for name, step in steps.items()} for _ in range(repeats + 1)]
    warm = turns[1:]
    epochs = {name: statistics.median(turn[name] for turn in warm) * IMAGES / BATCH for name in NETWORKS}
    ratios = {f"{name}_over_fast": round(epochs[name] / epochs["fast"], 2) for name in NETWORKS[1:]}
    return {f"seconds_{name}": round(value, 1) for name, value in epochs.items()} | ratios


def training_step(name: str) -> Callable[[], None]:
    """One training step on the same images again and again, as the preset would train."""
    runtime = Runtime.start("cpu", "auto", channels_last=True)
    model = runtime.place(build_model(name, num_classes=10, input_shape=(3, 32, 32)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    images = torch.randn(BATCH, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    labels = torch.arange(BATCH) % 10

    def step() -> None:
        optimizer.zero_grad()
        with runtime.autocast():
            logits = model(images)
        F.cross_entropy(logits.float(), labels).backward()
        optimizer.step()

    return step


def timed(step: Callable[[], None]) -> float:
    """Seconds that this process computed: other work on the machine counts little."""
    begun = time.process_time()
    step()
    return time.process_time() - begun


def accuracies(folder: Path, arguments: argparse.Namespace, ratio: float) -> dict[str, Any]:
    """Of the fast network, and of PreAct ResNet-20 after as much time unless it is left out."""
    fast = trained(folder / "fast", "fast", arguments.epochs, arguments)
    if arguments.alone:
        return {"accuracy_fast": fast}
    fewer = max(1, round(arguments.epochs / ratio))
    other = trained(folder / "preact_resnet20", "preact_resnet20", fewer, arguments)
    return {
        "accuracy_fast": fast,
        "accuracy_preact_resnet20": other,
        "epochs_preact_resnet20": fewer,
    }


def trained(out: Path, network: str, epochs: int, arguments: argparse.Namespace) -> float:
    """Test accuracy in percent after the last epoch."""
    data = cifar10_folder(out.parent / "data")
    run = train(clean(str(data), network, epochs, arguments), out)
    last = read_json_lines(run.path / "metrics.jsonl")[-1]
    print(f"{network}: {last}", file=sys.stderr)
    return round(100 * float(last["test_accuracy"]), 1)


def clean(data: str, network: str, epochs: int, arguments: argparse.Namespace) -> RunConfig:
    """The preset with cross entropy, right labels, nothing held out, and one falling rate."""
    table = preset("cifar10", data).table()
    backbone, correction, finetune = table["phases"]
    backbone |= {"epochs": epochs, "learning_rate": backbone["learning_rate"] | {"end": 0.0}}
    table["phases"] = [backbone, correction | {"epochs": 0}, finetune | {"epochs": 0}]
    table["train"] |= {"evaluate_every": epochs}
    table["data"] |= {"validation": 0.0, "limit": arguments.rows}
    table |= {"seed": arguments.seed, "model": {"name": network}, "method": {"name": "cross_entropy"}}
    return RunConfig.of(table)


if __name__ == "__main__":
    main()
