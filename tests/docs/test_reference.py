"""The reference is whole: every setting, every public name."""

import re
from pathlib import Path

import pytest

import pencil
from pencil.config import RunConfig

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA = RunConfig.model_json_schema()


@pytest.fixture(scope="module")
def page():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOCS / "_ext"))
        from settings import reference
    return reference(SCHEMA)


def test_every_section_and_field_is_told(page):
    for name, definition in {"RunConfig": SCHEMA, **SCHEMA["$defs"]}.items():
        for field in definition["properties"]:
            told = f"| `{field}` |" in page or re.search(rf"^#+ {field} = ", page, re.MULTILINE)
            assert told, f"{name}.{field}"
    for definition in SCHEMA["$defs"].values():
        first = definition["description"].split("\n")[0].replace("``", "`").replace("|", "\\|")
        assert first in page


def test_types_bounds_defaults_and_meanings(page):
    assert (
        "| `validation` | number ≥ 0, < 1 | `0.0` | share of the training rows held out, noisy too |" in page
    )
    assert "| `label_rate` | number or schedule | `1.0` | η = λ / (B c), the label step per visit" in page
    assert "| `matrix` | list of lists of numbers | required |" in page
    assert '| `precision` | `auto`, `fp32`, `bf16` | `"fp32"` |' in page


def test_rows_of_tables_have_four_cells(page):
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert rows
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}


def test_what_all_kinds_of_data_share_is_told_once(page):
    assert page.count("| `validation` |") == 1


def test_every_public_name_is_documented():
    told = set(
        re.findall(
            r"auto(?:class|function):: pencil\.(\w+)$", (DOCS / "reference/python.md").read_text(), re.M
        )
    )
    errors = {"PencilError"}  # with all of pencil.errors
    assert told | errors == set(pencil.__all__) - {"__version__"}
