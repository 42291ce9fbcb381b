"""One kind of data: everything the rest of the package needs to know about it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, get_args

from pencil.data import Splits, Unlabelled
from pencil.errors import ConfigError
from pencil.kinds.sections import DataSection

Read = Callable[[Any, Path], Splits]
"""Called with the settings and the path of the data, with ``~`` expanded."""


@dataclass(frozen=True)
class Kind:
    """An entry of the table.

    Attributes:
        name: What settings call it, as ``data.kind``.
        section: Its settings. The annotation of its field ``kind`` is a ``Literal`` that holds the name.
        read: Reads examples with labels: ``read(settings, path)`` returns ``Splits``.
        suffixes: Files with these endings are of this kind.
        signs: Folders that hold a file or folder matching one of these patterns are of this kind.
        holds: Of files and folders with these endings or signs, which are of this kind. None: all.
        recognise: Any other test of a path.
        read_unlabelled: Reads rows to predict that have no labels; returns None for data that has labels.
        preset: The settings to start from: the name of a preset, or a function of the data's path that returns a name
            or a ``RunConfig``. None if the user has to choose.
        any_preset: Whether the presets of other kinds can be used too. Its own section then replaces theirs.
        like: Other kinds whose settings it can be read with, when predicting.
        own: Settings that belong to one data set, and not to others that are read in the same way.
        embeds: What its rows are to an encoder, "images" or "texts", from the path of the data; None for features.
        same_files: Other kinds that read the same files; new data is read as the kind that a run was trained on.
        resolve: Fills in settings that depend on the data, once, when a run begins: ``resolve(settings, path)`` returns
            the settings to store with the run.
        resolved: The names of those settings.
        describe: A line about how the data is read, from the resolved settings and the path.
        originals: The folder that ids are relative to, from the path of the data. None if ids are not files.
        is_code: Whether the path is an import path, and reading runs code.
    """

    name: str
    section: type[DataSection]
    read: Read
    _: KW_ONLY
    suffixes: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    holds: Callable[[Path], bool] | None = None
    recognise: Callable[[Path], bool] | None = None
    read_unlabelled: Callable[[Any, Path], Unlabelled | None] | None = None
    preset: str | Callable[[str], Any] | None = None
    any_preset: bool = True
    like: Collection[str] = ()
    own: Collection[str] = ()
    embeds: Callable[[Path], str | None] = lambda _: None
    same_files: Collection[str] = ()
    resolve: Callable[[Any, Path], DataSection] | None = None
    resolved: Collection[str] = ()
    describe: Callable[[Any, Path], str] | None = None
    originals: Callable[[Path], Path] | None = None
    is_code: bool = False

    def __post_init__(self) -> None:
        field = self.section.model_fields.get("kind")
        if field is None or self.name not in get_args(field.annotation):
            raise ConfigError(
                f"kind {self.name!r}: {self.section.__name__}.kind must be annotated as Literal[{self.name!r}]"
            )

    def recognises(self, path: Path) -> bool:
        """Whether the data at a path is of this kind."""
        looks_like = path.suffix.lower() in self.suffixes or any(
            next(path.glob(pattern), None) for pattern in self.signs
        )
        if looks_like and (self.holds is None or self.holds(path)):
            return True
        return self.recognise is not None and self.recognise(path)

    def folder(self, path: str) -> str:
        """What to put before an id to get the path of its original: a folder with a slash, or nothing."""
        place = Path(path).expanduser().resolve()
        return "" if self.originals is None else f"{self.originals(place)}/"
