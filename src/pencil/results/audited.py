"""``audit.json``: the correction of a run's probabilities by the answers of an audit, if they contradict them."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path

from pencil.estimates import Recalibration
from pencil.results.files import damaged, read_record, write_record

AUDITED = "audit.json"
REMEDY = (
    "write it again with: pencil audit RUN --recalibrate, or remove it to use the uncorrected probabilities"
)


@dataclass(frozen=True)
class Audited:
    """What an audit says about the probabilities of a run.

    Attributes:
        recalibration: The correction.
        checked: The number of audited rows that it was fitted to.
    """

    recalibration: Recalibration
    checked: int


def write_audited(folder: Path, audited: Audited) -> None:
    """Write the correction of the run in this folder."""
    write_record(folder / AUDITED, asdict(audited), indent=2)


def read_recalibration(folder: Path) -> Recalibration | None:
    """The correction of the run in this folder; None if there is none."""
    if not (folder / AUDITED).exists():
        return None
    audited: Audited = read_record(folder / AUDITED, Audited, remedy=REMEDY)
    correction = audited.recalibration
    for curve in (correction.wrong, correction.other):
        if curve is not None and not (math.isfinite(curve.shift) and 0 < curve.slope < math.inf):
            raise damaged(
                folder / AUDITED, f"shift {curve.shift} and slope {curve.slope} are not valid", REMEDY
            )
    return correction
