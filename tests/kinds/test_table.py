"""The table of kinds: recognition, where originals are, registration."""

from typing import Literal

import pytest

from pencil.config import RunConfig
from pencil.errors import ConfigError
from pencil.kinds import (
    DataSection,
    FeaturesData,
    ImagesData,
    Kind,
    kind_of,
    kinds,
    recognise,
    register,
)
from pencil.presets import PRESETS
from support.kinds import kinds_restored


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("x.npz", "features"),
        ("x.npy", "features"),
        ("table.csv", "manifest"),
        ("table.parquet", "manifest"),
        ("package.module:function", "python"),
    ],
)
def test_data_is_recognised_by_its_name(name, kind):
    assert recognise(name).name == kind


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("data_batch_1.bin", "cifar10"),
        ("cifar-10-batches-py/x", "cifar10"),
        ("fine_label_names.txt", "cifar100"),
        ("cifar-100-python/x", "cifar100"),
        ("train-images-idx3-ubyte.gz", "idx"),
        ("image_class_labels.txt", "cub200"),
        ("CUB_200_2011/image_class_labels.txt", "cub200"),
        ("noisy_label_kv.txt", "clothing1m"),
        ("annotations/noisy_label_kv.txt", "clothing1m"),
        ("owls/1.png", "folder"),
    ],
)
def test_a_folder_is_recognised_by_what_is_in_it(tmp_path, file, kind):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_bytes(b"")
    assert recognise(str(tmp_path)).name == kind


def test_what_is_not_recognised_is_named(tmp_path, monkeypatch):
    (tmp_path / "notes.txt").write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"data 'notes.txt' is neither a folder nor a file ending in .npz"):
        recognise("notes.txt")
    with pytest.raises(
        ConfigError, match=r"data 'nowhere' does not exist; give a folder or a file ending in .npz"
    ):
        recognise("nowhere")


# what each entry says


def test_every_entry_names_itself_and_a_preset_that_there_is():
    for name, kind in kinds().items():
        assert kind.name == name
        assert kind.preset is None or callable(kind.preset) or kind.preset in PRESETS


def test_kinds_that_are_read_alike_exist():
    assert {other for kind in kinds().values() for other in kind.like} <= set(kinds())
    assert all(own in kind.section.model_fields for kind in kinds().values() for own in kind.own)


@pytest.mark.parametrize(
    ("kind", "path", "folder"),
    [
        ("folder", "/d/images", "/d/images/"),
        ("manifest", "/d/table.csv", "/d/"),
        ("cub200", "/d/CUB", "/d/CUB/images/"),
        ("clothing1m", "/d/c", "/d/c/"),
    ],
)
def test_images_are_found_where_their_data_is(kind, path, folder):
    data = ImagesData(kind=kind, path=path)
    assert kind_of(data).folder(data.path) == folder


def test_images_of_cub200_are_found_in_the_folder_it_was_unpacked_in(tmp_path):
    (tmp_path / "CUB_200_2011").mkdir()
    (tmp_path / "CUB_200_2011" / "images.txt").write_text("")
    assert kinds()["cub200"].folder(str(tmp_path)) == f"{tmp_path}/CUB_200_2011/images/"


def test_features_have_no_images():
    data = FeaturesData(kind="features", path="/d/x.npz")
    assert kind_of(data).folder(data.path) == ""


# kinds of one's own


class NotesData(DataSection):
    """Notes."""

    kind: Literal["notes"]
    pages: int = 1


@pytest.fixture
def added():
    """Whatever a test registers is gone after it."""
    with kinds_restored():
        yield


def settings(**data):
    return {
        "data": {"path": "x.notes", **data},
        "model": {"name": "linear"},
        "phases": [{"name": "correction", "epochs": 1, "learning_rate": 0.1}],
    }


def notes(**fields):
    return Kind("notes", NotesData, lambda data, path: None, **fields)


@pytest.mark.usefixtures("added")
def test_a_registered_kind_is_recognised_first_and_its_settings_are_settings():
    kind = register(notes(suffixes=(".csv", ".notes")))
    assert recognise("x.notes") is kind
    assert recognise("x.csv") is kind
    config = RunConfig.of(settings(kind="notes", pages=3))
    assert isinstance(config.data, NotesData)
    assert RunConfig.of(config.table()) == config
    assert (
        RunConfig(data=NotesData(kind="notes", path="x"), model=config.model, phases=config.phases).data.pages
        == 1
    )


@pytest.mark.usefixtures("added")
def test_mistakes_in_the_settings_of_a_registered_kind_are_explained():
    register(notes())
    with pytest.raises(ConfigError, match=r"data.pagse: unknown setting; did you mean 'pages'"):
        RunConfig.of(settings(kind="notes", pagse=3))
    with pytest.raises(ConfigError, match=r"data.kind: 'note' is unknown; did you mean 'notes'"):
        RunConfig.of(settings(kind="note"))


@pytest.mark.usefixtures("added")
def test_a_kind_registered_again_replaces_the_first():
    first = register(notes())
    assert register(first) is first
    assert kinds()["notes"] is first
    second = register(notes(suffixes=(".notes",)))
    assert kinds()["notes"] is second


def test_what_was_registered_in_a_test_is_gone_after_it():
    with pytest.raises(ConfigError, match=r"data.kind: 'notes' is unknown"):
        RunConfig.of(settings(kind="notes"))


def test_built_in_kinds_are_not_replaced():
    with pytest.raises(ConfigError, match=r"kind 'features' is built in; choose another name"):
        register(kinds()["features"])


def test_a_kind_is_named_as_its_section_says():
    with pytest.raises(
        ConfigError, match=r"kind 'other': NotesData.kind must be annotated as Literal\['other'\]"
    ):
        Kind("other", NotesData, lambda data, path: None)
    with pytest.raises(ConfigError, match=r"kind 'any': DataSection.kind must be annotated"):
        Kind("any", DataSection, lambda data, path: None)
