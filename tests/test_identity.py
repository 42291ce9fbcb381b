"""Seals: a sealed file that is not what was written is refused, whatever bit of it changed."""

import json
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from pencil.identity import (
    FORMAT,
    RUN,
    SealError,
    check_seal,
    empty_seal,
    new_id,
    run_id,
    seal_file,
    seal_of,
    seal_problem,
    sealed_json,
    write_identity,
)

OWNER = "a" * 32
VALUES = st.dictionaries(
    st.text(), st.integers() | st.floats(allow_nan=False) | st.text() | st.lists(st.booleans())
)


@pytest.fixture
def tensors(tmp_path):
    path = tmp_path / "a.safetensors"
    save_file({"x": torch.arange(300), "seal": torch.ones(2)}, path, {"seal": empty_seal(OWNER)})
    seal_file(path)
    return path


@pytest.fixture
def object_(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(
        sealed_json({"name": "é\udc80", "rate": 1e-05, "many": [1.0, True, None]}, OWNER, indent=2)
    )
    return path


@pytest.mark.parametrize("name", ["tensors", "object_"])
def test_every_flipped_bit_is_noticed(name, request):
    path = request.getfixturevalue(name)
    content = path.read_bytes()
    assert seal_problem(path, OWNER) is None
    bits = (
        range(8 * len(content))
        if name == "object_"
        else random.Random(5).sample(range(8 * len(content)), 2000)
    )
    for bit in bits:
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        assert seal_problem(path, OWNER) is not None, f"bit {bit}"


def test_a_sealed_file_is_read_as_before(tensors, object_):
    assert torch.equal(load_file(tensors)["x"], torch.arange(300))
    assert json.loads(object_.read_text())["many"] == [1.0, True, None]


@given(VALUES, st.booleans())
def test_any_object_can_be_sealed(tmp_path_factory, values, indented):
    path = tmp_path_factory.mktemp("seal") / "a.json"
    values.pop("seal", None)
    path.write_text(sealed_json(values, OWNER, indent=2 if indented else None))
    check_seal(path, OWNER, "remedy")
    assert json.loads(path.read_text()) == {**values, "seal": json.loads(path.read_text())["seal"]}


def test_a_file_of_another_owner_is_refused(object_):
    with pytest.raises(SealError, match=OWNER):
        check_seal(object_, "b" * 32, "restore it")


def test_a_file_without_seal_passes_only_where_nobody_expects_one(tmp_path):
    (tmp_path / "a.json").write_text("{}\n")
    assert seal_problem(tmp_path / "a.json", None) is None
    assert seal_problem(tmp_path / "a.json", OWNER) is not None


def test_a_newer_format_is_refused_with_words(object_):
    text = object_.read_text().replace(f"pencil {FORMAT} ", f"pencil {FORMAT + 1} ")
    object_.write_text(text)
    with pytest.raises(SealError, match="newer"):
        check_seal(object_, OWNER, "restore it")


def test_a_run_has_an_id_of_its_own(tmp_path):
    assert run_id(tmp_path) is None
    owner = write_identity(tmp_path)
    assert run_id(tmp_path) == owner
    assert seal_of(tmp_path / RUN).owner == owner
    assert owner != new_id()


@pytest.mark.parametrize(
    "content", ["[]", "{}", '{"format": 1, "id": 7}', "[" * 100_000, '{"format": 2, "id": "a"}']
)
def test_a_damaged_identity_is_refused(tmp_path, content):
    (tmp_path / RUN).write_text(content)
    with pytest.raises(SealError):
        run_id(tmp_path)
