"""A run's summary: its final metrics and alarms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Metrics = Sequence[Mapping[str, Any]]
LOST = "the metrics of all epochs are lost, so training cannot be judged; weights and labels are complete"


def summarize(metrics: Metrics, *, num_rows: int, labels_changed: int = 0) -> dict[str, Any]:
    """Return the last epoch, the best one (chosen on the validation set, never on the test set), and alarms.

    Args:
        metrics: One record per epoch; empty if the metrics file was lost.
        num_rows: The number of examples.
        labels_changed: The number of changed labels, used if there are no metrics.
    """
    if not metrics:
        return {
            "examples": num_rows,
            "labels_changed": labels_changed,
            "last": {},
            "seconds": 0.0,
            "alarms": [LOST],
        }
    last = dict(metrics[-1])
    kept = ("epoch", "loss", "train_agreement", "validation_accuracy", "test_accuracy", "labels_correct")
    result: dict[str, Any] = {
        "examples": num_rows,
        "labels_changed": last["labels_changed"],
        "last": {name: last[name] for name in kept if name in last},
        "seconds": round(sum(line["seconds"] for line in metrics), 3),
        "alarms": alarms(metrics, num_rows=num_rows),
    }
    validated = [line for line in metrics if "validation_accuracy" in line]
    if validated:
        best = max(validated, key=lambda line: line["validation_accuracy"])
        result["best"] = {name: best[name] for name in kept if name in best}
    return result


def alarms(metrics: Metrics, *, num_rows: int) -> list[str]:
    """Problems that can be detected without true labels; see ``drift`` and ``many_changes``."""
    sentences = (drift(metrics), many_changes(metrics, num_rows))
    return [sentence for sentence in sentences if sentence]


def drift(metrics: Metrics, tolerance: float = 0.03) -> str | None:
    """Report drift: accuracy on held-out given labels peaks during correction, then falls."""
    scores = [
        line["validation_accuracy"]
        for line in metrics
        if line["phase"] == "correction" and "validation_accuracy" in line
    ]
    if not scores or max(scores) - scores[-1] <= tolerance:
        return None
    return (
        f"labels may have drifted: accuracy on the held-out given labels peaked at {max(scores):.1%} during "
        f"correction and ended it at {scores[-1]:.1%}; use fewer correction epochs or a smaller method.label_rate"
    )


def many_changes(metrics: Metrics, num_rows: int, share: float = 0.5) -> str | None:
    """Report if the share of changed labels is implausibly large."""
    changed = metrics[-1]["labels_changed"] / num_rows
    if changed <= share:
        return None
    return f"{changed:.0%} of the labels were changed; check a sample by hand before using them"
