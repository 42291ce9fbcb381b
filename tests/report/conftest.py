"""Runs to report on, made without training or in a few epochs."""

from pathlib import Path

import numpy as np
import pytest

from pencil.config import RunConfig
from pencil.presets import preset
from support import runs

HOSTILE = ("<script>alert(1)</script>", 'a" onload="x', "b & c | d `e` _f_", "żółć \u202e\u0007", "plain")


@pytest.fixture(scope="session")
def random_rows():
    return runs.random_rows


@pytest.fixture(scope="session")
def make_run():
    return runs.run_of_logits


@pytest.fixture(scope="session")
def make_lines():
    return runs.make_lines


@pytest.fixture(scope="session")
def hostile_run(tmp_path_factory) -> Path:
    """Five classes and 200 rows whose names and ids try to break out of the page."""
    logits, given = runs.random_rows(200, 5, scale=4.0)
    ids = [f"<img src=x onerror=alert({row})>\n{row}" for row in range(199)]
    ids.append(b"\xff\xfe.png".decode("utf-8", "surrogateescape"))
    return runs.run_of_logits(
        tmp_path_factory.mktemp("hostile") / "a <run>",
        logits,
        given,
        names=HOSTILE,
        ids=ids,
        alarms=["<b>labels</b> may have drifted"],
    )


@pytest.fixture(scope="session")
def image_run(tmp_path_factory) -> Path:
    """Tiny images in a folder per class, 100 each, trained on for a few epochs."""
    image = pytest.importorskip("PIL.Image")
    from pencil.run import train

    folder, rng = tmp_path_factory.mktemp("images"), np.random.default_rng(0)
    for label, name in enumerate(("heron", "owl", "wren")):
        (folder / name).mkdir()
        for number in range(100):
            wrong = (number % 8 == 0) + 2 * (number % 8 == 4)  # a quarter lies in one of the wrong folders
            pixels = rng.integers(60, size=(24, 24, 3)) + 90 * np.eye(3)[(label + wrong) % 3]
            image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{number}.png")
    table = preset("folder", str(folder)).table()
    table["data"] |= {"size": 24, "validation": 0.0, "augment": None}
    table["plan"] = "fixed"
    table["model"] = {"name": "linear"}
    table["train"] |= {"batch_size": 10, "precision": "fp32"}
    for phase, epochs in zip(table["phases"], (4, 8, 1), strict=True):
        phase |= {"epochs": epochs, "learning_rate": 0.05}
    table["method"] = {"name": "pencil", "label_rate": 4.0}
    return train(RunConfig.of(table), tmp_path_factory.mktemp("runs") / "birds").path
