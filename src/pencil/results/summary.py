"""A run's summary: its final metrics and alarms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pencil.estimates import Alarm

Metrics = Sequence[Mapping[str, Any]]
REPORTED = "reported only"
CHANGES = "changes"  # the alarm that more labels were changed than were wrong
HALF = 0.5
LOST = Alarm(
    "metrics",
    "the metrics of all epochs are lost, so training cannot be judged; weights and labels are complete",
    "train again if you need the course of training",
)


def summarize(
    metrics: Metrics,
    *,
    num_rows: int,
    labels_changed: int = 0,
    alarms: Sequence[Mapping[str, Any]] = (),
    noise_rate_high: float | None = None,
) -> dict[str, Any]:
    """Return the last epoch, the best one (chosen on the validation set, never on the test set), and alarms.

    Args:
        metrics: One record per epoch; empty if the metrics file was lost.
        num_rows: The number of examples.
        labels_changed: The number of changed labels, used if there are no metrics.
        alarms: Records of the alarms raised during training.
        noise_rate_high: The upper bound of the noise rate by the last estimate, if there is one.
    """
    if not metrics:
        return {
            "examples": num_rows,
            "labels_changed": labels_changed,
            "last": {},
            "seconds": 0.0,
            "alarms": [*alarms, alarm_record(LOST)],
        }
    last = dict(metrics[-1])
    kept = ("epoch", "loss", "train_agreement", "validation_accuracy", "test_accuracy", "labels_correct")
    result: dict[str, Any] = {
        "examples": num_rows,
        "labels_changed": last["labels_changed"],
        "last": {name: last[name] for name in kept if name in last},
        "seconds": round(sum(line["seconds"] for line in metrics), 3),
        "alarms": _all_alarms(alarms, last["labels_changed"], num_rows, noise_rate_high),
    }
    validated = [line for line in metrics if "validation_accuracy" in line]
    if validated:
        best = max(validated, key=lambda line: line["validation_accuracy"])
        result["best"] = {name: best[name] for name in kept if name in best}
    return result


def _all_alarms(
    raised: Sequence[Mapping[str, Any]], changed: int, num_rows: int, high: float | None
) -> list[dict[str, Any]]:
    """The alarms of training, and whether too many labels were changed in the end.

    An epoch's alarm about changes to which nothing was done is left out: the estimate may be a better one now.
    """
    records = [dict(each) for each in raised if each["name"] != CHANGES or each["action"] != REPORTED]
    late = too_many_changes(changed, num_rows, high)
    if late is not None and all(record["name"] != CHANGES for record in records):
        records.append(alarm_record(late))
    return records


def alarm_record(alarm: Alarm, action: str = REPORTED, epoch: int | None = None) -> dict[str, Any]:
    """An alarm in the summary: name, words, remedy, the action taken, and the epoch; None for the end of the run."""
    return {**asdict(alarm), "action": action, "epoch": epoch}


def alarm_sentence(record: Mapping[str, Any]) -> str:
    """An alarm of the summary for people: what was found, what was done, and the remedy."""
    done = "" if record["action"] == REPORTED else f"; {record['action']}"
    when = "" if record["epoch"] is None else f"epoch {record['epoch']}: "
    return f"{when}{record['words']}{done}. Remedy: {record['remedy']}"


def too_many_changes(changed: int, num_rows: int, high: float | None) -> Alarm | None:
    """Whether more labels were changed than ``high``, the upper bound of the noise rate, allows.

    The bound is for these rows, so every changed label beyond it replaces a right one. Without an estimate, a change of
    more than half of the labels is reported.
    """
    share, allowed = changed / num_rows, HALF if high is None else high
    if changed <= math.ceil(allowed * num_rows):
        return None
    words = f"{100 * share:.1f} % of the labels were changed"
    if high is not None:
        words += (
            f", but at most {100 * high:.1f} % are estimated to be wrong: at least {100 * (share - high):.1f} % of all "
            "labels were right and are changed now"
        )
    return Alarm(
        CHANGES,
        words,
        "use the labels with verdict relabel instead of all changed ones, and check a sample (pencil audit RUN); "
        "better features or a smaller method.label_rate change fewer labels",
    )
