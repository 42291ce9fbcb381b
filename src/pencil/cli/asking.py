"""``pencil review RUN --ask``: answer the questions that release most labels, in a browser or in a table."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pencil.cli.audit import Shown, frozen_labels, read_answers, serve_questions, write_questions
from pencil.cli.options import user_name
from pencil.cli.output import print_json, print_text
from pencil.errors import ConfigError

if TYPE_CHECKING:
    from pencil.audit import Audit, FrozenLabels
    from pencil.run import LabelTable, RunDirectory


def ask(
    run: Path,
    number: int | None,
    *,
    sheet: Path | None,
    answers: Path | None,
    reviewer: str | None,
    rows: Shown,
    port: int | None,
    max_false_relabels: float | None,
    json_: bool,
) -> None:
    """Ask about so many rows, or continue with those that were not answered yet, and say what the answers release."""
    from pencil.run import RunDirectory

    directory = RunDirectory.open(run)
    begun, labels = _begun(directory, number, max_false_relabels, reads=answers is not None)
    done: dict[str, Any] = {}
    if answers is not None:
        begun = read_answers(directory, begun, labels, answers, reviewer or user_name())
    if sheet is not None:
        done["csv"] = write_questions(directory, begun, labels, sheet, rows)
    if sheet is None and answers is None:
        begun = serve_questions(directory, begun, labels, reviewer, rows, port=port, json_=json_)
    _show(directory, begun, labels.table, done, json_)


def _begun(
    directory: RunDirectory, number: int | None, max_false_relabels: float | None, *, reads: bool
) -> tuple[Audit, FrozenLabels]:
    """The questions without an answer, or new ones, and the labels that they are about."""
    from pencil.audit import Wanted, begin, current_audit, resumed

    known = current_audit(directory, "asked")
    if known is not None and (reads or known.next_item is not None):
        labels = frozen_labels(directory, max_false_relabels, known, known.plan.sizes["asked"])
        return resumed(directory, known, labels, Wanted(what="asked")), labels
    if number is None:
        raise ConfigError(
            "--answers: nothing was asked yet; ask with: pencil review RUN --ask 100 --csv FILE"
        )
    labels = frozen_labels(directory, max_false_relabels, None, number)
    return begin(directory, labels, Wanted(what="asked", bound="live", looks=number)), labels


def _show(
    directory: RunDirectory, begun: Audit, before: LabelTable, done: dict[str, Any], json_: bool
) -> None:
    from pencil.audit import findings, sentences
    from pencil.report.words import relabel_words
    from pencil.results import RELABEL
    from pencil.run import LabelTable

    after = LabelTable.open(directory, before.rule.max_false_relabels)
    now, then = (
        sum(int((rows.verdict == RELABEL).sum()) for rows in table.chunks()) for table in (after, before)
    )
    found, place = findings(begun), shlex.quote(str(directory.path))
    if json_:
        about = {"run": str(directory.path), "asked": found["looks"], "answered": found["answered"]}
        print_json({**about, **found["asked"], "relabel": now, "relabel_before": then, **done})
        return
    if sheet := done.get("csv"):
        name = shlex.quote(sheet)
        print_text(f"next: fill in {name}, then: pencil review {place} --answers {name}")
        return
    for sentence in sentences(begun, found):
        print_text(sentence)
    print_text(f"{relabel_words(now, before.rule)} now, {then:,} before")
    left = found["looks"] - found["answered"]
    more = f"pencil review {place} --ask {left}, " if left else ""
    print_text(f"next: {more}pencil labels {place} --out labels.csv, or pencil train DATA --trusted {place}")
