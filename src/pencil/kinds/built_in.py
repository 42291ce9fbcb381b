"""The built-in kinds: how each is recognised and read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

from pencil.data import (
    Splits,
    Unlabelled,
    read_cifar,
    read_clothing1m,
    read_cub200,
    read_features,
    read_features_alone,
    read_idx,
    read_image_folder,
    read_images_alone,
    read_manifest,
    read_paths_alone,
    read_records,
    read_records_alone,
    read_shards,
    read_texts,
    read_texts_alone,
)
from pencil.data.columns import FOLDERS, SUFFIXES
from pencil.data.encoding import words
from pencil.data.readers.cub200 import images_folder
from pencil.data.readers.records import fit_records
from pencil.data.readers.texts import texts_in
from pencil.data.readers.vectors import read_vectors, read_vectors_alone
from pencil.data.recognise import holds
from pencil.data.shards import MANIFEST, ShardIndex
from pencil.errors import ConfigError, DataError
from pencil.imports import import_object, users_code
from pencil.kinds.kind import Kind
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

IMPORT_PATH = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
THUMBNAIL = 32  # pixels; the fingerprint of images that are embedded is taken at this size
COLUMN_KINDS = ("manifest", "text", "table")
ARRAYS = (".npz", ".npy")
IMAGE_FILES = ("folder", "manifest", "cub200", "clothing1m")


def has_columns(kind: Kind, path: str) -> bool:
    """Whether data of this kind is a file of columns, which other kinds can read too."""
    return kind.name in COLUMN_KINDS or (kind.name == "features" and Path(path).suffix.lower() not in ARRAYS)


def _call(data: DatasetData, _: Path) -> Splits:
    function = import_object(data.path, field="data.path")
    with users_code("data.path", data.path):
        splits = function(**data.args)
    if not isinstance(splits, Splits):
        raise ConfigError(
            f"data.path: {data.path} returned {type(splits).__name__}; it must return pencil.data.Splits"
        )
    return splits


def _all_used(data: FeaturesData, path: Path) -> FeaturesData:
    """The same settings; those that the format of the file does not use are an error.

    Only when a run begins: new data in another format is read with the settings of a run.
    """
    if path.suffix.lower() not in ARRAYS:
        _check_no_labels(data, path)
        if data.keys:
            raise ConfigError(
                f"data.keys: {path} has columns, not arrays; name them by role: --set data.columns.ROLE=NAME"
            )
    elif data.columns:
        remedy = (
            "leave it out"
            if path.suffix.lower() == ".npy"
            else "name them by role: --set data.keys.ROLE=NAME"
        )
        raise ConfigError(f"data.columns: {path} has arrays, not columns; {remedy}")
    return data


def _check_no_labels(data: FeaturesData, path: Path) -> None:
    if data.labels is not None:
        raise ConfigError(
            f"data.labels: {data.labels!r} is not used, because the labels of {path} are a column of it; leave it out, "
            "and name the column: --set data.columns.label=NAME"
        )


def _features(data: FeaturesData, path: Path) -> Splits:
    if path.suffix.lower() not in ARRAYS:
        _check_no_labels(data, path)
        return read_vectors(path, columns=data.columns, on_error=data.on_error)
    if path.suffix == ".npy" and data.labels is None:
        raise DataError(f"data.labels: missing; {path} holds features alone: --set data.labels=FILE")
    labels = None if data.labels is None else Path(data.labels).expanduser()
    return read_features(path, labels=labels, keys=data.keys, on_error=data.on_error)


def _features_alone(data: FeaturesData, path: Path) -> Unlabelled | None:
    if path.suffix.lower() not in ARRAYS:
        return read_vectors_alone(path, data.columns)
    return read_features_alone(path, data.keys, data.on_error) if data.labels is None else None


def _without_columns(data: ImagesData, path: Path) -> ImagesData:
    """The same settings; columns are an error, because labels of these images are not in a table."""
    if data.columns:
        raise ConfigError(
            f"data.columns: {path} is read as {data.kind!r}, which has no columns; leave it out, or train on a file "
            "with a column of paths and one of labels"
        )
    return data


def _manifest(data: ImagesData, path: Path) -> Splits:
    return read_manifest(path, **_sized(data), on_error=data.on_error, columns=data.columns)


def _fitted(data: TableData, path: Path) -> TableData:
    """With the encoding of the columns, fitted to the rows to train on."""
    if data.encoding:
        return data
    return data.model_copy(update={"encoding": fit_records(path, data.columns, data.on_error)})


def _shards(data: ShardsData, path: Path) -> Splits:
    return read_shards(
        path,
        **_sized(data),
        missing=data.missing_shards,
        cache=data.cache,
        cache_bytes=data.cache_bytes,
    )


def _shards_of_images(path: Path) -> str | None:
    """Shards hold images or features."""
    return None if ShardIndex.open(path.expanduser()).kind == "features" else "images"


def _shards_preset(path: str) -> str:
    return "features" if _shards_of_images(Path(path)) is None else "shards"


def _cifar(data: CifarData, path: Path) -> Splits:
    label: Literal["coarse", "fine"] = "coarse" if data.coarse else "fine"
    return read_cifar(path, num_classes=10 if data.kind == "cifar10" else 100, label=label)


def _sized(data: ImagesData | ShardsData) -> dict[str, Any]:
    """How images are read. An encoder takes them as they are stored; the size given here is then that of thumbnails."""
    size = THUMBNAIL if data.size is None and data.embed is not None else data.size
    return {"size": size, "channels": data.channels}


BUILT_IN = (
    Kind(
        "python",
        DatasetData,
        _call,
        recognise=lambda path: IMPORT_PATH.fullmatch(str(path)) is not None and not path.exists(),
        own=("args",),
        is_code=True,
    ),
    Kind(
        "features",
        FeaturesData,
        _features,
        suffixes=(*ARRAYS, *SUFFIXES),
        signs=FOLDERS,
        holds=lambda path: path.suffix.lower() in ARRAYS or holds(path) == "features",
        read_unlabelled=_features_alone,
        preset="features",
        any_preset=False,
        own=("labels",),
        same_files=(*COLUMN_KINDS, "features"),
        resolve=_all_used,
    ),
    Kind(
        "manifest",
        ImagesData,
        _manifest,
        suffixes=SUFFIXES,
        signs=FOLDERS,
        holds=lambda path: holds(path) == "manifest",
        read_unlabelled=lambda data, path: read_paths_alone(path, **_sized(data), columns=data.columns),
        preset="manifest",
        any_preset=False,
        embeds=lambda _: "images",
        like=(*IMAGE_FILES, "shards"),
        same_files=(*COLUMN_KINDS, "features"),
        originals=lambda path: path.parent,
    ),
    Kind(
        "text",
        TextData,
        lambda data, path: read_texts(path, columns=data.columns, on_error=data.on_error),
        suffixes=SUFFIXES,
        signs=FOLDERS,
        holds=lambda path: holds(path) == "text",
        read_unlabelled=lambda data, path: read_texts_alone(path, data.columns),
        preset="text",
        any_preset=False,
        embeds=lambda _: "texts",
        same_files=(*COLUMN_KINDS, "features"),
        describe=lambda data, path: (
            f"texts in the column {texts_in(path, data.columns)!r}; for numbers and categories: --set data.kind=table"
        ),
    ),
    Kind(
        "table",
        TableData,
        lambda data, path: read_records(
            path, columns=data.columns, encoding=data.encoding, on_error=data.on_error
        ),
        suffixes=SUFFIXES,
        signs=FOLDERS,
        holds=lambda path: holds(path) == "table",
        read_unlabelled=lambda data, path: read_records_alone(path, data.columns, data.encoding),
        preset="table",
        any_preset=False,
        same_files=(*COLUMN_KINDS, "features"),
        resolve=_fitted,
        resolved=("encoding",),
        describe=lambda data, _: f"a table with {words(data.encoding)}",
    ),
    Kind(
        "shards",
        ShardsData,
        _shards,
        recognise=lambda path: (path / MANIFEST).is_file(),
        preset=_shards_preset,
        embeds=_shards_of_images,
        like=IMAGE_FILES,
        own=("cache",),
    ),
    Kind(
        "cifar100",
        CifarData,
        _cifar,
        signs=("cifar-100-*", "fine_label_names.txt"),
        preset="cifar100",
        any_preset=False,
    ),
    Kind(
        "cifar10",
        CifarData,
        _cifar,
        signs=("cifar-10-*", "data_batch_1*"),
        preset="cifar10",
        any_preset=False,
    ),
    Kind(
        "idx",
        IdxData,
        lambda data, path: read_idx(path, data.class_names),
        signs=("*-images-idx3-ubyte*", "*-images.idx3-ubyte*"),
        preset="idx",
        any_preset=False,
    ),
    Kind(
        "cub200",
        ImagesData,
        lambda data, path: read_cub200(path, **_sized(data)),
        signs=("image_class_labels.txt", "CUB_200_2011/image_class_labels.txt"),
        preset="paper:cub200-lambda3000-alpha0",
        any_preset=False,
        like=IMAGE_FILES,
        resolve=_without_columns,
        originals=images_folder,
    ),
    Kind(
        "clothing1m",
        ImagesData,
        lambda data, path: read_clothing1m(path, **_sized(data)),
        signs=("noisy_label_kv.txt", "annotations/noisy_label_kv.txt"),
        preset="paper:clothing1m",
        any_preset=False,
        like=IMAGE_FILES,
        resolve=_without_columns,
        originals=lambda path: path,
    ),
    Kind(
        "folder",
        ImagesData,
        lambda data, path: read_image_folder(path, **_sized(data)),
        recognise=Path.is_dir,
        read_unlabelled=lambda data, path: read_images_alone(path, **_sized(data)),
        preset="folder",
        any_preset=False,
        embeds=lambda _: "images",
        like=(*IMAGE_FILES, "shards"),
        resolve=_without_columns,
        originals=lambda path: path,
    ),
)
"""In the order in which they are tried: the first that recognises a path takes it, and a folder may be anything."""
