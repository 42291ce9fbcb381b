"""The run's data, where it can still be read: for thumbnails, and for the truth where that is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pencil.data import Examples, as_text
from pencil.data import shown as seen
from pencil.errors import PencilError
from pencil.report.shortlist import Case
from pencil.report.text import shown
from pencil.report.thumbnails import Thumbnail, is_image, thumbnail
from pencil.run import ChangedDataError, RunDirectory, own_examples

THUMBNAIL_BYTES = 3_000_000
"""All thumbnails of a page together, so that it can be mailed."""
TEXT = 300
"""Characters of a text that are shown."""
UNREADABLE = "Without thumbnails, for the run's data cannot be read: "


@dataclass(frozen=True)
class Example:
    """A row to show: with a thumbnail where it is an image, with a text where it is a text or a record.

    Id and text can be shown as they are.
    """

    case: Case
    thumbnail: Thumbnail | None
    text: str | None = None


@dataclass(frozen=True)
class Source:
    """The training rows, or None; ``note`` says why there are none."""

    rows: Examples | None = None
    note: str | None = None

    @classmethod
    def of(cls, directory: RunDirectory, *, changed_data: bool = False) -> Source:
        """The rows a run was trained on. Its labels can be told about without them, so their lack is no error.

        Raises:
            ChangedDataError: They are not what they were, and nobody said to go on.
        """
        try:
            rows = own_examples(directory, changed_data=changed_data).train
        except ChangedDataError:
            raise
        except (PencilError, OSError) as error:
            return cls(note=shown(f"{UNREADABLE}{error}", 600))
        if len(rows) != directory.summary["examples"]:
            return cls(note="Without thumbnails, for the data has another number of rows than the run saw.")
        return cls(rows)

    @property
    def truth(self) -> Tensor | None:
        """The true classes (N,) where they are known."""
        return None if self.rows is None else self.rows.reference

    def checked(self, cases: Sequence[Case]) -> Source:
        """Itself, if the rows to show are called what they were in the run; otherwise these are other rows."""
        if self.rows is None or all(self.rows.ids[case.row] == case.id for case in cases):
            return self
        return Source(note="Without thumbnails, for the data has changed since the run.")

    def pictured(self, lists: Sequence[Sequence[Case]]) -> tuple[list[list[Example]], str | None]:
        """Lists of rows with their images, and a note where some have to go without."""
        album = _Album(self.rows, self.note, THUMBNAIL_BYTES)
        return [[album.example(case) for case in cases] for cases in lists], album.note


@dataclass
class _Album:
    """Gives thumbnails until they fill the room there is, or the data cannot be read."""

    rows: Examples | None
    note: str | None
    room: int

    def example(self, case: Case) -> Example:
        return Example(replace(case, id=shown(case.id, 200)), *self._seen(case.row))

    def _seen(self, row: int) -> tuple[Thumbnail | None, str | None]:
        """The row's image as the network gets it, which is small already; else its text."""
        if self.rows is None:
            return None, None
        try:
            value: Tensor = self.rows.inputs.fetch(torch.tensor([row]))[0]
            text = None if is_image(value) else as_text(seen(self.rows.inputs, row))
        except (PencilError, OSError) as error:
            self._stop(shown(f"{UNREADABLE}{error}", 600))
            return None, None
        image = thumbnail(value) if is_image(value) else None
        self.room -= len(image.uri) if image is not None else 0
        if self.room < 0:
            self._stop("Some thumbnails are left out, for together they would take too much room.")
            return None, None
        return image, None if text is None else shown(" ".join(text.split()), TEXT)

    def _stop(self, note: str) -> None:
        self.rows, self.note = None, note
