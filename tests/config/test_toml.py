"""TOML out: whatever plain values go in, the standard library reads back. TOML in: within bounds."""

import math
import time
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pencil.config.toml import from_toml, to_toml
from pencil.errors import ConfigError

pytestmark = pytest.mark.slow

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
KEYS = TEXT | st.from_regex(r"[A-Za-z0-9_-]{1,8}", fullmatch=True)
PLAIN = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | TEXT
    | st.just("\x7f\t\n\"'\\")
)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=120, deadline=None)
@given(table=st.dictionaries(KEYS, VALUES, max_size=4))
def test_plain_values_of_any_depth_come_back_as_they_were(table):
    assert tomllib.loads(to_toml(table)) == table


@settings(max_examples=50, deadline=None)
@given(tables=st.lists(st.dictionaries(KEYS, VALUES, max_size=3), min_size=1, max_size=3), last=PLAIN)
def test_lists_of_tables_come_back_beside_plain_values_and_tables(tables, last):
    table = {"outer": {"tables": tables, "inner": {"tables": tables}}, "tables": tables, "last": last}
    assert tomllib.loads(to_toml(table)) == table


def test_whole_floats_stay_floats_and_integers_integers():
    table = tomllib.loads(to_toml({"whole": 1.0, "large": 1e300, "small": 5e-324, "count": 1, "flag": True}))
    assert [type(value) for value in table.values()] == [float, float, float, int, bool]


def test_numbers_that_are_not_finite_have_a_spelling():
    table = tomllib.loads(to_toml({"most": math.inf, "least": -math.inf, "none": math.nan}))
    assert (table["most"], table["least"]) == (math.inf, -math.inf)
    assert math.isnan(table["none"])


def test_none_is_left_out_of_tables():
    table = {"a": None, "b": {"c": None, "d": 1}, "e": [{"f": None, "g": 2}], "h": [[{"i": None}]]}
    assert tomllib.loads(to_toml(table)) == {"b": {"d": 1}, "e": [{"g": 2}], "h": [[{}]]}


def test_none_in_a_list_is_refused_and_not_written_wrong():
    with pytest.raises(ConfigError, match="a list in the settings contains None"):
        to_toml({"a": [1, None]})


def test_tuples_are_written_as_arrays():
    assert to_toml({"a": (1, (2.0, "x"))}) == 'a = [1, [2.0, "x"]]\n'


def test_a_file_reads_as_a_person_would_write_it():
    table = {
        "seed": 0,
        "data": {"kind": "idx", "noise": {"kind": "symmetric", "rate": 0.4}, "path": "a b"},
        "phases": [
            {"name": "backbone", "learning_rate": {"kind": "linear", "start": 0.1}},
            {"name": "finetune"},
        ],
    }
    assert to_toml(table) == (
        "seed = 0\n"
        "\n"
        "[data]\n"
        'kind = "idx"\n'
        'path = "a b"\n'
        "\n"
        "[data.noise]\n"
        'kind = "symmetric"\n'
        "rate = 0.4\n"
        "\n"
        "[[phases]]\n"
        'name = "backbone"\n'
        'learning_rate = { kind = "linear", start = 0.1 }\n'
        "\n"
        "[[phases]]\n"
        'name = "finetune"\n'
    )


def test_an_empty_table_is_an_empty_file():
    assert tomllib.loads(to_toml({})) == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (".".join(["a"] * 50_000) + " = 1", "a key has more than 32 parts"),
        (" . ".join(['"a\\".b"'] * 33) + " = 1", "a key has more than 32 parts"),
        ("[" + ".".join(["a"] * 50_000) + "]", "a key has more than 32 parts"),
        ("x = " + "[" * 100_000, "not valid TOML"),
        ("x = " + "{a = " * 50_000, "not valid TOML"),
        ("x = " + "[" * 33 + "]" * 33, "nested more than 32 deep"),
        ("x = " + "9" * 5_000, "not valid TOML"),
        ("x = 9223372036854775808", "has more than 64 bits"),
        ("x = [[-9223372036854775809]]", "has more than 64 bits"),
    ],
    ids=["dots", "quoted", "header", "arrays", "tables", "deep", "digits", "bits", "inside"],
)
def test_what_no_settings_need_is_refused(text, problem):
    with pytest.raises(ConfigError, match=f"^here: .*{problem}"):
        from_toml(text, "here")


@pytest.mark.parametrize(
    "text",
    [
        "x = [" + "0.5, " * 1000 + "]",
        'x = "' + "a." * 100 + '"',
        "x = '''" + "a.\n" * 100 + "'''",
        "# " + "a." * 100 + "\nx = 1",
        ".".join("a" * 31) + " = 1",
        "x = -9223372036854775808",
    ],
    ids=["numbers", "string", "literal", "comment", "key", "integer"],
)
def test_what_settings_may_hold_is_read(text):
    assert from_toml(text, "here") == tomllib.loads(text)


@pytest.mark.parametrize(
    "text",
    ['"\\' * 100_000, "'" * 200_000, "a" * 200_000, "a " * 100_000, '"""' * 70_000],
    ids=["escapes", "apostrophes", "word", "words", "quotes"],
)
def test_text_that_only_looks_like_a_key_takes_no_time(text):
    begun = time.process_time()
    with pytest.raises(ConfigError):
        from_toml(text, "here")
    assert time.process_time() - begun < 10  # in the square of the length it would be minutes
