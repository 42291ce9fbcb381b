"""Kinds of data in one table: settings, recognition, readers, default preset, and where the originals are.

A kind of your own is its reader and one entry::

    from typing import Literal

    from pencil.kinds import DataSection, Kind, register

    class TextsData(DataSection):
        kind: Literal["texts"]

    TEXTS = register(Kind("texts", TextsData, read_texts, suffixes=(".txt",), preset="features"))

A package that names the entry under the entry point group ``pencil.kinds`` makes it known to every command, on every
rank and on resume.
"""

from pencil.kinds.kind import Kind
from pencil.kinds.sections import (
    DataSection,
    LabelFile,
    MatrixNoise,
    Noise,
    RateNoise,
    Section,
    TrustedLabels,
)
from pencil.kinds.settings import (
    CifarData,
    DatasetData,
    FeaturesData,
    IdxData,
    ImagesData,
    ShardsData,
    TableData,
    TextData,
)
from pencil.kinds.table import AnyKind, kind_of, kinds, on_change, recognise, register

__all__ = [
    "AnyKind",
    "CifarData",
    "DataSection",
    "DatasetData",
    "FeaturesData",
    "IdxData",
    "ImagesData",
    "Kind",
    "LabelFile",
    "MatrixNoise",
    "Noise",
    "RateNoise",
    "Section",
    "ShardsData",
    "TableData",
    "TextData",
    "TrustedLabels",
    "kind_of",
    "kinds",
    "on_change",
    "recognise",
    "register",
]
