"""Mistakes in words: all at once, each with its dotted field, its value and a remedy."""

import copy
import datetime
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pencil.config import RunConfig, assign
from pencil.errors import ConfigError
from pencil.methods import BuiltIn
from pencil.presets import preset

BASE = preset("features", "faces.npz").table()
ABSENT = object()
METHODS = sorted(method.name for method in get_args(BuiltIn))


def table_with(changes):
    table = copy.deepcopy(BASE)
    for path, value in changes.items():
        if value is ABSENT:
            section, _, name = path.rpartition(".")
            del (table[section] if section else table)[name]
        else:
            assign(table, path, value)
    return table


def mistakes(changes):
    """The lines below the heading."""
    with pytest.raises(ConfigError) as caught:
        RunConfig.of(table_with(changes))
    heading, *lines = str(caught.value).split("\n")
    count = "1 setting is" if len(lines) == 1 else f"{len(lines)} settings are"
    assert heading == f"{count} wrong:"
    assert all(line.startswith("  ") for line in lines)
    return [line.removeprefix("  ") for line in lines]


@pytest.mark.parametrize(
    ("field", "meant"),
    [
        ("sead", "seed"),
        ("optimizer.momentun", "momentum"),
        ("data.pth", "path"),
        ("method.pul", "pull"),
        ("phases.1.epoch", "epochs"),
    ],
)
def test_an_unknown_setting_is_told_the_nearest_known_one(field, meant):
    assert mistakes({field: 1}) == [f"{field}: unknown setting; did you mean '{meant}'?"]


@pytest.mark.parametrize(
    ("path", "value", "field", "meant"),
    [
        ("data.augment", {"pad": 4, "flipp": True}, "data.augment.flipp", "flip"),
        ("data.noise", {"kind": "symmetric", "rate": 0.1, "sed": 1}, "data.noise.sed", "seed"),
        ("method.label_rate", {"kind": "linear", "start": 1.0, "ende": 0.0}, "method.label_rate.ende", "end"),
        (
            "phases.finetune.learning_rate",
            {"kind": "piecewise", "values": [1.0], "boundaries": [], "boundary": []},
            "phases.2.learning_rate.boundary",
            "boundaries",
        ),
    ],
)
def test_an_unknown_setting_in_a_nested_table_too(path, value, field, meant):
    assert mistakes({path: value}) == [f"{field}: unknown setting; did you mean '{meant}'?"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"data.coarse": True},
            "data.coarse: unknown setting; known: "
            "augment, ceiling, columns, embed, keys, kind, labels, limit, noise, normalize, on_error, path, per_class, "
            "trusted, validation",
        ),
        ({"method": {"name": "cross_entropy", "pull": 1.0}}, "method.pull: unknown setting; known: name"),
        (
            {"method.label_rate": {"kind": "linear", "start": 1.0, "values": [1.0]}},
            "method.label_rate.values: unknown setting; known: end, kind, start",
        ),
    ],
    ids=["data", "method", "schedule"],
)
def test_a_setting_of_another_kind_is_not_what_was_meant(changes, message):
    assert mistakes(changes) == [message]


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("optimizer.momentum", 2, "2 should be less than 1"),
        ("optimizer.momentum", "fast", "'fast' should be a number"),
        ("optimizer.name", "sdg", "'sdg' should be 'sgd' or 'adamw'"),
        ("optimizer.nesterov", "yes", "'yes' should be true or false"),
        ("train.batch_size", 0, "0 should be greater than or equal to 1"),
        ("train.batch_size", 1.5, "1.5 should be a whole number"),
        ("train.precision", "fp16", "'fp16' should be 'auto', 'fp32' or 'bf16'"),
        ("train.compile", 1, "1 should be true or false"),
        ("checkpoint.seconds", 0, "0 should be greater than 0"),
        ("seed", True, "true should be a whole number"),
        ("seed", datetime.date(2020, 1, 2), "'2020-01-02' should be a whole number"),
        ("data.path", 7, "7 should be a string, in quotes"),
        ("data.validation", 1.0, "1.0 should be less than 1"),
        ("data.noise", "symmetric", "'symmetric' should be a table"),
        ("data.augment", 4, "4 should be a table"),
        ("data", 3, "3 should be a table"),
        ("model", "linear", "'linear' should be a table"),
        ("model.args", 3, "3 should be a table"),
        ("phases", "x", "'x' should be an array"),
        ("phases.1.epochs", "ten", "'ten' should be a whole number"),
        ("phases.1.name", "corection", "'corection' should be 'backbone', 'correction' or 'finetune'"),
        ("method.form", "paper", "'paper' should be 'printed' or 'reference'"),
        ("method.direction", "label", "'label' should be 'prediction_label' or 'label_prediction'"),
        ("method.pull", "a", "'a' should be a number"),
        ("method.divide_by_classes", 1, "1 should be true or false"),
    ],
)
def test_a_wrong_value_is_named_with_what_it_should_be(field, value, sentence):
    assert mistakes({field: value}) == [f"{field}: {sentence}"]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("method.pull", -1, "method.pull: -1.0 must not be negative"),
        ("method.entropy_weight", -0.5, "method.entropy_weight: -0.5 must not be negative"),
        ("method.initial_gap", 0, "method.initial_gap: 0.0 must be above 0"),
        ("method.label_rate", -1.0, "method.label_rate: -1.0 must not be negative"),
        (
            "optimizer",
            {"nesterov": True, "momentum": 0.0},
            "optimizer.nesterov: True needs momentum above 0; set optimizer.momentum=0.9",
        ),
        (
            "optimizer",
            {"nesterov": True, "name": "adamw"},
            "optimizer.nesterov: True has no effect on adamw; leave it out, or use sgd",
        ),
        ("data.augment", {"pad": -1}, "data.augment.pad: -1 must be 0 or more pixels"),
        (
            "data.augment",
            {"crop": 0},
            "data.augment.crop: 0 must be 1 or more pixels; leave it out to keep the images' size",
        ),
    ],
)
def test_a_dataclasss_own_check_names_the_dotted_field(path, value, message):
    assert mistakes({path: value}) == [message]


