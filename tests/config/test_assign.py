"""Single settings by path: every kind of value, phases by name and by number, mistakes named."""

import pytest

from pencil.config import RunConfig, assign, parse_assignment
from pencil.errors import ConfigError
from pencil.presets import preset


def table():
    return preset("features", "faces.npz").table()


def after(*settings):
    changed = table()
    for setting in settings:
        assign(changed, *parse_assignment(setting))
    return RunConfig.of(changed)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x=adamw", "adamw"),
        ('x="adamw"', "adamw"),
        ("x='a b'", "a b"),
        ("x=a b", "a b"),
        ("x = data/set #2", "data/set #2"),
        ("x=package.module:function", "package.module:function"),
        ("x=a=b", "a=b"),
        ("x=", ""),
        ("x=7", 7),
        ("x=-7", -7),
        ("x=1e-3", 1e-3),
        ("x= 0.5 ", 0.5),
        ("x=inf", float("inf")),
        ("x=true", True),
        ("x=false", False),
        ("x=[1, 2.5]", [1, 2.5]),
        ('x=["a", "b"]', ["a", "b"]),
        ("x={ kind = 'linear', start = 1.0 }", {"kind": "linear", "start": 1.0}),
    ],
)
def test_a_value_is_read_as_toml_and_a_bare_word_as_a_string(text, value):
    path, read = parse_assignment(text)
    assert path == "x"
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize("text", ["", "seed", "=1", " =1", ".seed=1", "data..path=x", "data.=x"])
def test_what_is_no_assignment_is_told_how_to_be_one(text):
    with pytest.raises(ConfigError) as caught:
        parse_assignment(text)
    assert str(caught.value) == (
        f"--set {text!r}: write it as path=value, for example --set optimizer.weight_decay=0.001"
    )


def test_values_of_every_kind_reach_the_settings():
    config = after(
        "seed=7",
        "optimizer.name=adamw",
        "optimizer.weight_decay=1e-3",
        "optimizer.momentum=0.8",
        "neighbours=false",
        "data.path=other.npz",
        "data.noise={kind='symmetric', rate=0.4}",
        "method.label_rate={kind='piecewise', values=[2.0, 1.0], boundaries=[5]}",
        'model.args={hidden=[64, 32], act="relu"}',
    )
    assert config.seed == 7
    assert (config.optimizer.name, config.optimizer.weight_decay, config.optimizer.momentum) == (
        "adamw",
        1e-3,
        0.8,
    )
    assert config.neighbours is False
    assert config.data.path == "other.npz"
    assert (config.data.noise.kind, config.data.noise.rate) == ("symmetric", 0.4)
    assert (config.method.label_rate.values, config.method.label_rate.boundaries) == ((2.0, 1.0), (5.0,))
    assert config.model.args == {"hidden": [64, 32], "act": "relu"}


def test_a_table_that_is_not_there_is_made():
    config = after("data.noise.kind=circular", "data.noise.rate=0.3", "model.args.width=8")
    assert (config.data.noise.kind, config.data.noise.rate) == ("circular", 0.3)
    assert config.model.args == {"width": 8}


def test_a_number_becomes_a_schedule_field_by_field():
    config = after("method.label_rate.kind=cosine", "method.label_rate.start=2.0")
    assert (config.method.label_rate.kind, config.method.label_rate.start) == ("cosine", 2.0)


def test_phases_go_by_name_and_by_number():
    by_name, by_number = after("phases.correction.epochs=9"), after("phases.1.epochs=9")
    assert [phase.epochs for phase in by_name.phases] == [2, 9, 20]
    assert by_name == by_number


def test_a_whole_entry_of_a_list_may_be_set():
    config = after("phases.finetune={name='finetune', epochs=1, learning_rate=0.5}")
    assert (config.phases[2].epochs, config.phases[2].learning_rate) == (1, 0.5)


def test_lists_inside_lists_are_reached_by_number():
    changed = {"matrix": [[1.0, 0.0], [0.0, 1.0]]}
    assign(changed, "matrix.1.0", 0.5)
    assert changed == {"matrix": [[1.0, 0.0], [0.5, 1.0]]}


def test_later_settings_win():
    assert after("seed=1", "seed=2").seed == 2


def test_a_date_is_a_name_like_any_other():
    assert after("data.path=2020-01-01").data.path == "2020-01-01"


@pytest.mark.parametrize("part", ["corection", "3", "-1", "²"])
def test_an_unknown_entry_is_told_the_known_ones(part):
    with pytest.raises(ConfigError) as caught:
        assign(table(), f"phases.{part}.epochs", 1)
    assert str(caught.value) == (
        f"--set phases.{part}.epochs: no entry {part!r}; use one of backbone, correction, finetune, 0, 1, 2"
    )


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("a.2", "--set a.2: no entry '2'; use one of 0, 1"),
        ("empty.0", "--set empty.0: no entry '0'; the list is empty"),
        ("a.0.x", "--set a.0.x: 'x' is below a plain value; set that value itself"),
        ("a.0.x.y", "--set a.0.x.y: 'x' is below a plain value; set that value itself"),
    ],
)
def test_paths_that_lead_nowhere_in_a_list_are_config_errors(path, message):
    with pytest.raises(ConfigError) as caught:
        assign({"a": [1, 2], "empty": []}, path, 1)
    assert str(caught.value) == message


def test_a_misspelt_path_is_found_by_validation():
    with pytest.raises(ConfigError, match=r"optimizer\.momentun: unknown setting; did you mean 'momentum'\?"):
        after("optimizer.momentun=0.5")


@pytest.mark.parametrize(
    "text",
    [
        "x=" + "9" * 5000,
        "x=" + "[" * 5000,
        "x={" + "a." * 40 + "b=1}",
        ".".join("x" * 33) + "=1",
        "x=9" + "0" * 20,
    ],
    ids=["digits", "arrays", "key", "path", "bits"],
)
def test_what_no_setting_needs_is_refused(text):
    with pytest.raises(ConfigError, match=r"^--set: "):
        parse_assignment(text)
