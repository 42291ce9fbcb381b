"""``pencil embed`` with a user's function: what it writes, killed and continued, by two ranks, and mistakes."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from pencil.data import read_features, read_shards
from support.ranks import torchrun

pytestmark = pytest.mark.slow

SIZE = 6
MODULE = """
import os
import signal
from pathlib import Path

import numpy as np

CALLS = Path(__file__).with_name("calls")


def encode(images):
    with CALLS.open("a") as calls:
        calls.write("x")
    if CALLS.stat().st_size == int(os.environ.get("KILL_AT", "0")):
        os.kill(os.getpid(), signal.SIGKILL)
    pixels = [np.asarray(image, dtype=np.float32).reshape(-1, 3) / 255 for image in images]
    return np.stack([np.concatenate([each.mean(0), each.std(0)]) for each in pixels])


encode.size = 6


def broken(images):
    return np.full((len(images), 6), np.nan)


broken.size = 6
"""


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Images of different sizes and modes: 2 x 9 to train on, 2 x 2 to test."""
    folder = tmp_path_factory.mktemp("embed") / "photos"
    generator = np.random.default_rng(0)
    for split, count in (("train", 9), ("test", 2)):
        for number, name in enumerate(("cat", "ñandú")):
            (folder / split / name).mkdir(parents=True)
            for row in range(count):
                pixels = generator.integers(0, 256, (8 + row, 10 + number, 3), dtype=np.uint8)
                mode = "L" if row % 3 == 2 else "RGB"
                Image.fromarray(pixels).convert(mode).save(folder / split / name / f"{row}.png")
    return folder


