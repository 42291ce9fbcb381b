"""Readers of data that others made, each with small whole files to damage."""

from __future__ import annotations

import csv
import gzip
import io
import json
import pickle
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import torch
from PIL import Image

from faults import mutate
from faults.fuzz_target import RISKY, Target, file_target
from pencil.data import (
    read_cifar,
    read_clothing1m,
    read_cub200,
    read_features,
    read_features_alone,
    read_idx,
    read_image_folder,
    read_label_file,
    read_manifest,
    read_paths_alone,
    read_shards,
    read_trusted_file,
    write_index,
)
from pencil.data.images import ImageDecoder
from pencil.data.shards import Fields
from pencil.data.shards.parquet import scan_parquet
from pencil.data.shards.tar import scan_tar

ROWS = torch.tensor([0, 1])


def targets() -> list[Target]:
    """All of them. Risky are those that people are handed most, and whose formats carry sizes that are believed."""
    return [
        Target("image", _image, RISKY, (mutate.png,)),
        Target("image folder", _folder, changes=(mutate.png,)),
        Target("manifest.csv", _manifest, RISKY, (mutate.table_text,)),
        Target("manifest.parquet", _parquet_manifest),
        Target("features.npy", _features_npy, RISKY, (mutate.npy,)),
        Target(
            "features.npz", _features_npz, RISKY, (mutate.zipped(mutate.npy), mutate.zipped(mutate.blind))
        ),
        Target("labels.csv", _labels("labels.csv", _label_table(), "clean"), changes=(mutate.table_text,)),
        Target("labels.txt", _labels("labels.txt", b"0\n1\n2\n1\n"), changes=(mutate.table_text,)),
        Target("labels.npy", _labels("labels.npy", _npy(np.array([0, 1, 2, 1]))), changes=(mutate.npy,)),
        Target(
            "labels.npz",
            _labels("labels.npz", _npz(a=np.arange(4) % 3, b=np.ones(4)), "a"),
            changes=(mutate.zipped(mutate.npy),),
        ),
        Target(
            "labels.pt",
            _labels("labels.pt", _pt(), "a"),
            changes=(mutate.zipped(mutate.pickled), mutate.zipped(mutate.blind)),
        ),
        Target("trusted.csv", _trusted, changes=(mutate.table_text,)),
        Target("cifar binary", _cifar_binary),
        Target("cifar python", _cifar_python, changes=(mutate.pickled,)),
        Target("idx", _idx(packed=False)),
        Target("idx.gz", _idx(packed=True), changes=(mutate.gzipped,)),
        Target("cub200", _cub200, changes=(mutate.table_text,)),
        Target("clothing1m", _clothing1m, changes=(mutate.table_text,)),
        Target("shard.tar", _tar, RISKY, (mutate.tar,)),
        Target("shard.parquet", _parquet_shard),
        Target("shard index", _shard_index, changes=(mutate.json_text,)),
    ]


def _picture(form: str, mode: str = "RGB", size: int = 6) -> bytes:
    pixels = np.random.default_rng(0).integers(256, size=(size, size, 3), dtype=np.uint8)
    target = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(target, form)
    return target.getvalue()


def _image(folder: Path) -> tuple[list[bytes], Callable[[bytes], object]]:
    seeds = [_picture(form) for form in ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM")]
    seeds += [_picture("PNG", mode) for mode in ("L", "P", "RGBA", "1")]
    sized, plain = ImageDecoder(8, 3), ImageDecoder(None, 1)

    def read(content: bytes) -> None:
        plain.extent(io.BytesIO(content), "image")
        sized.decode(io.BytesIO(content), "image", (8, 8), "first")
        ImageDecoder.original(io.BytesIO(content), "image")

    return seeds, read


def _folder(folder: Path) -> tuple[list[bytes], Callable[[bytes], object]]:
    for name in ("a", "b"):
        (folder / name).mkdir()
        (folder / name / "1.png").write_bytes(_picture("PNG"))
    read = file_target(
        folder / "b" / "1.png", lambda _: read_image_folder(folder, size=8).train.inputs.fetch(ROWS)
    )
    return [_picture("PNG"), _picture("JPEG")], read


def _manifest(folder: Path) -> tuple[list[bytes], Callable[[bytes], object]]:
    for name in ("1.png", "2.png"):
        (folder / name).write_bytes(_picture("PNG"))
    seeds = [
        b"path,label\n1.png,cat\n2.png,dog\n",
        b"path,label,split,trusted\n1.png,cat,train,yes\n2.png,dog,test,no\n",
        b"path,votes\n1.png,cat:3 dog:2\n2.png,dog:1\n",
        b"path,votes_cat,votes_dog\n1.png,3,2\n2.png,0,1\n",
        'path,label\r\n1.png,żółć\r\n2.png,"a,b"\r\n'.encode(),
    ]

    def read(path: Path) -> None:
        read_paths_alone(path)
        read_manifest(path)

    return seeds, file_target(folder / "table.csv", read)


def _written(table: dict[str, list[object]], **options: object) -> bytes:
    target = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(table), target, **options)
    return target.getvalue()


