"""CIFAR-10 images from scratch with ``plan = "auto"``, and other methods beside it, as recorded epoch by epoch.

    pencil train CIFAR10 --preset cifar10 --noise symmetric:0.5 --seed 0 --out RUN
    pencil train CIFAR10 --preset cifar10 --noise symmetric:0.5 --method early_learning --set plan=fixed --out RUN
    python benchmarks/images_auto.py --record RUN [RUN ...]     # adds finished runs to docs/images.md and its figures
    python benchmarks/images_auto.py [--json]                   # the figures, in percent

Until the first correction, a run of ``auto`` is plain training by cross entropy with a falling learning rate.
``cross_entropy`` is the test accuracy of its best epoch, the one that agrees most with held-out given labels; the test
set decides nothing. Other methods have as many epochs and the same learning rates.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from common import between_marks, finish, write_lines
from images_auto_figures import draw_epochs, draw_memorised

from pencil.engine import read_json_lines, read_metrics
from pencil.results import RELABEL
from pencil.run import LabelTable, RunDirectory, prepare_examples
from pencil.run.renewal import FOLDER

RECORDED = Path(__file__).parent / "results" / "images_auto.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "images.md"
FIGURE = PAGE.parent / "figures" / "images_auto.png"
MEMORISED = FIGURE.with_name("images_memorised.png")
AUTO = "auto"
USUAL = 18  # epochs of the preset before it corrects
NAMES = {"cifar10": "asymmetric", "file": "people"}  # of noises
KEPT = ("epoch", "phase", "validation_accuracy", "test_accuracy", "labels_correct", "labels_changed")
Run = Mapping[str, Any]


def main() -> None:
    """Record runs if asked to, then print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", type=Path, nargs="+", default=[], metavar="RUN")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.record:
        record(arguments.record)
    runs = recorded()
    if not arguments.json:
        print(tables(runs))
    finish(figures(runs), as_json=arguments.json)


def record(folders: Sequence[Path]) -> None:
    """Add runs, in place of those with the same name, and write the page and its figures."""
    named = {name_of(run): run for run in (*recorded(), *map(line_of, folders))}
    runs = sorted(named.values(), key=_order)
    write_lines(RECORDED, runs)
    PAGE.write_text(between_marks(PAGE.read_text(encoding="utf-8"), tables(runs)), encoding="utf-8")
    draw(runs)


def recorded() -> list[dict[str, Any]]:
    """Every recorded run."""
    return read_json_lines(RECORDED)


def line_of(path: Path) -> dict[str, Any]:
    """A finished run: its settings, what it decided, and its epochs."""
    directory = RunDirectory.open(path)
    directory.require_finished()
    config = directory.config
    # Without the command, which has paths of one machine.
    environment = {name: value for name, value in directory.environment.items() if name != "command"}
    noise = config.data.noise
    assert noise is not None, "the runs of this benchmark have noise"
    return {
        "noise": noise.model_dump(mode="json", exclude_none=True) | {"path": None},
        "examples": directory.summary["examples"],
        "seed": config.seed,
        "method": config.method.name,
        "plan": config.plan,
        "choices": directory.summary.get("choices", []),
        "renewed": sorted(int(each.name.rpartition("-")[2]) for each in path.glob(FOLDER.format("*"))),
        "seconds": directory.summary["seconds"],
        "handed_out": handed_out(directory),
        "plain": _kept(
            each
            for each in read_json_lines(directory.metrics)
            if each.get("phase") == "backbone" and "restored" not in each
        ),
        "epochs": _kept(read_metrics(directory.metrics)),
        "environment": environment,
    }


def _kept(epochs: Iterable[Run]) -> list[dict[str, Any]]:
    return [{name: each[name] for name in KEPT if name in each} for each in epochs]


