"""The run's data, if it can still be read: for thumbnails and for true labels, if known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from pencil.data import AttachedInputs, Beside, Examples, Image, as_text
from pencil.data import shown as seen
from pencil.errors import PencilError
from pencil.escape import shown
from pencil.report.shortlist import Case
from pencil.report.thumbnails import Thumbnail, is_image, thumbnail
from pencil.run import ChangedDataError, RunDirectory, own_examples, with_originals

THUMBNAIL_BYTES = 3_000_000
"""Maximum size of all thumbnails of a page, so that it can be sent by mail."""
TEXT = 300
"""Maximum number of characters shown of a text."""
UNREADABLE = "No thumbnails: the run's data cannot be read: "


@dataclass(frozen=True)
class Example:
    """A row to show, with a thumbnail of an image, or the text of a text or a record.

    Id and text are already escaped for display.
    """

    case: Case
    thumbnail: Thumbnail | None
    text: str | None = None


@dataclass(frozen=True)
class Source:
    """The training rows, or None with a ``note`` that gives the reason."""

    rows: Examples | None = None
    note: str | None = None

    @classmethod
    def of(
        cls, directory: RunDirectory, *, changed_data: bool = False, beside: Beside | None = None
    ) -> Source:
        """Read the rows a run was trained on. The report works without them, so missing data is no error.

        Args:
            directory: The run.
            changed_data: Whether to accept data that changed since the run.
            beside: Images or texts to show for the rows.

        Raises:
            ChangedDataError: The data changed since the run, and ``changed_data`` is False.
            PencilError: The data or ``beside`` cannot be read; without ``beside``, this becomes the note.
        """
        try:
            found = own_examples(directory, changed_data=changed_data, to_encode=False)
            rows = with_originals(found, beside).train
        except (PencilError, OSError) as error:
            if beside is not None or isinstance(error, ChangedDataError):
                raise
            return cls(note=shown(f"{UNREADABLE}{error}", 600))
        if len(rows) != directory.summary["examples"]:
            return cls(note="No thumbnails: the data has a different number of rows than the run.")
        return cls(rows)

    @property
    def matched(self) -> str | None:
        """How many rows have an attached image or text; None if nothing is attached."""
        attached = None if self.rows is None else self.rows.inputs
        return shown(attached.words, 600) if isinstance(attached, AttachedInputs) else None

    @property
    def truth(self) -> Tensor | None:
        """The true classes (N,), if known."""
        return None if self.rows is None else self.rows.reference

    def checked(self, cases: Sequence[Case]) -> Source:
        """Return this source if the ids of the rows to show match the run; otherwise an empty source."""
        if self.rows is None or all(self.rows.ids[case.row] == case.id for case in cases):
            return self
        return Source(note="No thumbnails: the data has changed since the run.")

    def pictured(self, lists: Sequence[Sequence[Case]]) -> tuple[list[list[Example]], str | None]:
        """Return the lists of rows with thumbnails, and a note if some thumbnails are left out."""
        thumbnails = _Thumbnails(self.rows, self.note, THUMBNAIL_BYTES)
        return [[thumbnails.example(case) for case in cases] for cases in lists], thumbnails.note


@dataclass
class _Thumbnails:
    """Creates thumbnails until the size limit is reached or the data cannot be read."""

    rows: Examples | None
    note: str | None
    room: int

    def example(self, case: Case) -> Example:
        return Example(replace(case, id=shown(case.id, 200)), *self._seen(case.row))

    def _seen(self, row: int) -> tuple[Thumbnail | None, str | None]:
        """The row as people see it, as on the review page: what is attached to it, or else the original."""
        if self.rows is None:
            return None, None
        try:
            original = seen(self.rows.inputs, row)
        except (PencilError, OSError) as error:
            self._stop(shown(f"{UNREADABLE}{error}", 600))
            return None, None
        pixels = original.pixels if isinstance(original, Image) else None
        image = thumbnail(pixels) if pixels is not None and is_image(pixels) else None
        text = as_text(original)
        self.room -= len(image.uri) if image is not None else 0
        if self.room < 0:
            self._stop("Some thumbnails are left out to limit the size of this file.")
            return None, None
        return image, None if text is None else shown(" ".join(text.split()), TEXT)

    def _stop(self, note: str) -> None:
        self.rows, self.note = None, note
