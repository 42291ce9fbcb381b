"""Shards and indexes that somebody made to do harm."""

import io
import json
import tarfile
import time

import pytest
import torch

from pencil.data.shards import ShardIndex, read_shards, write_index
from pencil.errors import DataError

pytestmark = pytest.mark.slow


@pytest.fixture
def index(image_shards, tmp_path):
    """An index of four shards, and a way to change what it says."""
    write_index({"train": [str(image_shards(tmp_path / "data"))]}, tmp_path / "index")
    manifest = tmp_path / "index" / "shards.json"

    def change(edit):
        table = json.loads(manifest.read_text())
        edit(table)
        manifest.write_text(json.dumps(table))
        return tmp_path / "index"

    return change


@pytest.mark.parametrize(
    "edit",
    [
        lambda table: table.update(splits={"../../etc/x": table["splits"]["train"]}),
        lambda table: table["splits"].pop("train"),
        lambda table: table["splits"]["train"][0].update(rows="5"),
        lambda table: table["splits"]["train"][0].update(rows=-5),
        lambda table: table["splits"]["train"][0].update(rows=10**30),
        lambda table: [shard.update(rows=2**59) for shard in table["splits"]["train"]],
        lambda table: table["splits"]["train"][0].update(bytes=True),
        lambda table: table["splits"]["train"][0].update(url=["a"]),
        lambda table: table["splits"]["train"][0].update(url="a\0b"),
        lambda table: table["splits"]["train"][0].update(groups=[None]),
        lambda table: table["splits"]["train"][0].update(more=1),
        lambda table: table.update(format="pickle"),
        lambda table: table.update(kind="features", dtype="O"),
        lambda table: table.update(kind="features", dtype="no such type"),
        lambda table: table.update(shape=[-1]),
        lambda table: table.update(classes=["a", "a", "b"]),
        lambda table: table.update(classes=[1, 2, 3]),
        lambda table: table.update(classes=[]),
        lambda table: table.update(column=[]),
        lambda table: table.update(splits=[]),
    ],
)
def test_an_index_that_says_what_no_index_says(index, edit):
    with pytest.raises(
        DataError, match=r"shards.json: cannot be read as an index of shards .*write it again"
    ):
        ShardIndex.open(index(edit))


@pytest.mark.parametrize("text", ["[" * 100_000, "{", "\xff", f'{{"version": {"1" * 5000}}}', "null", "[]"])
def test_an_index_that_is_no_json(index, text):
    folder = index(lambda table: None)
    (folder / "shards.json").write_bytes(text.encode("latin1"))
    with pytest.raises(DataError, match=r"shards.json: .*write it again"):
        ShardIndex.open(folder)


@pytest.mark.parametrize(
    "url",
    [
        "/etc/hostname",
        "../../x.tar",
        "http://169.254.169.254/a.tar",
        "file:///etc/hostname",
        "zip://a::http://b",
    ],
)
def test_an_index_leads_nowhere_else(index, url, monkeypatch):
    monkeypatch.delenv("PENCIL_ALLOW", raising=False)
    monkeypatch.setattr("pencil.data.shards.remote.filesystem", lambda url: pytest.fail(f"asked {url}"))
    folder = index(lambda table: table["splits"]["train"][0].update(url=url))
    with pytest.raises(DataError, match=r"shards.json: names 1 shards outside"):
        read_shards(folder)


@pytest.mark.parametrize(
    ("array", "row", "value"), [("offsets", 0, 2**60), ("sizes", 1, 2**60), ("offsets", 2, -1)]
)
def test_places_that_no_shard_has(index, array, row, value):
    folder = index(lambda table: None)
    file = folder / f"train-{array}.bin"
    content = bytearray(file.read_bytes())
    content[8 * row : 8 * row + 8] = value.to_bytes(8, "little", signed=True)
    file.write_bytes(content)
    inputs = read_shards(folder, size=4).train.inputs
    with pytest.raises(DataError, match=r"0000.tar, sample .*outside the shard; write the index again"):
        inputs.fetch(torch.tensor([row]))