def handed_out(directory: RunDirectory) -> dict[str, Any]:
    """What ``pencil labels`` writes, against the truth: right suggestions, and right labels after every ``relabel``."""
    table, config = LabelTable.open(directory), directory.config
    truth = prepare_examples(config.data, config.seed).train.reference
    assert truth is not None, "noise was added, so the truth is known"
    suggested = relabelled = 0
    for rows in table.chunks():
        true = truth[rows.first : rows.first + len(rows)]
        suggested += int((rows.suggested == true).sum())
        relabelled += int((torch.where(rows.verdict == RELABEL, rows.suggested, rows.given) == true).sum())
    estimates = table.estimates
    return {
        "suggested_right": suggested / len(table),
        "relabelled_right": relabelled / len(table),
        "wrong_estimated": estimates.rate.value,
        "source": estimates.source,
        "alarms": [alarm.name for alarm in estimates.alarms],
    }


def method_of(run: Run) -> str:
    """``auto``, or the method of a run that followed its phases."""
    return AUTO if run["plan"] == AUTO else str(run["method"])


def noise_of(run: Run) -> str:
    """The noise in words."""
    noise = run["noise"]
    kind = NAMES.get(noise["kind"], noise["kind"])
    return f"{kind} {100 * noise['rate']:.0f} %" if "rate" in noise else f"{kind}, {noise['key']}"


def plain_epochs(run: Run) -> list[dict[str, Any]]:
    """The epochs of plain training before the first correction of ``auto``; every epoch of another method.

    They include those that ``auto`` has undone because the network had begun to memorise.
    """
    found: list[dict[str, Any]] = run["plain"] if method_of(run) == AUTO else run["epochs"]
    return found


def is_usual(run: Run) -> bool:
    """Whether it is a run of ``auto`` that begins to correct when the preset does."""
    return method_of(run) == AUTO and len(plain_epochs(run)) == USUAL


def has_memorised(run: Run) -> bool:
    """Whether ``auto`` went back to an earlier epoch before it corrected."""
    kept = [each for each in run["epochs"] if each["phase"] == "backbone"]
    return method_of(run) == AUTO and len(kept) < len(plain_epochs(run))


def is_renewed(run: Run) -> bool:
    """Whether it ends with a network that has learned from calibrated labels."""
    return any(epochs < len(run["epochs"]) for epochs in run.get("renewed", []))


def name_of(run: Run) -> str:
    """The noise, how many rows, the seed, and what is not as in the preset: the method, or when correction begins."""
    words = [noise_of(run).removesuffix(" %").replace(", ", " "), str(run["examples"]), str(run["seed"])]
    if method_of(run) != AUTO:
        words.append(method_of(run))
    elif not is_usual(run):
        words.append(f"after_{len(plain_epochs(run))}")
    return "_".join(words).replace(" ", "_")


def _order(run: Run) -> tuple[Any, ...]:
    """By the number of rows, then symmetric noises first."""
    kind = str(run["noise"]["kind"])
    return (
        run["examples"],
        kind != "symmetric",
        kind,
        run["noise"].get("rate", 1),
        run["seed"],
        method_of(run) != AUTO,
        len(run["epochs"]) if method_of(run) != AUTO else len(plain_epochs(run)),
    )


def measures(run: Run) -> dict[str, float]:
    """The accuracies and label shares of a run, in percent."""
    epochs, own = run["epochs"], method_of(run)
    plain = plain_epochs(run)
    best = max(plain, key=lambda each: float(each["validation_accuracy"]))
    shares = {
        "cross_entropy" if own == AUTO else "best": best["test_accuracy"],
        **({"cross_entropy_last": plain[-1]["test_accuracy"]} if own == AUTO else {}),
        "auto" if own == AUTO else "last": epochs[-1]["test_accuracy"],
        "labels_before": epochs[0]["labels_correct"],
        "labels_after": epochs[-1]["labels_correct"],
        "suggested": run["handed_out"]["suggested_right"],
        "relabelled": run["handed_out"]["relabelled_right"],
    }
    return {name: round(100 * share, 1) for name, share in shares.items()}