def test_negative_epochs_are_named_with_their_phase():
    (line,) = mistakes({"phases.correction.epochs": -1})
    assert line.startswith("phases.1")
    assert "epochs" in line
    assert "-1" in line


@pytest.mark.parametrize(
    ("values", "boundaries", "parts"),
    [
        ([1.0, 2.0], [1, 2], ("2 values need 1 boundaries", "got 2")),
        ([1.0, 2.0, 3.0], [2, 1], ("must increase",)),
    ],
)
def test_a_piecewise_schedule_that_does_not_add_up_says_so(values, boundaries, parts):
    schedule = {"kind": "piecewise", "values": values, "boundaries": boundaries}
    (line,) = mistakes({"phases.finetune.learning_rate": schedule})
    assert line.startswith("phases.2.learning_rate")
    assert all(part in line for part in parts)


@pytest.mark.parametrize("field", ["data.path", "data", "model", "model.name", "phases"])
def test_a_missing_setting_is_told_how_to_be_set(field):
    assert mistakes({field: ABSENT}) == [f"{field}: missing; set it in the config or with --set {field}=..."]


def test_a_missing_setting_of_a_phase_is_named_by_number():
    assert mistakes({"phases.correction": {"name": "correction", "epochs": 3}}) == [
        "phases.1.learning_rate: missing; set it in the config or with --set phases.1.learning_rate=..."
    ]


@pytest.mark.parametrize(
    ("field", "value", "hint"),
    [
        ("data.kind", "cifar11", "did you mean 'cifar10'?"),
        (
            "data.kind",
            "zzz",
            "known: cifar10, cifar100, clothing1m, cub200, features, folder, idx, manifest, python, shards, table, "
            "text",
        ),
        ("method.name", "pencl", "did you mean 'pencil'?"),
        (
            "method.name",
            "zzz",
            f"known: {', '.join(METHODS)}, or your own as package.module:Name",
        ),
        ("data.noise.kind", "symetric", "did you mean 'symmetric'?"),
        ("data.noise.kind", "zzz", "known: cifar10, circular, file, instance, matrix, symmetric"),
        ("method.label_rate.kind", "liner", "did you mean 'linear'?"),
        ("phases.0.learning_rate.kind", "zzz", "known: cosine, linear, piecewise"),
    ],
)
def test_an_unknown_kind_is_told_the_known_ones(field, value, hint):
    assert mistakes({field: value}) == [f"{field}: '{value}' is unknown; {hint}"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"data.kind": ABSENT},
            "data.kind: missing; use cifar10, cifar100, clothing1m, cub200, features, folder, idx, manifest, "
            "python, shards, table or text",
        ),
        ({"method.name": ABSENT}, f"method.name: missing; use {', '.join(METHODS[:-1])} or {METHODS[-1]}"),
        (
            {"data.noise.rate": 0.4},
            "data.noise.kind: missing; use cifar10, circular, file, instance, matrix or symmetric",
        ),
        (
            {"method.label_rate": {"from": 1.0}},
            "method.label_rate.kind: missing; use linear, piecewise or cosine",
        ),
    ],
    ids=["data", "method", "noise", "schedule"],
)
def test_a_missing_kind_is_told_the_known_ones(changes, message):
    assert mistakes(changes) == [message]


@pytest.mark.parametrize("field", ["method.label_rate", "phases.0.learning_rate"])
@pytest.mark.parametrize(("value", "shown"), [("fast", "'fast'"), (True, "true"), ([1], "[1]")])
def test_what_is_neither_number_nor_schedule_is_told_what_is(field, value, shown):
    assert mistakes({field: value}) == [
        f"{field}: {shown} should be a number or a table with kind = linear, piecewise or cosine"
    ]


