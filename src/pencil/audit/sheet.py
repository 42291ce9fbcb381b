"""The sample as a CSV to fill in: one line per look, the choices in shuffled order, an empty column for the answer.

Every line names its audit, and is read only if it shows what the audit shows: sheets of other audits are refused, and
lines whose ids or choices were moved. The choices do not show which one is the given or the suggested label. An id may:
that of an image in a folder begins with its class. ``ids_name_labels`` tells when to use the page instead, which shows
the image and not its id.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pencil.audit.labels import plain
from pencil.audit.record import Audit, Item
from pencil.data import Beside, as_text, shown
from pencil.data.tables import csv_cells
from pencil.errors import DataError, PencilError, did_you_mean
from pencil.escape import spreadsheet_cell
from pencil.identity import FORMAT, newer
from pencil.results import writing
from pencil.run import ChangedDataError, RunDirectory, rows_to_show

LETTERS = "abc"
WORDS = ("first choice", "second choice", "third choice")
"""The columns if a letter is the name of a class; nobody takes these for an answer."""
CANNOT_TELL = "?"
LONGEST_TEXT = 20_000
KEEP = "change only the column answer, import the others as text, or write the file anew with --csv"

Texts = Callable[[Item], str | None]


def takes_letters(names: Sequence[str]) -> bool:
    """Whether an answer may be the letter of a choice: not if a class has such a name, in any case."""
    return not {name.strip().lower() for name in names} & {*LETTERS}


def write_sheet(path: Path, audit: Audit, texts: Texts | None, names: Sequence[str] = ()) -> int:
    """Write all looks with the answers so far, and return their number; ``names`` are those of all classes."""
    labels, choices = audit.labels, _choice_columns(audit.items[0], names)
    with (
        writing(path, ".csv", option="--csv") as partial,
        partial.open("w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(["look", "audit", "id", *(["text"] if texts else []), *choices, "answer"])
        for item in audit.items:
            text = [] if texts is None else [texts(item) or ""]
            said = labels[item.number] or CANNOT_TELL if item.number in labels else ""
            cells = (_mark(audit), item.id, *text, *item.choices, said)
            writer.writerow([item.number, *map(spreadsheet_cell, cells)])
    return len(audit.items)


def _mark(audit: Audit) -> str:
    return f"{FORMAT}-{audit.plan.id}"


def _choice_columns(item: Item, names: Sequence[str]) -> Sequence[str]:
    return (LETTERS if takes_letters(names) else WORDS)[: len(item.choices)]


def ids_name_labels(audit: Audit) -> bool:
    """Whether the ids of most items have the given class as the name of a folder."""
    named = sum(item.given in Path(item.id).parts[:-1] for item in audit.items)
    return 2 * named > len(audit.items)


def texts_of(
    directory: RunDirectory, *, changed_data: bool = False, beside: Beside | None = None
) -> Texts | None:
    """Returns the text or record of an item; None if the data of the run is neither.

    Raises:
        ChangedDataError: The data has changed since training.
        PencilError: The data or ``beside`` cannot be read; without ``beside``, None is returned.
    """
    try:
        examples = rows_to_show(directory, changed_data=changed_data, beside=beside).train
        if beside is None and as_text(shown(examples.inputs, 0)) is None:
            return None
    except PencilError as error:
        if beside is not None or isinstance(error, ChangedDataError):
            raise
        return None  # the data is not here; ids are shown alone

    def text_of(item: Item) -> str | None:
        if item.row >= len(examples) or plain(examples.ids[item.row]) != item.id:
            raise DataError(f"row {item.row} is not {item.id!r} in the data now; restore the data of the run")
        found = as_text(shown(examples.inputs, item.row))
        return None if found is None else found[:LONGEST_TEXT]

    return text_of


def read_sheet(path: Path, audit: Audit, names: Sequence[str]) -> Iterator[tuple[int, str | None]]:
    """Yield look and label of each answered line.

    Raises:
        DataError: A line is not valid or not one of this audit, or an unanswered line is followed by an answered one.
    """
    items, empty = {item.number: item for item in audit.items}, None
    for place, cells in enumerate(csv_cells(path), start=2):
        look = str(cells.get("look", "")).strip()
        _check_audit(f"{path}, line {place}", cells.get("audit"), audit)
        item = items.pop(int(look), None) if look.isdecimal() and len(look) < 10 else None
        if item is None or "answer" not in cells:
            raise DataError(
                f"{path}, line {place}: no look of this audit, or an earlier line has it ({look[:20]!r}); {KEEP}"
            )
        _check_shown(f"{path}, line {place}", cells, item, names)
        said = str(cells["answer"]).strip()
        if not said:
            empty = empty or place
        elif empty is not None:
            raise DataError(
                f"{path}, line {empty}: has no answer, but line {place} has one; answer it, "
                f"or write {CANNOT_TELL} if you cannot tell (which counts as an error)"
            )
        else:
            yield item.number, _label(said, item, names, f"{path}, line {place}")


def _check_audit(where: str, mark: str | None, audit: Audit) -> None:
    """Refuse a line of another audit, or one without an audit unless the audit is from before there were ids."""
    written = re.fullmatch("([0-9]{1,9})-([0-9a-f]*)", mark or "")
    if written is not None and int(written[1]) > FORMAT:
        raise DataError(f"{where}: {newer(int(written[1]))}")
    unnamed = "" if mark is None else None  # sheets had no such column before audits had ids
    named = written[2] if written else unnamed
    if named != audit.plan.id:
        problem = "belongs to another audit or run" if named else "does not name its audit"
        raise DataError(f"{where}: {problem}; write the file anew with --csv, and answer that one")


def _check_shown(where: str, cells: Mapping[Any, str], item: Item, names: Sequence[str]) -> None:
    """Check that a line shows the row and the choices of its look; some programs remove the mark before a formula."""
    expected = {"id": item.id, **dict(zip(_choice_columns(item, names), item.choices, strict=True))}
    for column, text in expected.items():
        if cells.get(column) not in (spreadsheet_cell(text), text):
            found = repr(cells[column][:80]) if column in cells else "missing"
            raise DataError(
                f"{where}: {column} is {found}, and was {text[:80]!r} for look {item.number} of this audit; {KEEP}"
            )


def _label(said: str, item: Item, names: Sequence[str], where: str) -> str | None:
    """The class that a cell names: by its name, or by the letter of a choice unless that is a name too."""
    known = {form: name for name in names for form in (spreadsheet_cell(name).strip(), name.strip())}
    letters = dict(zip(LETTERS, item.choices, strict=False)) if takes_letters(names) else {}
    if said == CANNOT_TELL and said in known:
        raise DataError(
            f"{where}: the answer {said} is a class and also means that you cannot tell; answer with --page instead"
        )
    if said in known:
        return known[said]
    if said.lower() in letters:
        return letters[said.lower()]
    if said == CANNOT_TELL:
        return None
    raise DataError(
        f"{where}: the answer {said[:80]!r} is no class{did_you_mean(said, known)}; use "
        f"{', '.join(['a class name', *letters])}, or {CANNOT_TELL}"
    )
