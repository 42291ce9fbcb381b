"""Settings of the built-in kinds of data."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from pencil.data.encoding import ColumnEncoding
from pencil.data.sampler import WINDOW
from pencil.data.shards.inputs import CACHE_BYTES
from pencil.kinds.sections import DataSection

COLUMNS = (
    "names of columns by role (text, path, label, id, ...), if they are not the usual ones; an empty name leaves a "
    "role out"
)


class FeaturesData(DataSection):
    """Feature arrays, .npz or .npy, or a column of lists in a Parquet, Arrow or JSON lines file."""

    kind: Literal["features"]
    labels: str | None = Field(
        default=None,
        description="a file of labels for the rows of an .npz or .npy: .npy, .npz, .txt, or .csv, by id if both have "
        "ids",
    )
    keys: dict[str, str] = Field(
        default_factory=dict,
        description="names of the arrays of an .npz by role, if they are not the usual ones",
    )
    columns: dict[str, str] = Field(
        default_factory=dict, description=f"of a file with a column of lists: {COLUMNS}"
    )


class TextData(DataSection):
    """Texts with labels: columns text, label, id, split, votes, trusted of a CSV, JSON lines, Parquet or Arrow file."""

    kind: Literal["text"]
    columns: dict[str, str] = Field(default_factory=dict, description=COLUMNS)


class TableData(DataSection):
    """Numbers and categories with a label column in a CSV, JSON lines, Parquet or Arrow file."""

    kind: Literal["table"]
    columns: dict[str, str] = Field(default_factory=dict, description=COLUMNS)
    encoding: tuple[ColumnEncoding, ...] = Field(
        default=(), description="how columns become features; fitted to the training rows when a run begins"
    )


class CifarData(DataSection):
    """CIFAR-10 or CIFAR-100 in the official binary or python layout."""

    kind: Literal["cifar10", "cifar100"]
    coarse: bool = Field(default=False, description="CIFAR-100's 20 superclasses in place of its 100 classes")


class IdxData(DataSection):
    """MNIST's and Fashion-MNIST's IDX files."""

    kind: Literal["idx"]
    class_names: tuple[str, ...] | None = Field(
        default=None, description="names of the classes; None: 0, 1, ..."
    )


class ImagesData(DataSection):
    """Image files: a folder per class, a CSV or Parquet manifest, CUB-200-2011 or Clothing1M as published.

    A manifest has columns path, label, split, votes, trusted.
    """

    kind: Literal["folder", "manifest", "cub200", "clothing1m"]
    size: int | None = Field(
        default=None,
        ge=1,
        description="resize to size × size; None: keep the size, which must be the same for all",
    )
    channels: Literal[1, 3] = Field(default=3, description="3: colour; 1: grey")
    columns: dict[str, str] = Field(default_factory=dict, description=f"of a manifest: {COLUMNS}")


class ShardsData(DataSection):
    """Tar or Parquet shards, local or remote; path is the folder that pencil index wrote."""

    kind: Literal["shards"]
    size: int | None = Field(
        default=None,
        ge=1,
        description="resize images to size × size; None: keep the size, which must be the same for all",
    )
    channels: Literal[1, 3] = Field(default=3, description="3: colour; 1: grey")
    window: int = Field(default=WINDOW, ge=1, description="shards whose rows are shuffled together")
    missing_shards: Literal["error", "skip"] = Field(
        default="error", description="skip: leave out the rows of shards that are missing or incomplete"
    )
    cache: str | None = Field(
        default=None, description="folder for remote shards; None: the user's cache folder"
    )
    cache_bytes: int = Field(
        default=CACHE_BYTES, ge=1, description="the most bytes that remote shards may take there"
    )


class DatasetData(DataSection):
    """Your own: path names a function, ``package.module:function``, that returns pencil.data.Splits."""

    kind: Literal["python"]
    args: dict[str, Any] = Field(default_factory=dict, description="arguments of the function")