def _parquet_manifest(folder: Path) -> tuple[list[bytes], Callable[[bytes], object]]:
    for name in ("1.png", "2.png"):
        (folder / name).write_bytes(_picture("PNG"))
    seeds = [
        _written({"path": ["1.png", "2.png"], "label": ["a", "b"]}),
        _written(
            {"path": ["1.png", "2.png"], "votes": ["a:1", "b:2"], "trusted": [True, False]},
            compression="none",
        ),
    ]
    return seeds, file_target(folder / "table.parquet", read_manifest)


def _npy(array: np.ndarray) -> bytes:
    target = io.BytesIO()
    np.save(target, array)
    return target.getvalue()


def _npz(**arrays: np.ndarray) -> bytes:
    target = io.BytesIO()
    np.savez(target, **arrays)  # type: ignore[arg-type]  # the stub mistakes arrays for allow_pickle
    return target.getvalue()


def _features_npy(folder: Path) -> tuple[list[bytes], Callable[[bytes], object]]:
    np.save(folder / "labels.npy", np.array([0, 1, 2, 1]))
    seeds = [_npy(np.ones((4, 3), kind)) for kind in ("f4", "f8", "f2", "i8", "u1")]
    seeds.append(_npy(np.asfortranarray(np.ones((4, 3), "f4"))))

    def read(path: Path) -> None:
        read_features_alone(path)
        read_features(path, labels=folder / "labels.npy").train.inputs.fetch(ROWS)

    return seeds, file_target(folder / "features.npy", read)


def _features_npz(folder: Path) -> tuple[list[bytes], Callable[[bytes], object]]:
    values, labels = np.ones((4, 3), "f4"), np.array([0, 1, 2, 1])
    seeds = [
        _npz(X=values, y=labels),
        _npz(
            X=values,
            y=labels,
            X_test=values,
            y_test=labels,
            names=np.array(["a", "b", "c"]),
            ids=np.array(list("wxyz")),
        ),
        _npz(X=values, y=np.ones((4, 3), "f4")),
    ]
    return seeds, file_target(
        folder / "features.npz", lambda path: read_features(path).train.inputs.fetch(ROWS)
    )


def _label_table() -> bytes:
    target = io.StringIO()
    csv.writer(target).writerows(
        [("id", "label", "clean"), ("a", 0, 0), ("b", 1, 2), ("c", 2, 2), ("d", 1, 1)]
    )
    return target.getvalue().encode()


def _pt() -> bytes:
    target = io.BytesIO()
    torch.save({"a": np.array([0, 1, 2, 1]), "b": torch.tensor([0, 1, 2, 1])}, target)
    return target.getvalue()


def _labels(
    name: str, seed: bytes, key: str | None = None
) -> Callable[[Path], tuple[list[bytes], Callable[[bytes], object]]]:
    def make(folder: Path) -> tuple[list[bytes], Callable[[bytes], object]]:
        def read(path: Path) -> object:
            return read_label_file(path, key=key, ids=["a", "b", "c", "d"], class_names=["0", "1", "2"])

        return [seed], file_target(folder / name, read)

    return make


def _trusted(folder: Path) -> tuple[list[bytes], Callable[[bytes], object]]:
    return [b"id,label\na,cat\nb,dog\nc,\n"], file_target(folder / "trusted.csv", read_trusted_file)


def _cifar_binary(folder: Path) -> tuple[list[bytes], Callable[[bytes], object]]:
    record = bytes([1, 2]) + bytes(range(256)) * 12
    (folder / "test.bin").write_bytes(record)
    (folder / "fine_label_names.txt").write_text("\n".join(f"c{number}" for number in range(100)))
    return [record, record * 2], file_target(folder / "train.bin", lambda _: read_cifar(folder, 100))


def _cifar_python(folder: Path) -> tuple[list[bytes], Callable[[bytes], object]]:
    batch = {b"data": np.zeros((2, 3072), np.uint8), b"fine_labels": [1, 2], b"coarse_labels": [0, 1]}
    seeds = [pickle.dumps(batch, protocol) for protocol in (2, 4)]
    (folder / "test").write_bytes(seeds[0])
    (folder / "meta").write_bytes(pickle.dumps({b"fine_label_names": [b"c%d" % n for n in range(100)]}, 2))
    return seeds, file_target(folder / "train", lambda _: read_cifar(folder, 100))


