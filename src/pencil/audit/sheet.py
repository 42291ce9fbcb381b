"""The sample as a CSV to fill in: one line per look, the choices in shuffled order, an empty column for the answer.

The choices do not show which one is the given or the suggested label. An id may: that of an image in a folder begins
with its class. ``ids_name_labels`` tells when to use the page instead, which shows the image and not its id.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from pencil.audit.labels import plain
from pencil.audit.record import Audit, Item
from pencil.data import Beside, as_text, shown
from pencil.data.tables import csv_cells
from pencil.errors import DataError, PencilError, did_you_mean
from pencil.escape import spreadsheet_cell
from pencil.results import writing
from pencil.run import ChangedDataError, RunDirectory, rows_to_show

LETTERS = "abc"
WORDS = ("first choice", "second choice", "third choice")
"""The columns if a letter is the name of a class; nobody takes these for an answer."""
CANNOT_TELL = "?"
LONGEST_TEXT = 20_000

Texts = Callable[[Item], str | None]


def takes_letters(names: Sequence[str]) -> bool:
    """Whether an answer may be the letter of a choice: not if a class has such a name, in any case."""
    return not {name.strip().lower() for name in names} & {*LETTERS}


def write_sheet(path: Path, audit: Audit, texts: Texts | None, names: Sequence[str] = ()) -> int:
    """Write all looks with the answers so far, and return their number; ``names`` are those of all classes."""
    count, labels = len(audit.items[0].choices), audit.labels
    choices = (LETTERS if takes_letters(names) else WORDS)[:count]
    with (
        writing(path, ".csv", option="--csv") as partial,
        partial.open("w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(["look", "id", *(["text"] if texts else []), *choices, "answer"])
        for item in audit.items:
            text = [] if texts is None else [texts(item) or ""]
            said = labels[item.number] or CANNOT_TELL if item.number in labels else ""
            cells = (item.id, *text, *item.choices, said)
            writer.writerow([item.number, *map(spreadsheet_cell, cells)])
    return len(audit.items)


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
        DataError: A line is not valid, or an unanswered line is followed by an answered one.
    """
    items, empty = {item.number: item for item in audit.items}, None
    for place, cells in enumerate(csv_cells(path), start=2):
        look = str(cells.get("look", "")).strip()
        item = items.get(int(look)) if look.isdecimal() and len(look) < 10 else None
        if item is None or "answer" not in cells:
            raise DataError(
                f"{path}, line {place}: no look of this audit ({look[:20]!r}); keep the columns look and answer as "
                "--csv wrote them"
            )
        _check_columns(path, cells, names)
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


def _check_columns(path: Path, cells: Collection[str], names: Sequence[str]) -> None:
    """Refuse a sheet that was written without the names of classes, so that a letter may mean a choice or a class."""
    if LETTERS[0] in cells and not takes_letters(names):
        raise DataError(
            f"{path}: its columns {', '.join(LETTERS)} are names of classes too; write the file anew with --csv, "
            "and answer with class names"
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
