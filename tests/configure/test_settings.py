"""From the command line's words to settings."""

import json

import numpy as np
import pytest

from pencil.algorithm import Pencil
from pencil.config import RunConfig
from pencil.configure import data_section, parse_noise, train_config
from pencil.data import write_index
from pencil.errors import ConfigError
from pencil.methods import CrossEntropy, GeneralizedCrossEntropy
from pencil.presets import preset, start_from


def config_file(tmp_path, text):
    file = tmp_path / "settings.toml"
    file.write_text(text, encoding="utf-8")
    return file


# what the data is


def test_features_in_shards_are_set_like_the_same_features_in_a_file(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    values, labels = np.eye(6, dtype=np.float32), np.arange(6) % 2
    np.savez(tmp_path / "x.npz", X=values, y=labels)
    parquet.write_table(arrow.table({"features": values.tolist(), "label": labels}), tmp_path / "a.parquet")
    write_index({"train": [str(tmp_path / "a.parquet")]}, tmp_path / "index")
    shards, file = (train_config(str(tmp_path / name), None, None).table() for name in ("index", "x.npz"))
    assert shards.pop("data")["kind"] == "shards"
    assert file.pop("data")["kind"] == "features"
    assert shards == file


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("image_class_labels.txt", "paper:cub200-lambda3000-alpha0"),
        ("noisy_label_kv.txt", "paper:clothing1m"),
    ],
)
def test_data_sets_that_only_the_paper_has_settings_for_get_those(tmp_path, file, name):
    (tmp_path / file).write_text("")
    assert train_config(str(tmp_path), None, None) == preset(name, str(tmp_path))


def test_what_is_predicted_is_not_balanced_as_training_was(tmp_path):
    (tmp_path / "noisy_label_kv.txt").write_text("")
    like = preset("paper:clothing1m", "x")
    data = data_section(str(tmp_path), like=like)
    assert (like.data.per_class, data.per_class, data.kind) == (18571, None, "clothing1m")


# noise


def test_noise_is_a_kind_and_a_rate_or_a_file(tmp_path, monkeypatch):
    assert parse_noise("symmetric:0.4") == {"kind": "symmetric", "rate": 0.4}
    monkeypatch.chdir(tmp_path)
    (tmp_path / "noisy 1.csv").write_text("")
    assert parse_noise("noisy 1.csv") == {"kind": "file", "path": "noisy 1.csv"}
    assert parse_noise("noisy 1.csv:worst") == {"kind": "file", "path": "noisy 1.csv", "key": "worst"}


@pytest.mark.parametrize("text", ["symmetric", "symmetric:much", "missing.csv", "missing.csv:key", ""])
def test_noise_that_is_neither_is_named(text):
    with pytest.raises(
        ConfigError, match=rf"--noise '{text}': no such file, and not kind:rate; write symmetric:0.4"
    ):
        parse_noise(text)


def test_asymmetric_noise_needs_a_map():
    with pytest.raises(
        ConfigError, match=r"'asymmetric:0.4': .* map of classes; use cifar10:0.4 .* circular:0.4"
    ):
        parse_noise("asymmetric:0.4")


# settings


def test_data_alone_chooses_its_preset_and_starts_from_prototypes():
    table = preset("features", "x.npz").table()
    start_from(table, "prototypes")
    assert train_config("x.npz", None, None) == RunConfig.of(table)
    assert table["method"]["pull"] == 3.0


def epochs_of(config):
    return [phase.epochs for phase in config.phases]


def test_from_prototypes_the_network_learns_for_longer_before_labels_are_corrected(tmp_path):
    assert epochs_of(train_config("x.npz", None, None)) == [15, 15, 20]
    assert epochs_of(train_config("x.npz", None, "features")) == [2, 28, 20]
    assert epochs_of(train_config("x.npz", None, None, start="given")) == [2, 28, 20]
    assert epochs_of(train_config("x.npz", None, None, epochs="1,2,3")) == [1, 2, 3]
    assert epochs_of(train_config("x.npz", None, None, method="cross_entropy", start="prototypes")) == [
        2,
        28,
        20,
    ]
    images = preset("cifar10", "x").table()
    start_from(images, "prototypes")  # its rate falls in the backbone phase
    assert epochs_of(RunConfig.of(images)) == epochs_of(preset("cifar10", "x"))
    own = tmp_path / "own.toml"
    own.write_text(preset("features", "x.npz").toml())
    assert epochs_of(train_config(None, own, None, start="prototypes")) == [2, 28, 20]


