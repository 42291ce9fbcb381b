"""The display form of an example: its image as PNG, or its text."""

from __future__ import annotations

import threading
from functools import cached_property

import torch
from torch import Tensor

from pencil.data import AttachedInputs, Beside, Examples, Image, Shown, as_text, shown
from pencil.data.pixels import as_pixels, encode_png
from pencil.errors import DataError, PencilError
from pencil.run import ChangedDataError, RunDirectory, rows_to_show

LONGEST = 1024  # pixels; larger than a page shows
LONGEST_TEXT = 20_000  # characters; the rest of a text is not shown


def open_pictures(
    directory: RunDirectory, *, changed_data: bool, beside: Beside | None = None
) -> tuple[Pictures | None, str | None]:
    """The images or texts of a run, None for plain numbers; and why some or all cannot be shown.

    Args:
        directory: The run.
        changed_data: Whether to show data that changed after training.
        beside: Images or texts to show instead of what the data has.

    Raises:
        ChangedDataError: The data changed since the run, and ``changed_data`` is False.
        PencilError: The data or ``beside`` cannot be read; without ``beside``, this is returned as the reason.
    """
    try:
        pictures = Pictures(rows_to_show(directory, changed_data=changed_data, beside=beside).train)
        return (pictures if pictures.are_images or pictures.are_texts else None), pictures.trouble
    except PencilError as error:
        if beside is not None or isinstance(error, ChangedDataError):
            raise
        return None, f"no images are shown: {error}"


class Pictures:
    """The images or texts of a run's training rows."""

    def __init__(self, examples: Examples) -> None:
        self._examples = examples
        self._attached = examples.inputs if isinstance(examples.inputs, AttachedInputs) else None
        self._lock = threading.Lock()  # readers keep files open and are not thread-safe

    @property
    def are_images(self) -> bool:
        """Whether rows are shown as images."""
        return isinstance(self._first, Image)

    @property
    def matched(self) -> str | None:
        """How many rows have an attached image or text; None if nothing is attached."""
        return None if self._attached is None else self._attached.words

    @property
    def trouble(self) -> str | None:
        """How many rows have no attached image or text; None if all have one."""
        if self._attached is None or not self._attached.missing:
            return None
        return f"{self._attached.missing:,} rows have no {self._attached.beside.kind.removesuffix('s')}"

    @property
    def are_texts(self) -> bool:
        """Whether rows are shown as texts."""
        return as_text(self._first) is not None

    def png(self, row: int, row_id: str, longest: int | None = None) -> bytes | None:
        """The image of a row, no side longer than ``longest`` pixels; None if the inputs are not images.

        Raises:
            DataError: The data now has another id at this row number.
        """
        found = self._checked(row, row_id)
        return (
            encode_png(shrunk(as_pixels(found.pixels), longest or LONGEST))
            if isinstance(found, Image)
            else None
        )

    def text(self, row: int, row_id: str) -> str | None:
        """The text of a row, shortened if it is very long; None if the inputs are not texts or records.

        Raises:
            DataError: See ``png``.
        """
        found = as_text(self._checked(row, row_id))
        return None if found is None else found[:LONGEST_TEXT]

    @cached_property
    def _first(self) -> Shown | None:
        entries = () if self._attached is None else self._attached.entries
        first = next((row for row, entry in enumerate(entries) if entry is not None), 0)
        return self._fetch(first) if len(self._examples) else None

    def _checked(self, row: int, row_id: str) -> Shown | None:
        found = self._examples.ids[row] if row < len(self._examples) else None
        if found != row_id:
            raise DataError(
                f"row {row} is {found!r} in the data now, but was {row_id!r}; restore the data of the run"
            )
        return self._fetch(row)

    def _fetch(self, row: int) -> Shown | None:
        with self._lock:
            return shown(self._examples.inputs, row)


def shrunk(pixels: Tensor, longest: int = LONGEST) -> Tensor:
    """Scale an image down so that no side exceeds ``longest`` pixels."""
    height, width = pixels.shape[1:]
    scale = longest / max(height, width)
    if scale >= 1:
        return pixels
    size = (max(1, round(height * scale)), max(1, round(width * scale)))
    small = torch.nn.functional.interpolate(pixels[None].float(), size=size, mode="area")[0]
    return small.round().to(torch.uint8)
