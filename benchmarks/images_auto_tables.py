"""Recorded runs of ``images_auto.py`` in words and numbers, and the tables of docs/images.md."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

AUTO = "auto"
USUAL = 18  # epochs of the preset before it corrects
NAMES = {"cifar10": "asymmetric", "file": "people"}  # of noises
Run = Mapping[str, Any]


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


def order_of(run: Run) -> tuple[Any, ...]:
    """By the number of rows, then symmetric noises first."""
    kind = str(run["noise"]["kind"])
    return (
        run["examples"],
        kind != "symmetric",
        kind,
        run["noise"].get("rate", 1),
        run["noise"].get("key", ""),
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
    """Markdown: the runs of ``auto`` by number of images, largest first, their means, and those of other methods."""
    sizes = sorted({run["examples"] for run in runs if is_usual(run)}, reverse=True)
    parts = [
        f"### {size:,} training images\n\n{table([run for run in runs if run['examples'] == size])}"
        for size in sizes
    ]
    means = f"### Means over seeds\n\n{means_table(runs)}"
    return "\n\n".join([*parts, means, f"### Other methods\n\n{methods_table(runs)}"])


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


def means_table(runs: Sequence[Run]) -> str:
    """Markdown: mean ± standard deviation for each noise and number of images that ``auto`` ran with several seeds."""
    lines = [
        "| noise | training images | seeds | cross entropy: best epoch | last "
        "| `auto` | ahead of the best | y^d | suggested |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for (noise, size), found in groupby(filter(is_usual, runs), lambda run: (noise_of(run), run["examples"])):
        told = [measures(run) for run in found]
        if len(told) > 1:
            lines.append(f"| {noise} | {size:,} | {len(told)} | {' | '.join(_means(told))} |")
    return "\n".join(lines)


def _means(told: Sequence[Mapping[str, float]]) -> Iterator[str]:
    ahead = [each["auto"] - each["cross_entropy"] for each in told]
    best, last, auto, *labels = (
        [each[name] for each in told]
        for name in ("cross_entropy", "cross_entropy_last", "auto", "labels_after", "suggested")
    )
    for values in (best, last, auto, ahead, *labels):
        yield f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}"


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