def figures(runs: Sequence[Run]) -> dict[str, float]:
    """The measures of every run, by its name."""
    return {f"{name_of(run)}_{name}": value for run in runs for name, value in measures(run).items()}


def at_symmetric_50(runs: Sequence[Run]) -> dict[str, float]:
    """The measures of ``auto`` at symmetric 50 % on the most rows, mean over seeds; nothing if it was not run."""
    own = [run for run in runs if method_of(run) == AUTO]
    chosen = [run for run in own if run["noise"]["kind"] == "symmetric" and run["noise"]["rate"] == 0.5]
    most = max((run["examples"] for run in chosen), default=0)
    found = [measures(run) for run in chosen if run["examples"] == most]
    names = {
        "images_auto_sym50": "auto",
        "images_cross_entropy_sym50_best": "cross_entropy",
        "images_right_labels_sym50": "labels_after",
    }
    return {
        name: round(statistics.mean(each[key] for each in found), 1) for name, key in names.items() if found
    }


def tables(runs: Sequence[Run]) -> str:
    """Markdown: the runs of ``auto`` by number of images, largest first, then those of other methods."""
    sizes = sorted({run["examples"] for run in runs if is_usual(run)}, reverse=True)
    parts = [
        f"### {size:,} training images\n\n{table([run for run in runs if run['examples'] == size])}"
        for size in sizes
    ]
    return "\n\n".join([*parts, f"### Other methods\n\n{methods_table(runs)}"])


def table(runs: Sequence[Run]) -> str:
    """Markdown: a line for each run of ``auto`` that begins to correct when the preset does."""
    names = [
        *("cross_entropy", "cross_entropy_last", "auto"),
        *("labels_before", "labels_after", "suggested", "relabelled"),
    ]
    lines = [
        "| noise | seed | cross entropy: best epoch | last | `auto` "
        "| right labels: given | y^d | suggested | relabelled | rounds |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for run in filter(is_usual, runs):
        told = measures(run)
        shown = " | ".join(str(told[name]) for name in names)
        rounds = f"{corrections(run)}{' + q' * is_renewed(run)}"
        lines.append(f"| {noise_of(run)} | {run['seed']} | {shown} | {rounds} |")
    return "\n".join(lines)


def corrections(run: Run) -> int:
    """Rounds of correction that were kept."""
    phases = [each["phase"] for each in run["epochs"]]
    return sum(
        now == "correction" != before for before, now in zip(["backbone", *phases], phases, strict=False)
    )


def methods_table(runs: Sequence[Run]) -> str:
    """Markdown: a line for each run of another method, with ``auto`` on the same images."""
    of_auto = {name_of(run): measures(run) for run in runs if method_of(run) == AUTO}
    lines = [
        "| noise | training images | seed | method | best epoch | last epoch | right labels | `auto`: last epoch |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        method, told = method_of(run), measures(run)
        if method == AUTO:
            continue
        own = of_auto.get(name_of(run).removesuffix(f"_{method}"))
        changed = any(each.get("labels_changed") for each in run["epochs"])
        # At the end only: some methods begin with labels of their own.
        labels = told["labels_after"] if changed else "–"
        lines.append(
            f"| {noise_of(run)} | {run['examples']:,} | {run['seed']} | {method.replace('_', ' ')} | {told['best']} | "
            f"{told['last']} | {labels} | {own['auto'] if own else '–'} |"
        )
    return "\n".join(lines)


def draw(runs: Sequence[Run]) -> None:
    """A line for each noise and number of images, of its last seed; and the run that memorised, if there is one."""
    usual = {f"{noise_of(run)}, {run['examples']:,} images": run["epochs"] for run in runs if is_usual(run)}
    draw_epochs(usual, FIGURE)
    for run in filter(has_memorised, runs):
        draw_memorised(plain_epochs(run), run["epochs"], MEMORISED)


if __name__ == "__main__":
    main()
