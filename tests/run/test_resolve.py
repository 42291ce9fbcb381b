"""Settings that were left open are decided once, and known again."""

import pytest
import torch

from pencil.config import RunConfig
from pencil.engine import Runtime
from pencil.presets import preset
from pencil.run.resolve import resolve, resolves_to

RUNTIME = Runtime(device=torch.device("cpu"))


@pytest.mark.parametrize(("memory", "store"), [(10**9, "dense"), (1, "dense:mapped")])
def test_the_store_follows_the_memory(make_config, monkeypatch, memory, store):
    monkeypatch.setattr("pencil.run.resolve.free_memory", lambda: memory)
    config, prepared = resolve(make_config(), RUNTIME)
    assert config.store == store
    assert len(prepared.train) > 0
    chosen = make_config(store="top:2")
    assert resolve(chosen, RUNTIME)[0] == chosen


def test_what_was_decided_is_known_again_and_other_settings_are_not(make_config):
    asked = make_config(data={"trusted": {"path": "reviewed"}})
    kept = make_config(data={"trusted": {"path": "reviewed", "entry": 7}}, store="top:2")
    assert resolves_to(asked, kept)
    assert resolves_to(kept, kept)
    assert not resolves_to(make_config(), kept)
    assert not resolves_to(make_config(data={"trusted": {"path": "reviewed", "entry": 6}}), kept)
    assert not resolves_to(make_config(data={"trusted": {"path": "reviewed"}}, store="dense"), kept)


@pytest.fixture
def photos(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for number, name in enumerate(("cat", "dog", "owl", "cow")):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for copy in range(10):
            image.new("RGB", (300 + number, 200)).save(tmp_path / "photos" / name / f"{copy}.png")
    table = preset("folder", str(tmp_path / "photos")).table()

    def config(**data):
        return RunConfig.of(table | {"data": table["data"] | {"validation": 0.0} | data})

    return config


def test_images_that_are_shrunk_are_reported_with_the_remedy(photos):
    with pytest.warns(UserWarning, match=r"about 302 × 200 pixels are shrunk to 96 × 96.*--embed MODEL"):
        resolve(photos(), RUNTIME)
    with pytest.warns(UserWarning, match="shrunk to 32 × 32"):
        resolve(photos(size=32), RUNTIME)


@pytest.mark.parametrize("data", [{"size": 128}, {"embed": "ngrams"}, {"size": 96, "path": "small"}])
def test_sizes_for_large_networks_encoders_and_small_images_are_not(photos, tmp_path, monkeypatch, data):
    monkeypatch.chdir(tmp_path)
    image = pytest.importorskip("PIL.Image")
    for name in ("cat", "dog"):
        (tmp_path / "small" / name).mkdir(parents=True)
        for copy in range(10):
            image.new("RGB", (150, 150)).save(tmp_path / "small" / name / f"{copy}.png")
    resolve(photos(**data), RUNTIME)  # a warning would be an error
