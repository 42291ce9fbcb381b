"""An audit as plain values: its plan, what was drawn, and the answers. The log and the certificate store these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from pencil.audit.draw import Look

What = Literal["relabels", "all", "asked"]
Bound = Literal["exact", "live"]
STRATA: Mapping[What, tuple[str, ...]] = {
    "relabels": ("relabel",),
    "all": ("keep", "relabel", "review"),
    "asked": ("asked",),
}
"""The strata: the verdicts that are audited, or the rows whose answers release most."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


class Threshold(_Record):
    """A nested set of the fixed sequence: the relabelled rows with at least this confidence, and their number."""

    confidence: float
    size: int = Field(ge=1)


class Plan(_Record):
    """What is fixed before the first label is drawn.

    Attributes:
        id: A random id of the audit; empty in logs from before there were ids.
        run: The id of the run; empty for a run from before there were ids.
        entry: The last entry of the review's history that the audited labels know of.
        what: The audited labels: those that were changed, or all; or rows that are asked about, which certify nothing.
        bound: The statement to certify: exact after the last answer, or live after any answer.
        seed: The seed of the draw.
        alpha: The risk that a bound does not hold.
        max_error: The share of errors to certify.
        rule: The verdict rule.
        labels: The fingerprint of the audited labels.
        sizes: The number of labels by stratum.
        mean_p_wrong: The mean estimated probability of a wrong given label, by stratum.
        thresholds: The nested sets of the fixed sequence, strictest first; empty for an audit of all labels.
        versions: The versions of pencil and Python.
        at: The time.
    """

    id: str = ""
    run: str = ""
    entry: int = Field(default=0, ge=0)
    what: What
    bound: Bound
    seed: int = Field(ge=0)
    alpha: float = Field(gt=0, lt=1)
    max_error: float = Field(ge=0, lt=1)
    rule: dict[str, Any]
    labels: str
    sizes: dict[str, int]
    mean_p_wrong: dict[str, float]
    thresholds: list[Threshold]
    versions: dict[str, str]
    at: str


class Item(_Record):
    """A look (see ``draw.Look``) with the label that it shows.

    Attributes:
        row: The row of the run.
        id: Its id in the data set.
        given: The given class.
        suggested: The suggested class.
        confidence: The probability that the suggestion is right.
        p_wrong: The probability that the given label is wrong.
        choices: The classes offered to the auditor, in the order shown.
    """

    number: int
    stratum: str
    place: int
    again: int | None
    row: int
    id: str
    given: str
    suggested: str
    confidence: float
    p_wrong: float
    choices: list[str]

    @property
    def look(self) -> Look:
        """The draw of this item."""
        return Look(self.number, self.stratum, self.place, self.again)

    @property
    def final(self) -> str:
        """The label after the run: the suggestion for relabelled rows, the given label for all others."""
        return self.suggested if self.stratum == "relabel" else self.given


class Draw(_Record):
    """A draw or an extension: its audit, how many labels were drawn by stratum, how many answered, the new items."""

    audit: str = ""
    counts: dict[str, int]
    answered: int
    items: list[Item]


class Answer(_Record):
    """An answer in an audit: the class that the auditor chose; None if the auditor could not tell."""

    audit: str = ""
    look: int
    label: str | None
    auditor: str
    at: str


@dataclass(frozen=True)
class Audit:
    """An audit and its answers so far, in the order given. A later answer to the same look replaces an earlier one."""

    plan: Plan
    draws: Sequence[Draw]
    answers: Sequence[Answer]

    @property
    def items(self) -> list[Item]:
        """Everything drawn, in the order shown."""
        return [item for draw in self.draws for item in draw.items]

    @property
    def labels(self) -> dict[int, str | None]:
        """The newest answer by look."""
        return {answer.look: answer.label for answer in self.answers}

    @property
    def answered(self) -> list[tuple[Item, str | None]]:
        """The items before the first one without an answer. Later answers do not count: skipping would bias bounds."""
        found, labels = [], self.labels
        for item in self.items:
            if item.number not in labels:
                break
            found.append((item, labels[item.number]))
        return found

    @property
    def next_item(self) -> Item | None:
        """The first item without an answer."""
        return next(iter(self.items[len(self.answered) :]), None)

    @property
    def is_complete(self) -> bool:
        """Whether every label of a sample of fixed size was checked: the exact bounds hold then only.

        An extension after the first answer may depend on the answers, so the size is not fixed any more.
        """
        return self.next_item is None and not any(draw.answered for draw in self.draws)