def test_a_label_that_is_no_class(index):
    folder = index(lambda table: None)
    file = folder / "train-labels.bin"
    file.write_bytes(file.read_bytes()[:-8] + (99).to_bytes(8, "little"))
    with pytest.raises(DataError, match=r"train-labels.bin: row 19 has label 99, but there are 3 classes"):
        read_shards(folder)


def member(name, kind=tarfile.REGTYPE, content=b"", **fields):
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, io.BytesIO(content)


@pytest.mark.parametrize(
    "made",
    [
        member("a.png", tarfile.SYMTYPE, linkname="/etc/hostname"),
        member("a.png", tarfile.LNKTYPE, linkname="../x.png"),
        member("a.png", tarfile.FIFOTYPE),
        member("a.png", tarfile.CHRTYPE, devmajor=1, devminor=5),
        member("/etc/a.png"),
        member("../a.png"),
        member("x/../../a.png"),
        member("\\a.png"),
    ],
    ids=["symlink", "link", "pipe", "device", "absolute", "up", "up inside", "backslash"],
)
def test_members_that_lead_elsewhere_are_refused_and_nothing_is_extracted(tmp_path, made, monkeypatch):
    monkeypatch.setattr("tarfile.TarFile._extract_member", lambda *_, **__: pytest.fail("it was extracted"))
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.addfile(*made)
    with pytest.raises(DataError, match=r"a.tar: '.*a.png' is not a plain file named .*leave out links"):
        write_index({"train": [str(tmp_path / "a.tar")]}, tmp_path / "index")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar"]


def test_headers_that_follow_one_another_without_end(tmp_path):
    header = tarfile.TarInfo("././@LongLink")
    header.type = tarfile.GNUTYPE_LONGNAME
    (tmp_path / "a.tar").write_bytes(header.tobuf(tarfile.GNU_FORMAT) * 20_000)
    with pytest.raises(DataError, match=r"a.tar: cannot be read as a tar file .*copy it again"):
        write_index({"train": [str(tmp_path / "a.tar")]}, tmp_path / "index")


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.json", b'{"label":' + b"[" * 99999), ("a.json", b" " * (1 << 21)), ("a.cls", b"1" * (1 << 21))],
)
def test_labels_that_never_end(tmp_path, tar, png, name, content):
    tar(tmp_path / "a.tar", [("a.png", png()), (name, content)])
    with pytest.raises(DataError, match=r"a.tar: sample 'a': its "):
        write_index({"train": [str(tmp_path / "a.tar")]}, tmp_path / "index")


def test_a_class_number_far_beyond_the_rows_names_its_shard(tmp_path, tar, png):
    tar(tmp_path / "a.tar", [("a.png", png()), ("a.cls", b"0"), ("b.png", png()), ("b.cls", b"50000000")])
    with pytest.raises(DataError, match=r"a.tar: label 50000000 is no class number: there are 2 rows"):
        write_index({"train": [str(tmp_path / "a.tar")]}, tmp_path / "index")


def test_a_value_stored_once_does_not_fill_memory_from_every_row(tmp_path, monkeypatch):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("pencil.data.shards.parquet.MOST_BYTES", 1 << 20)
    table = arrow.table({"image": [bytes(100_000)] * 10_000, "label": [0] * 10_000})
    parquet.write_table(table, tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < 200_000
    with pytest.raises(
        DataError, match=r"a.parquet: .*row group 0 takes more than [\d,]+ bytes.*smaller row groups"
    ):
        write_index({"train": [str(tmp_path / "a.parquet")]}, tmp_path / "index")


@pytest.mark.parametrize("size", [2**40, 2**80])
def test_a_file_that_claims_to_be_longer_than_its_tar_takes_no_time(tmp_path, size):
    member = tarfile.TarInfo("a.png")
    member.size = size
    (tmp_path / "a.tar").write_bytes(member.tobuf(tarfile.GNU_FORMAT) + b"x" * 512)
    begun = time.process_time()
    with pytest.raises(DataError, match=r"a\.tar.*a file in it is longer than the tar"):
        write_index({"train": [str(tmp_path / "a.tar")]}, tmp_path / "index")
    assert time.process_time() - begun < 10  # to read on to the end that it claims would take years
