"""Settings in and out: TOML both ways, frozen, strict, files named when they cannot be read."""

import os
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from pencil import CosineSchedule, CrossEntropy, LinearSchedule, Pencil, Phase, PiecewiseSchedule
from pencil.config import RunConfig, read_table
from pencil.config.schema import Checkpoint, Model, Optimizer, Train
from pencil.data import Augment
from pencil.errors import ConfigError
from pencil.kinds import CifarData, DatasetData, FeaturesData, ImagesData, LabelFile, MatrixNoise, RateNoise
from pencil.methods import Forward
from pencil.presets import PRESETS, preset

pytestmark = pytest.mark.slow


def minimal(**sections):
    return {
        "data": {"kind": "features", "path": "faces.npz"},
        "model": {"name": "linear"},
        "phases": [{"name": "correction", "epochs": 3, "learning_rate": 0.1}],
        **sections,
    }


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_survives_toml(name):
    config = preset(name, "some/path")
    assert RunConfig.of(tomllib.loads(config.toml())) == config


RATES = st.floats(0, 1e6)
SCHEDULES = (
    RATES
    | st.builds(LinearSchedule, RATES, RATES)
    | st.builds(CosineSchedule, RATES, RATES)
    | st.builds(lambda first, second, at: PiecewiseSchedule((first, second), (at,)), RATES, RATES, RATES)
)
METHODS = st.builds(
    Pencil,
    label_rate=SCHEDULES,
    pull=RATES,
    form=st.sampled_from(["printed", "reference"]),
    direction=st.sampled_from(["prediction_label", "label_prediction"]),
    divide_by_classes=st.booleans(),
) | st.just(CrossEntropy())
PHASES = st.builds(
    Phase,
    name=st.sampled_from(["backbone", "correction", "finetune"]),
    epochs=st.integers(0, 999),
    learning_rate=SCHEDULES,
)
NOISES = (
    st.none()
    | st.builds(RateNoise, kind=st.sampled_from(["symmetric", "instance"]), rate=st.floats(0, 1))
    | st.just(MatrixNoise(kind="matrix", matrix=((0.9, 0.1), (0.0, 1.0)), seed=3))
    | st.just(LabelFile(kind="file", path="labels.npy", key="worse"))
)
DATA = (
    st.builds(FeaturesData, kind=st.just("features"), path=st.text(max_size=8), noise=NOISES)
    | st.builds(CifarData, kind=st.sampled_from(["cifar10", "cifar100"]), path=st.just("c"), noise=NOISES)
    | st.just(ImagesData(kind="folder", path="f", size=64, channels=1, augment=Augment(2, None, True)))
    | st.just(DatasetData(kind="python", path="mine:make", args={"sizes": [1, 2], "deep": {"er": "x"}}))
)


@settings(max_examples=60, deadline=None)
@given(
    data=DATA, method=METHODS, phases=st.lists(PHASES, min_size=1, max_size=3), seed=st.integers(0, 2**63 - 1)
)
def test_every_config_survives_toml(data, method, phases, seed):
    config = RunConfig(
        seed=seed,
        data=data,
        model=Model(name="linear", args={"depth": 2}),
        method=method,
        phases=tuple(phases),
        optimizer=Optimizer(name="adamw"),
        train=Train(workers=2),
        checkpoint=Checkpoint(seconds=1.5, steps=3),
    )
    assert RunConfig.of(tomllib.loads(config.toml())) == config
    assert RunConfig.of(config.table()) == config


def test_data_model_and_phases_are_all_a_config_needs():
    config = RunConfig.of(minimal())
    assert config.seed == 0
    assert config.method == Pencil()
    assert config.optimizer == Optimizer()
    assert config.phases == (Phase(name="correction", epochs=3, learning_rate=0.1),)


def test_sections_are_the_dataclasses_the_package_uses():
    config = RunConfig.of(
        minimal(
            method={"name": "pencil", "label_rate": {"kind": "linear", "start": 3, "end": 0}},
            data={"kind": "cifar10", "path": "c", "augment": {"pad": 4, "crop": 32, "flip": True}},
        )
    )
    assert config.method == Pencil(label_rate=LinearSchedule(3.0, 0.0))
    assert config.data.augment == Augment(4, 32, True)
    assert RunConfig.of(minimal(method={"name": "cross_entropy"})).method == CrossEntropy()


def test_a_whole_number_is_a_number_but_a_string_is_not():
    assert RunConfig.of(minimal(optimizer={"momentum": 0})).optimizer.momentum == 0
    with pytest.raises(ConfigError, match=r"optimizer\.momentum: '0' should be a number"):
        RunConfig.of(minimal(optimizer={"momentum": "0"}))


def test_a_config_cannot_be_changed():
    config = RunConfig.of(minimal())
    with pytest.raises(ValidationError, match="frozen"):
        config.seed = 1
    with pytest.raises(ValidationError, match="frozen"):
        config.optimizer.momentum = 0.0


def test_what_is_absent_is_not_written():
    assert "noise" not in RunConfig.of(minimal()).toml()


def test_a_file_is_read_as_utf_8(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(
        RunConfig.of(minimal(data={"kind": "features", "path": "ŷ/é.npz"})).toml(), encoding="utf-8"
    )
    assert RunConfig.read(file).data.path == "ŷ/é.npz"


def test_text_that_is_not_utf8_is_refused_by_its_field():
    with pytest.raises(ConfigError, match=r"^data\.path: 'b\\udcff\.npz' is not UTF-8; rename the file"):
        RunConfig.of(minimal(data={"kind": "features", "path": "b\udcff.npz"}))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError) as caught:
        read_table(tmp_path / "run.toml")
    assert str(caught.value) == (
        f"config {tmp_path / 'run.toml'}: cannot be read (No such file or directory); "
        "check its name; give the path of a TOML file"
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"seed = ", "not valid TOML: "),
        (b"[data\n", "not valid TOML: "),
        (b"\xff\xfe", "is not UTF-8 "),
        (b"#" + b" " * (2 << 20), "is larger than "),
    ],
    ids=["value", "header", "bytes", "large"],
)
def test_a_file_that_is_no_toml_is_named(tmp_path, content, problem):
    file = tmp_path / "run.toml"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"run\.toml: {problem}"):
        read_table(file)


def test_a_file_with_wrong_settings_lists_them(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text("sead = 1\n")
    with pytest.raises(ConfigError, match=r"4 settings are wrong:") as caught:
        RunConfig.read(file)
    for field in ("data: missing", "model: missing", "phases: missing", "sead: unknown"):
        assert field in str(caught.value)


def test_a_pipe_is_refused_without_waiting_for_it(tmp_path):
    os.mkfifo(tmp_path / "run.toml")
    with pytest.raises(ConfigError, match=r"run\.toml: is not a plain file"):
        read_table(tmp_path / "run.toml")


def test_settings_that_could_not_be_read_again_are_not_written():
    rows = tuple((1.0,) + (0.0,) * 799 for _ in range(800))
    config = RunConfig.of(minimal()).model_copy(update={"method": Forward(transition=rows)})
    with pytest.raises(ConfigError, match=r"more than 2,097,152 bytes as TOML; shorten"):
        config.toml()


@pytest.mark.parametrize("seed", [2**63, -(2**63) - 1])
def test_a_seed_has_as_many_bits_as_an_integer_of_toml(seed):
    with pytest.raises(ConfigError, match=r"seed: "):
        RunConfig.of(minimal(seed=seed))
