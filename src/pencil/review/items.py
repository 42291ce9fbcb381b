"""A row as the page shows it: given class, most likely classes, verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from pencil.algorithm import TopRows
from pencil.results import DECISIONS, VERDICTS, Judged
from pencil.results.decisions import SKIPPED
from pencil.results.judged import ACCEPTED, CHANGED, DROPPED, KEPT

SHOWN = 5  # classes shown for a row
ACTIONS = ("accept", "keep", "choose", "drop", "skip")

Answer = dict[str, Any]


class Seen(NamedTuple):
    """A row as a reviewer saw it: its number, and its version (number of decisions and undos)."""

    row: int
    version: int


@dataclass(frozen=True)
class Labels:
    """The labels of one row.

    Attributes:
        id: The row's id in the data set.
        given: The given class.
        verdict: The verdict.
        p_wrong: The probability that the given class is wrong.
        likely: The most likely classes with their probabilities, in descending order.
    """

    id: str
    given: int
    verdict: str
    p_wrong: float
    likely: tuple[tuple[int, float], ...]

    @property
    def suggested(self) -> int:
        """The most likely class."""
        return self.likely[0][0]

    def decision(self, action: str, label: int | None) -> tuple[str, int | None]:
        """Return the decision and label of an action; choosing the given class by any key counts as keeping it."""
        if action in ("drop", "skip"):
            return (DECISIONS[DROPPED] if action == "drop" else SKIPPED), None
        chosen = {"accept": self.suggested, "keep": self.given}.get(action, label)
        if chosen == self.given:
            return DECISIONS[KEPT], chosen
        return DECISIONS[ACCEPTED if chosen == self.suggested else CHANGED], chosen

    def item(self, seen: Seen) -> Answer:
        """The row as plain values."""
        return {
            "row": seen.row,
            "id": as_json_text(self.id),
            "version": seen.version,
            "given": self.given,
            "verdict": self.verdict,
            "p_wrong": round(self.p_wrong, 6),
            "likely": [[label, round(share, 6)] for label, share in self.likely],
        }


def labels_of(judged: Judged) -> Labels:
    """The labels of a single judged row."""
    belief = judged.distribution
    whole = (belief.dense() if isinstance(belief, TopRows) else belief)[0]
    best = whole.nan_to_num().sort(descending=True, stable=True)  # JSON does not support NaN
    likely = tuple(zip(best.indices[:SHOWN].tolist(), best.values[:SHOWN].tolist(), strict=True))
    verdict, p_wrong = VERDICTS[int(judged.verdict[0])], float(judged.p_wrong.nan_to_num()[0])
    return Labels(judged.ids[0], int(judged.given[0]), verdict, p_wrong, likely)


def forecast(chances: list[float], looks: int, stop_below: float) -> Answer:
    """What the next looks are expected to find.

    Args:
        chances: The chance of an error of the open rows, in their order; at least ``looks`` of them, if there are.
        looks: How many looks to sum up.
        stop_below: Suggest to stop if they are expected to find fewer errors than this.
    """
    expected = sum(chances[:looks])
    return {
        "looks": min(looks, len(chances)),
        "expected": round(expected, 2),
        "stop_below": stop_below,
        "stop": expected < stop_below,
    }


def looks_until_stop(chances: list[float], looks: int, stop_below: float) -> int | None:
    """How many looks it takes until ``forecast`` suggests to stop; None if it does not within these rows."""
    expected = sum(chances[:looks])
    for place, chance in enumerate(chances):
        if expected < stop_below:
            return place
        following = place + looks
        expected += (chances[following] if following < len(chances) else 0.0) - chance
    return None


def as_json_text(text: str) -> str:
    """Replace bytes of a file name that are not text, which JSON does not allow."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