@pytest.mark.parametrize(
    "options",
    [
        {"method": "cross_entropy"},
        {"settings": ("method.name=cross_entropy",)},
        {"settings": ("start.labels=given",)},
        {"method": "pencil"},
        {"start": "given"},
    ],
)
def test_what_was_chosen_learns_from_the_given_labels(options):
    config = train_config("x.npz", None, None, **options)
    assert config.start.labels == "given"
    assert getattr(config.method, "form", "reference") == "reference"
    assert train_config("x.npz", None, "features").start.labels == "given"


def test_flags_change_the_preset_and_set_has_the_last_word():
    config = train_config(
        "x.npz",
        None,
        "features",
        noise="circular:0.2",
        epochs="1, 6,2",
        seed=7,
        settings=("seed=8", "phases.finetune.epochs=3", "model.name=mlp", "data.limit=10"),
    )
    assert (config.data.noise.kind, config.data.noise.rate, config.data.limit) == ("circular", 0.2, 10)
    assert [phase.epochs for phase in config.phases] == [1, 6, 3]
    assert (config.seed, config.model.name) == (8, "mlp")


@pytest.mark.parametrize("words", [{"method": "cross_entropy"}, {"settings": ("method.name=cross_entropy",)}])
def test_another_method_brings_its_own_settings(words):
    assert train_config("x.npz", None, None, **words).method == CrossEntropy()


def test_a_setting_of_another_method_may_come_before_its_name():
    words = ("method.q=0.5", "method.name=generalized_cross_entropy")
    assert train_config("x.npz", None, None, settings=words).method == GeneralizedCrossEntropy(q=0.5)


def test_the_same_method_keeps_its_settings(tmp_path):
    config = preset("features", "x.npz")
    table = config.toml().replace("pull = 1.0", "pull = 0.5")
    chosen = train_config(None, config_file(tmp_path, table), None, method="pencil")
    assert chosen.method == Pencil(label_rate=1.0, pull=0.5, entropy_weight=0.8)


def test_a_config_file_takes_another_path_from_the_command_line(tmp_path):
    file = config_file(tmp_path, preset("features", "old.npz").toml())
    assert train_config(None, file, None).data.path == "old.npz"
    assert train_config("żółć.npz", file, None).data.path == "żółć.npz"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((None, None, None), "no data; give DATA, --config FILE or --preset NAME"),
        (
            (None, None, "features"),
            "--preset features: the path of the data is missing; use pencil train DATA",
        ),
        (("x.npz", "a.toml", "features"), "--config and --preset cannot be combined"),
        (("x.npz", None, "feature"), "--preset feature: unknown; did you mean 'features'?"),
        (("own:data", None, None), "'own:data' has no default settings; choose some: --preset features, "),
    ],
)
def test_contradictions_are_told(words, message):
    with pytest.raises(ConfigError) as caught:
        train_config(*words)
    assert message in str(caught.value)


@pytest.mark.parametrize("epochs", ["1,2", "1,2,3,4", "a,b,c", "1,-2,3", ""])
def test_epochs_must_fit_the_phases(epochs):
    with pytest.raises(
        ConfigError, match=r"--epochs .*: give 3 whole numbers for backbone,correction,finetune"
    ):
        train_config("x.npz", None, None, epochs=epochs)


@pytest.mark.parametrize("text", ["", "phases = 3", "phases = [1, 2]"])
def test_epochs_need_phases(tmp_path, text):
    with pytest.raises(ConfigError, match=r"the settings have no \[\[phases\]\]"):
        train_config("x.npz", config_file(tmp_path, text), None, epochs="1,2")


def test_sections_that_are_no_tables_are_mistakes_like_others(tmp_path):
    file = config_file(tmp_path, 'data = 3\nmethod = 1\nmodel = "linear"\nphases = 2\n')
    with pytest.raises(ConfigError, match=r"(?s)data.kind: missing.*model: 'linear' should be a table"):
        train_config("x.npz", file, None, method="cross_entropy", noise="symmetric:0.1")


def test_all_mistakes_are_told_at_once(tmp_path):
    text = preset("features", "x.npz").toml().replace("batch_size", "bach_size").replace("seed =", "sed =")
    with pytest.raises(ConfigError) as caught:
        train_config(None, config_file(tmp_path, text), None, settings=("method.label_rate=high",))
    message = str(caught.value)
    assert message.startswith("3 settings are wrong:")
    assert "did you mean 'batch_size'?" in message
    assert "did you mean 'seed'?" in message
    assert "method.label_rate: 'high' should be a number" in message


def test_your_own_data_takes_the_place_of_the_presets_kind():
    data = train_config("own.module:data", None, "folder").data
    assert (data.kind, data.path, data.validation, data.augment.pad) == (
        "python",
        "own.module:data",
        0.1,
        4,
    )


# new data for a run


