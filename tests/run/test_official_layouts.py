"""The paper's presets for photographs on trees in the official layouts, with a small network, from end to end."""

import pytest

from pencil.config import RunConfig
from pencil.presets import preset
from pencil.run import train

Image = pytest.importorskip("PIL.Image")


def numbered(values):
    return "".join(f"{number} {value}\n" for number, value in enumerate(values, start=1))


@pytest.fixture
def clothing1m(tmp_path):
    root = tmp_path / "clothing1M"
    keys = [f"images/{n % 10}/0/{n}.jpg" for n in range(14 * 6)]
    for number, key in enumerate(keys):
        (root / key).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (24, 20), (18 * (number % 14), 0, 0)).save(root / key)
    labels = "".join(f"{key} {number % 14}\n" for number, key in enumerate(keys))
    parts = {
        "noisy_train": keys[:56],
        "clean_train": keys[:1],
        "clean_val": keys[56:70],
        "clean_test": keys[70:],
    }
    for name in ("noisy", "clean"):
        (root / f"{name}_label_kv.txt").write_text(labels)
    for name, part in parts.items():
        (root / f"{name}_key_list.txt").write_text("\n".join(part))
    return root


@pytest.fixture
def cub200(tmp_path):
    root = tmp_path / "CUB_200_2011"
    names = [f"{n % 2 + 1:03d}.Bird/{n}.jpg" for n in range(12)]
    for number, name in enumerate(names):
        (root / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20, 24), (200 * (number % 2), 0, 0)).save(root / "images" / name)
    (root / "classes.txt").write_text("1 001.Albatross\n2 002.Wren\n")
    (root / "images.txt").write_text(numbered(names))
    (root / "image_class_labels.txt").write_text(numbered(n % 2 + 1 for n in range(12)))
    (root / "train_test_split.txt").write_text(numbered(int(n < 8) for n in range(12)))
    return root


def small(name, path, **data):
    """The preset with one epoch each, a small network and small images."""
    table = preset(name, str(path)).table()
    table["data"] |= {"size": 16, "augment": {"crop": 12, "flip": True}, **data}
    table["model"] = {"name": "small_cnn"}
    table["method"]["initial_gap"] = 1.0  # or one epoch could flip no label, and the run would say so
    table["train"] |= {"workers": 0, "precision": "fp32"}
    for phase in table["phases"]:
        phase["epochs"] = 1
    return RunConfig.of(table)


def test_clothing1m_trains_on_a_balanced_subset_and_picks_the_best_epoch_on_the_clean_images(
    clothing1m, tmp_path
):
    summary = train(small("paper:clothing1m", clothing1m, per_class=3), tmp_path / "run").summary
    assert summary["examples"] == 14 * 3
    assert "test_accuracy" in summary["last"]
    assert "validation_accuracy" in summary["best"]


def test_cub200_trains_on_its_official_split(cub200, tmp_path):
    summary = train(small("paper:cub200-lambda3000-alpha0.1", cub200), tmp_path / "run").summary
    assert summary["examples"] == 8
    assert "test_accuracy" in summary["last"]
    assert "best" not in summary
