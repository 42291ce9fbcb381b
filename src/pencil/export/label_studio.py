"""Label Studio: write tasks with a run's labels as predictions, and read annotations from its JSON export.

A task is {data, predictions}. ``data`` holds the ``image`` or ``text`` to show and the row's id; the prediction is a
choice of the control ``label``, with the confidence as its score.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from xml.sax.saxutils import quoteattr

from pencil._version import __version__
from pencil.errors import DataError
from pencil.reading import MB, read_json
from pencil.results import LabelRow

CONTROL = "label"
EXPORT_BYTES = 2048 * MB  # millions of tasks
ID = "pencil_id"  # "id" is the id of the task in Label Studio
Shown = Literal["image", "text"]


def task(row: LabelRow, shown: Shown, show: Callable[[str], str]) -> dict[str, Any]:
    """One task; ``show`` returns the image address or the text of an id."""
    choice = {
        "from_name": CONTROL,
        "to_name": shown,
        "type": "choices",
        "value": {"choices": [row.suggested]},
    }
    return {
        "data": {
            shown: show(row.id),
            ID: row.id,
            "given_label": row.given,
            "p_wrong": row.p_wrong,
            "verdict": row.verdict,
        },
        "predictions": [
            {"model_version": f"pencil {__version__}", "score": row.confidence, "result": [choice]}
        ],
    }


def labeling_config(class_names: Sequence[str], shown: Shown) -> str:
    """The project's labeling interface: the example, its given label, and a choice of one class."""
    tag = {"image": "Image", "text": "Text"}[shown]
    choices = "\n".join(f"    <Choice value={quoteattr(name)}/>" for name in class_names)
    return (
        f'<View>\n  <{tag} name="{shown}" value="${shown}"/>\n'
        '  <Header value="Came as: $given_label" size="5"/>\n'
        f'  <Choices name="{CONTROL}" toName="{shown}" choice="single" showInLine="true">\n'
        f"{choices}\n  </Choices>\n</View>\n"
    )


@dataclass(frozen=True)
class Choices:
    """The annotators' choices.

    Attributes:
        labels: The class of each id on which all annotators agree.
        disputed: The classes of each id on which annotators disagree.
        open: Ids without a choice: not annotated yet, skipped, or submitted empty.
    """

    labels: Mapping[str, str]
    disputed: Mapping[str, tuple[str, ...]]
    open: tuple[str, ...]


def read_choices(path: Path) -> Choices:
    """Read the choices from the JSON export of a project with tasks made by ``task``."""
    chosen: dict[str, set[str]] = defaultdict(set)
    for number, found in enumerate(_tasks(path), start=1):
        name = _id(found, number, path)
        try:
            chosen[name].update(_choices(found))
        except (AttributeError, KeyError, TypeError) as error:  # unexpected types
            raise DataError(
                f"{path}, task {number}: the annotations are not in Label Studio's format; export the project again"
            ) from error
    return Choices(
        labels={name: next(iter(classes)) for name, classes in chosen.items() if len(classes) == 1},
        disputed={name: tuple(sorted(classes)) for name, classes in chosen.items() if len(classes) > 1},
        open=tuple(name for name, classes in chosen.items() if not classes),
    )


def _tasks(path: Path) -> list[dict[str, Any]]:
    try:
        found = read_json(path, limit=EXPORT_BYTES)
    except DataError as error:
        raise DataError(f"{error}; export the project as JSON") from error
    whole = isinstance(found, list) and all(
        isinstance(each, dict) and "annotations" in each for each in found
    )
    if not whole:
        raise DataError(
            f"{path}: contains no tasks with annotations; export the project as JSON (not JSON-MIN or CSV)"
        )
    tasks: list[dict[str, Any]] = found
    return tasks


def _id(found: Mapping[str, Any], number: int, path: Path) -> str:
    data = found.get("data")
    name = data.get(ID) if isinstance(data, dict) else None
    if not isinstance(name, str):
        raise DataError(
            f"{path}, task {number}: data.{ID} is missing; use an export of tasks written by pencil export"
        )
    return name


def _choices(found: Mapping[str, Any]) -> Iterator[str]:
    """The class of each submitted annotation that has one."""
    for annotation in found["annotations"]:
        for result in [] if annotation.get("was_cancelled") else annotation.get("result", []):
            if result.get("type") == "choices" and result.get("from_name") == CONTROL:
                choices = result["value"]["choices"]
                if not isinstance(choices, list) or not all(isinstance(choice, str) for choice in choices):
                    raise TypeError("choices must be names")
                yield from choices