def run(folder, *words, ranks=None, **environment):
    """The command in a process of its own, in a folder with the module."""
    folder.mkdir(exist_ok=True)
    (folder / "tones.py").write_text(MODULE)
    (folder / "calls").write_bytes(b"")
    return subprocess.run(
        [sys.executable, *(torchrun(ranks) if ranks else ()), "-m", "pencil", "embed", *map(str, words)],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def words(photos, out):
    return (photos, "--model", "tones:encode", "--out", out, "--part-rows", 4, "--batch-size", 3)


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def whole(photos, tmp_path_factory):
    """Both outputs, made without an interruption."""
    folder = tmp_path_factory.mktemp("whole")
    for out in ("x.npz", "shards"):
        done = run(folder, *words(photos, out))
        assert done.returncode == 0, done.stderr
    return folder


def expected(photos, name):
    pixels = np.asarray(Image.open(photos / name).convert("RGB"), dtype=np.float32).reshape(-1, 3) / 255
    return np.concatenate([pixels.mean(0), pixels.std(0)])


def test_an_npz_has_features_labels_ids_and_class_names(photos, whole):
    splits = read_features(whole / "x.npz")
    assert splits.test is not None
    assert (len(splits.train), len(splits.test)) == (18, 4)
    assert splits.train.class_names == ("cat", "ñandú")
    assert not (whole / "x.npz.parts").exists()
    for part in (splits.train, splits.test):
        features = part.inputs.values.numpy()
        for row, name in enumerate(part.ids):
            np.testing.assert_allclose(features[row], expected(photos, name), atol=1e-6)
            assert part.class_names[part.labels.values[row]] == name.split("/")[1]


def test_shards_hold_the_same_rows_and_are_indexed(photos, whole):
    splits, flat = read_shards(whole / "shards" / "index"), read_features(whole / "x.npz")
    for shards, plain in ((splits.train, flat.train), (splits.test, flat.test)):
        rows = np.arange(len(plain))
        assert [name.partition(".parquet/")[2] for name in shards.ids] == list(plain.ids)
        assert shards.class_names == plain.class_names
        assert shards.labels.hard.tolist() == plain.labels.hard.tolist()
        found = shards.inputs.fetch(plain.labels.hard.new_tensor(rows))
        assert found.equal(plain.inputs.values)


@pytest.mark.parametrize("out", ["x.npz", "shards"])
def test_killed_and_continued_it_writes_the_same_bytes(photos, whole, tmp_path, out):
    killed = run(tmp_path, *words(photos, out), KILL_AT="7")
    assert killed.returncode == -signal.SIGKILL
    parts = tmp_path / ("x.npz.parts" if out == "x.npz" else out)
    kept = {path.name for path in parts.iterdir() if path.name.startswith("t")}
    assert 0 < len(kept) < 6
    done = run(tmp_path, *words(photos, out), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["encoded"] == 22 - 4 * len(kept)
    if out == "x.npz":
        assert (tmp_path / out).read_bytes() == (whole / out).read_bytes()
    else:
        assert contents(tmp_path / out) == contents(whole / out)


@pytest.mark.ranks
@pytest.mark.parametrize("out", ["x.npz", "shards"])
def test_two_ranks_write_the_same_bytes_as_one(photos, whole, tmp_path, out):
    done = run(tmp_path, *words(photos, out), "--json", ranks=2)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == {"train": 18, "test": 4}
    if out == "x.npz":
        assert (tmp_path / out).read_bytes() == (whole / out).read_bytes()
    else:
        assert contents(tmp_path / out) == contents(whole / out)


def test_a_run_learns_from_what_was_written(whole, pencil, tmp_path):
    for number, data in enumerate((whole / "x.npz", whole / "shards" / "index")):
        result = pencil(
            "train", data, "--out", tmp_path / str(number), "--epochs", "1,6,1", "--quiet", "--json"
        )
        assert result.exit_code == 0, result.output


def test_images_without_labels_become_features_without_labels(photos, tmp_path):
    done = run(tmp_path, photos / "test" / "cat", "--model", "tones:encode", "--out", "x.npz", "--json")
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "x.npz") as arrays:
        assert sorted(arrays) == ["X", "ids"]
        assert arrays["X"].shape == (2, SIZE)
        assert arrays["ids"].tolist() == ["0.png", "1.png"]


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ("photos", ("--model", "tones:missing"), "tones has no attribute 'missing'"),
        ("photos", ("--model", "tones:broken"), "returned values that are not finite for row 0"),
        ("photos", ("--model", "dinov2"), "embedding model 'dinov2' is not known"),
        ("photos", ("--model", "tones:encode", "--out", "there.npz"), "exists already; remove it"),
        (
            "photos",
            ("--model", "tones:encode", "--out", "mine"),
            "holds notes.txt, which this command did not",
        ),
        ("photos", ("--model", "tones:encode", "--out", "x.npy"), "give an .npz file, or a folder"),
        ("photos", ("--model", "tones:encode", "--device", "abacus"), "'abacus' is not a device"),
        ("points", ("--model", "tones:encode"), "the data's rows are plain numbers"),
        ("points", (), "--model: missing"),
        ("photos/test/cat", ("--model", "tones:encode", "--out", "shards"), "shards need one label per row"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing_behind(
    photos, points, main_program, tmp_path, monkeypatch, data, options, message
):
    (tmp_path / "tones.py").write_text(MODULE)
    (tmp_path / "there.npz").write_bytes(b"precious")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("precious")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "tones", raising=False)
    path = points if data == "points" else photos.parent / data
    before = contents(tmp_path)
    out = () if "--out" in options else ("--out", "x.npz")
    code, printed, errors = main_program("embed", path, *options, *out)
    assert code == 2
    assert printed == ""
    (line,) = errors.splitlines()
    assert message in line
    after = contents(tmp_path)
    assert {name: after[name] for name in after if "__pycache__" not in str(name)} == before


def test_the_default_model_suits_the_kind_that_is_set(main_program, tmp_path, monkeypatch):
    monkeypatch.setenv("PENCIL_EMBED", "ngrams")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.csv").write_text("text,label\n" + "yes,a\nno,b\n" * 5)
    assert (
        "--model: missing"
        in main_program("embed", "words.csv", "--out", "x.npz", "--set", "data.kind=table")[2]
    )
    code, _, errors = main_program("embed", "words.csv", "--out", "x.npz", "--set", "data.kind=text")
    assert code == 0, errors
    assert read_features(tmp_path / "x.npz").train.class_names == ("a", "b")


def test_parts_of_another_model_are_refused(photos, whole, tmp_path):
    run(tmp_path, *words(photos, "shards"), KILL_AT="7")
    (tmp_path / "other").mkdir()
    done = run(tmp_path, photos, "--model", "tones:broken", "--out", "shards", "--part-rows", "4", "--quiet")
    assert done.returncode == 2
    assert "was begun with another model and other weights or preprocessing; remove" in done.stderr
    done = run(tmp_path, photos, "--model", "tones:encode", "--out", "shards", "--part-rows", "5")
    assert "was begun with another --part-rows; remove" in done.stderr