def test_new_data_is_read_like_the_runs_own_without_noise_and_splits():
    words = ("data.limit=5", "data.validation=0.3", "data.keys.features=feat")
    run = train_config("x.npz", None, None, noise="symmetric:0.4", settings=words)
    data = data_section("new.npz", like=run)
    assert (data.path, data.noise, data.limit, data.validation) == ("new.npz", None, None, 0.0)
    assert data.keys == {"features": "feat"}


def test_labels_of_the_runs_data_are_not_taken_for_the_new():
    run = train_config("x.npy", None, None, settings=("data.labels=y.npy",))
    assert data_section("new.npy", like=run).labels is None
    assert data_section("new.npy", ("labels=z.npy",), like=run).labels == "z.npy"


def test_images_of_a_folder_and_of_a_manifest_are_read_alike(tmp_path):
    run = train_config(str(tmp_path), None, "folder", settings=("data.size=16", "data.channels=1"))
    data = data_section("table.csv", like=run)
    assert (data.kind, data.size, data.channels) == ("manifest", 16, 1)


def test_columns_of_a_runs_table_are_not_asked_of_a_folder(tmp_path):
    named = ("data.kind=manifest", "data.columns.path=photo")
    run = train_config("table.csv", None, "folder", settings=named)
    assert data_section("other.csv", like=run).columns == {"path": "photo"}
    assert data_section(str(tmp_path), like=run).columns == {}


@pytest.mark.parametrize("words", ["data.columns.text=a", 'data.columns={text="a"}'])
@pytest.mark.parametrize(("others", "kind"), [({"b": 1}, "table"), ({"embedding": [1.0, 2.0]}, "features")])
def test_a_role_that_one_kind_has_chooses_it(tmp_path, others, kind, words):
    row = json.dumps({"a": "x", **others, "label": "cat"}) + "\n"
    (tmp_path / "rows.jsonl").write_text(3 * row)
    assert train_config(str(tmp_path / "rows.jsonl"), None, None).data.kind == kind
    assert train_config(str(tmp_path / "rows.jsonl"), None, None, settings=(words,)).data.kind == "text"


def test_features_of_a_column_with_an_unusual_name_are_read_alike(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"emb": [1.0, 2.0], "kind": "cat"}\n' * 3)
    run = train_config(
        str(path), None, None, settings=("data.columns.features=emb", "data.columns.label=kind")
    )
    data = data_section(str(path), like=run)
    assert (data.kind, data.columns) == ("features", {"features": "emb", "label": "kind"})


@pytest.mark.parametrize(("name", "kind"), [("photos", "folder"), ("table.csv", "manifest")])
def test_files_of_images_are_read_like_the_shards_of_a_run(tmp_path, name, kind):
    (tmp_path / "photos").mkdir()
    (tmp_path / "table.csv").write_text("path,label\n1.png,cat\n")
    table = preset("shards", str(tmp_path / "shards")).table()
    table["data"] |= {"size": 48, "channels": 1, "embed": "efficientnet_lite0", "window": 2, "cache": "here"}
    data = data_section(str(tmp_path / name), like=RunConfig.of(table))
    assert (data.kind, data.size, data.channels, data.embed) == (kind, 48, 1, "efficientnet_lite0")


def test_the_size_of_images_is_chosen_with_the_columns_that_are_set(tmp_path):
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (70, 70)).save(tmp_path / "1.png")
    (tmp_path / "m.csv").write_text("photo,animal\n1.png,cat\n1.png,dog\n")
    columns = ("data.kind=manifest", "data.columns.path=photo", "data.columns.label=animal")
    run = train_config(str(tmp_path / "m.csv"), None, None, settings=columns)
    assert run.data.size == 64
    assert run.data.columns == {"path": "photo", "label": "animal"}
    with pytest.raises(ConfigError, match=r"data.columns.path: 7"):
        train_config(
            str(tmp_path / "m.csv"), None, None, settings=("data.kind=manifest", "data.columns.path=7")
        )


def test_data_of_another_kind_is_read_by_its_preset(tmp_path):
    run = train_config(str(tmp_path), None, "folder")
    assert data_section("new.npz", ("data.labels=y.npy",), like=run).labels == "y.npy"
    assert data_section("own:data").kind == "python"


def test_noise_for_data_may_be_a_file_with_any_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("5.npy", np.arange(3))
    data = data_section("x.npz", noise="5.npy")
    assert (data.noise.kind, data.noise.path) == ("file", "5.npy")


def test_trusted_labels_go_to_the_data_section_and_are_not_for_predictions(points, tmp_path):
    config = train_config(str(points), None, None, trusted="runs/first")
    assert (config.data.trusted.path, config.data.trusted.entry) == ("runs/first", None)
    assert data_section(str(points), like=config).trusted is None
