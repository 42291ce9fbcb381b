"""Settings laid over settings."""

import pytest

from pencil.bench.layers import expand_variables, lay_over, resolve_settings
from pencil.errors import ConfigError
from pencil.presets import preset


@pytest.fixture
def base():
    return preset("features", "a.npz").table()


def test_values_and_named_phases_are_laid_over_and_the_base_is_left_alone(base):
    before = repr(base)
    found = lay_over(
        base, {"method": {"label_rate": 0.5}, "phases": {"correction": {"epochs": 7}}, "seed": 3}
    )
    assert found["method"] == {**base["method"], "label_rate": 0.5}
    assert [phase["epochs"] for phase in found["phases"]] == [2, 7, 20]
    assert found["seed"] == 3
    assert repr(base) == before


def test_another_name_or_kind_takes_the_whole_place(base):
    base["data"]["noise"] = {"kind": "matrix", "matrix": [[1.0]]}
    found = lay_over(
        base, {"method": {"name": "forward"}, "data": {"noise": {"kind": "symmetric", "rate": 0.1}}}
    )
    assert found["method"] == {"name": "forward"}
    assert found["data"]["noise"] == {"kind": "symmetric", "rate": 0.1}
    assert found["data"]["path"] == "a.npz"


def test_the_same_name_keeps_the_rest(base):
    found = lay_over(base, {"method": {"name": "pencil", "pull": 2.0}})
    assert found["method"] == {**base["method"], "pull": 2.0}


def test_a_phase_that_does_not_exist_is_named(base):
    with pytest.raises(ConfigError, match="no entry 'warmup'; use one of backbone, correction, finetune"):
        lay_over(base, {"phases": {"warmup": {"epochs": 1}}})


def test_a_setting_may_be_that_of_another():
    table = {"data": {"noise": {"rate": 0.4}}, "method": {"forget_rate": "${data.noise.rate}"}}
    assert resolve_settings(table)["method"] == {"forget_rate": 0.4}
    with pytest.raises(
        ConfigError, match=r"method.forget_rate: '\$\{data.noise.share\}', but there is no setting"
    ):
        resolve_settings({**table, "method": {"forget_rate": "${data.noise.share}"}})


def test_variables_of_the_environment_are_put_in_and_all_missing_ones_named(monkeypatch):
    monkeypatch.setenv("PLACE", "/data")
    assert expand_variables({"a": ["${PLACE}/x", 1]}) == {"a": ["/data/x", 1]}
    with pytest.raises(ConfigError) as caught:
        expand_variables({"data": {"path": "${NOWHERE_1}/x"}, "b": "${NOWHERE_2}"})
    assert str(caught.value).splitlines() == [
        "data.path: ${NOWHERE_1} is not set; export NOWHERE_1=..., or write the value",
        "b: ${NOWHERE_2} is not set; export NOWHERE_2=..., or write the value",
    ]