def _idx(*, packed: bool) -> Callable[[Path], tuple[list[bytes], Callable[[bytes], object]]]:
    def make(folder: Path) -> tuple[list[bytes], Callable[[bytes], object]]:
        images = struct.pack(">HBBIII", 0, 8, 3, 3, 4, 4) + bytes(48)
        (folder / "train-labels-idx1-ubyte").write_bytes(struct.pack(">HBBI", 0, 8, 1, 3) + bytes([0, 1, 2]))
        name = f"train-images-idx3-ubyte{'.gz' if packed else ''}"
        seed = gzip.compress(images, mtime=0) if packed else images
        return [seed], file_target(folder / name, lambda _: read_idx(folder))

    return make


def _cub200(folder: Path) -> tuple[list[bytes], Callable[[bytes], object]]:
    files = {
        "classes.txt": "1 001.Albatross\n2 002.Owl\n",
        "images.txt": "1 001.Albatross/a.jpg\n2 002.Owl/b.jpg\n",
        "image_class_labels.txt": "1 1\n2 2\n",
        "train_test_split.txt": "1 1\n2 0\n",
    }
    (folder / "images" / "001.Albatross").mkdir(parents=True)
    (folder / "images" / "001.Albatross" / "a.jpg").write_bytes(_picture("JPEG"))
    return _many(folder, files, lambda: read_cub200(folder, size=8))


def _clothing1m(folder: Path) -> tuple[list[bytes], Callable[[bytes], object]]:
    files = {
        "noisy_label_kv.txt": "images/0/a.jpg 3\nimages/0/b.jpg 1\n",
        "clean_label_kv.txt": "images/0/a.jpg 3\nimages/0/b.jpg 1\n",
        "noisy_train_key_list.txt": "images/0/a.jpg\n",
        "clean_test_key_list.txt": "images/0/b.jpg\n",
        "clean_val_key_list.txt": "images/0/a.jpg\n",
    }
    (folder / "images" / "0").mkdir(parents=True)
    for name in ("a", "b"):
        (folder / "images" / "0" / f"{name}.jpg").write_bytes(_picture("JPEG"))
    return _many(folder, files, lambda: read_clothing1m(folder, size=8))


def _many(
    folder: Path, files: dict[str, str], read: Callable[[], object]
) -> tuple[list[bytes], Callable[[bytes], object]]:
    """Several text files as one, of which any may be damaged."""
    seed = "\0".join(files.values()).encode()

    def attempt(content: bytes) -> None:
        parts = content.split(b"\0")
        for place, name in enumerate(files):
            (folder / name).write_bytes(parts[place] if place < len(parts) else b"")
        read()

    return [seed], attempt


def _tar(folder: Path) -> tuple[list[bytes], Callable[[bytes], object]]:
    seeds = []
    for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        target = io.BytesIO()
        with tarfile.open(fileobj=target, mode="w", format=form) as archive:
            for name, content in {
                "a.png": _picture("PNG"),
                "a.cls": b"1",
                "b.npy": _npy(np.ones(3)),
                "b.json": b'{"label": 2}',
                f"{'c' * (90 if form == tarfile.USTAR_FORMAT else 120)}.txt": b"x",
            }.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        seeds.append(target.getvalue())
    return seeds, file_target(
        folder / "shard.tar", lambda path: scan_tar(path, Fields(ignore=frozenset({"txt"})))
    )


def _parquet_shard(folder: Path) -> tuple[list[bytes], Callable[[bytes], object]]:
    seeds = [
        _written({"image": [_picture("PNG")] * 3, "label": [0, 1, 2]}, row_group_size=2, compression="none"),
        _written({"features": [[1.0, 2.0]] * 3, "label": ["a", "b", "c"], "id": ["x", "y", "z"]}),
    ]
    return seeds, file_target(folder / "shard.parquet", lambda path: scan_parquet(path, Fields()))


def _shard_index(folder: Path) -> tuple[list[bytes], Callable[[bytes], object]]:
    with tarfile.open(folder / "s.tar", "w") as archive:
        for name, content in {
            "a.png": _picture("PNG"),
            "a.cls": b"1",
            "b.png": _picture("PNG"),
            "b.cls": b"0",
        }.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    write_index({"train": [str(folder / "s.tar")]}, folder / "index")
    file = folder / "index" / "shards.json"

    def read(_: Path) -> None:
        found = read_shards(folder / "index", size=8)
        found.train.inputs.fetch(ROWS)
        assert len(found.train.ids[0])

    return [file.read_bytes(), json.dumps(json.loads(file.read_bytes())).encode()], file_target(file, read)
