"""``pencil index`` as people and programs meet it, and what the other commands make of its folder."""

import io
import json
import tarfile

import numpy as np
import pytest
from PIL import Image

from pencil.config import RunConfig
from pencil.configure import data_section, train_config
from pencil.errors import ConfigError, DataError
from pencil.kinds import recognise
from pencil.presets import preset

pytestmark = pytest.mark.slow


def write(path, files):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def encoded(save, *values):
    buffer = io.BytesIO()
    save(buffer, *values)
    return buffer.getvalue()


@pytest.fixture
def images(tmp_path):
    png = encoded(lambda buffer: Image.new("RGB", (4, 4)).save(buffer, "PNG"))
    for shard in range(3):
        files = {
            f"{row}.{ending}": value
            for row in range(2)
            for ending, value in (("png", png), ("cls", b"%d" % row))
        }
        write(tmp_path / f"data/{shard}.tar", files)
    return tmp_path / "data"


@pytest.fixture
def features(tmp_path):
    rng = np.random.default_rng(0)
    for shard in range(4):
        files = {}
        for row in range(30):
            label = row % 3
            files[f"{row}.npy"] = encoded(
                np.save, (5 * np.eye(6)[label] + rng.normal(size=6)).astype(np.float32)
            )
            files[f"{row}.json"] = json.dumps({"species": ["ant", "bee", "cat"][label]}).encode()
        write(tmp_path / f"vectors/{shard}.tar", files)
    return tmp_path / "vectors"


def test_the_result_is_one_line_of_json_and_progress_goes_elsewhere(pencil, images, tmp_path):
    result = pencil("index", images, "--test", images / "2.tar", "--out", tmp_path / "index", "--json")
    assert isinstance(result.exception, DataError)  # one shard in two splits
    words = (
        "index",
        images / "0.tar",
        images / "1.tar",
        "--test",
        images / "2.tar",
        "--out",
        tmp_path / "index",
    )
    result = pencil(*words, "--json")
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    assert told.pop("seconds") >= 0
    assert told.pop("bytes") == sum(file.stat().st_size for file in images.iterdir())
    rows = {"train": 4, "test": 2}
    assert told == {"out": str(tmp_path / "index"), "shards": 3, "rows": rows, "classes": 2}
    assert result.stderr.splitlines()[-1] == "3 of 3 shards, 6 rows, 0:00 left"


def test_people_are_told_what_is_next(pencil, images, tmp_path):
    result = pencil("index", images, "--out", tmp_path / "index", "--quiet")
    assert result.exit_code == 0
    assert "6 train" in result.stdout
    assert result.stderr.splitlines() == [f"next: pencil train {tmp_path / 'index'}"]


def test_checksums_are_compared(pencil, images, tmp_path):
    assert pencil("index", images, "--out", tmp_path / "index").exit_code == 0
    result = pencil("index", tmp_path / "index", "--check", "--json")
    assert json.loads(result.stdout) == {"index": str(tmp_path / "index"), "shards": 3, "damaged": 0}
    file = images / "1.tar"
    content = bytearray(file.read_bytes())
    content[600] ^= 1
    file.write_bytes(content)
    result = pencil("index", tmp_path / "index", "--check", "--quiet")
    assert isinstance(result.exception, DataError)
    assert str(result.exception).startswith("1 shards are missing or damaged; restore them:\n  1.tar: ")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "--out: missing"),
        (("b", "--check"), "--check: give one index"),
        (("--check", "--out", "b"), "--check: reads an index and cannot be combined with --out"),
        (("--check", "--test", "b"), "cannot be combined with --test"),
        (("--check", "--ignore", "txt"), "cannot be combined with --ignore"),
    ],
)
def test_what_is_missing_is_told(pencil, images, words, told):
    result = pencil("index", images, *words)
    assert isinstance(result.exception, ConfigError)
    assert told in str(result.exception)


def test_the_folder_is_recognised_and_chooses_the_settings_for_its_inputs(pencil, images, features, tmp_path):
    pencil("index", images, "--out", tmp_path / "images")
    pencil("index", features, "--out", tmp_path / "features", "--label-field", "species")
    assert recognise(str(tmp_path / "images")).name == "shards"
    config = train_config(str(tmp_path / "images"), None, None, settings=("data.window=3",))
    assert (config.data.kind, config.data.size, config.data.window) == ("shards", 32, 3)
    assert config.model == preset("folder", "").model
    config = train_config(str(tmp_path / "features"), None, None)
    assert (config.data.kind, config.model.name, config.data.augment) == ("shards", "linear", None)
    like = RunConfig.of({**preset("folder", "x").table(), "data": {"kind": "folder", "path": "x", "size": 9}})
    assert data_section(str(tmp_path / "images"), like=like).size == 9


def test_features_in_shards_train_and_predict(pencil, features, tmp_path):
    pencil("index", features, "--out", tmp_path / "index", "--label-field", "species", "--quiet")
    words = (
        "train",
        tmp_path / "index",
        "--out",
        tmp_path / "run",
        "--noise",
        "symmetric:0.2",
        "--epochs",
        "2,6,2",
    )
    result = pencil(
        *words, "--json", "--quiet", "--set", "data.validation=0.1", "--set", "train.batch_size=20"
    )
    assert result.exit_code == 0, result.exception
    assert json.loads(result.stdout)["last"]["labels_correct"] > 0.9
    result = pencil(
        "predict", tmp_path / "run", tmp_path / "index", "--out", tmp_path / "predicted.csv", "--json"
    )
    assert json.loads(result.stdout)["rows"] == 120
    assert (tmp_path / "predicted.csv").read_text().splitlines()[1].startswith("0.tar/0,ant,ant,")