def test_a_schedule_with_another_kinds_fields_lists_what_it_lacks_and_has_too_much():
    assert mistakes({"method.label_rate": {"kind": "linear", "values": [1.0]}}) == [
        "method.label_rate.start: missing; set it in the config or with --set method.label_rate.start=...",
        "method.label_rate.values: unknown setting; known: end, kind, start",
    ]


def test_a_wrong_value_inside_a_schedule_is_named_once():
    schedule = {"kind": "piecewise", "values": [1.0, "a"], "boundaries": [3]}
    assert mistakes({"phases.0.learning_rate": schedule}) == [
        "phases.0.learning_rate.values.1: 'a' should be a number"
    ]


def test_a_setting_called_like_its_kind_keeps_its_place():
    assert mistakes({"data.noise": {"kind": "matrix", "matrix": 3}}) == [
        "data.noise.matrix: 3 should be an array"
    ]
    assert mistakes({"data.noise": {"kind": "matrix", "matrix": [[1.0, "a"]]}}) == [
        "data.noise.matrix.0.1: 'a' should be a number"
    ]


def test_no_phases_are_too_few():
    assert mistakes({"phases": []}) == ["phases: empty; add at least 1 entry"]


def test_a_wrong_phase_does_not_also_count_as_none():
    assert mistakes({"phases": [1]}) == ["phases.0: 1 should be a table"]


def test_every_mistake_is_reported_at_once():
    found = mistakes(
        {
            "sead": 1,
            "data.path": ABSENT,
            "data.noise": {"kind": "symmetric", "rate": 1.5, "sed": 3},
            "data.augment": {"pad": -1},
            "model.nam": "linear",
            "method.pull": -1,
            "phases.backbone.epochs": 1.5,
            "phases.correction.learning_rate": {"kind": "liner", "start": 1.0},
            "phases.finetune.learning_rate": {"kind": "cosine", "end": 0.0},
            "optimizer.momentum": 2,
            "train.device": 0,
            "checkpoint.keep": 0,
        }
    )
    assert sorted(found) == sorted(
        [
            "sead: unknown setting; did you mean 'seed'?",
            "data.path: missing; set it in the config or with --set data.path=...",
            "data.noise.rate: 1.5 should be less than or equal to 1",
            "data.noise.sed: unknown setting; did you mean 'seed'?",
            "data.augment.pad: -1 must be 0 or more pixels",
            "model.nam: unknown setting; did you mean 'name'?",
            "method.pull: -1.0 must not be negative",
            "phases.0.epochs: 1.5 should be a whole number",
            "phases.1.learning_rate.kind: 'liner' is unknown; did you mean 'linear'?",
            "phases.2.learning_rate.start: missing; "
            "set it in the config or with --set phases.2.learning_rate.start=...",
            "optimizer.momentum: 2 should be less than 1",
            "train.device: 0 should be a string, in quotes",
            "checkpoint.keep: 0 should be greater than or equal to 1",
        ]
    )


@pytest.mark.parametrize("field", ["data.kind", "method.name"])
def test_wrong_kinds_of_tables_do_not_hide_mistakes_elsewhere(field):
    assert len(mistakes({field: "zzz", "seed": "a", "optimizer.momentum": 2})) == 3


PLACES = [
    "seed",
    "data",
    "data.kind",
    "data.noise",
    "data.noise.matrix",
    "data.augment",
    "model",
    "model.args",
    "method",
    "method.name",
    "method.label_rate",
    "method.label_rate.kind",
    "method.label_rate.values",
    "phases",
    "phases.0",
    "phases.1.learning_rate",
    "optimizer",
    "train.batch_size",
]
WORDS = st.sampled_from(
    ["kind", "name", "linear", "LinearSchedule", "float", "matrix", "pencil", "symmetric", ""]
)
RUBBISH = st.recursive(
    st.integers(-1, 2) | st.booleans() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=80, deadline=None)
@given(place=st.sampled_from(PLACES), value=RUBBISH)
def test_no_rubbish_anywhere_escapes_explanation(place, value):
    try:
        RunConfig.of(table_with({place: value}))
    except ConfigError as error:
        heading, *lines = str(error).split("\n")
        assert heading.endswith(" wrong:")
        assert lines
        top = place.partition(".")[0]
        assert all(line.startswith(f"  {top}") and ": " in line for line in lines)


def test_of_very_many_mistakes_the_first_are_told():
    table = table_with({}) | {f"key{number}": 1 for number in range(5000)}
    with pytest.raises(ConfigError) as caught:
        RunConfig.of(table)
    heading, *lines = str(caught.value).split("\n")
    assert heading == "more than 40 settings are wrong:"
    assert len(lines) == 40


def test_a_long_value_is_told_in_part():
    (line,) = mistakes({"seed": "x" * 10_000})
    assert line == f"seed: '{'x' * 199}... should be a whole number"
