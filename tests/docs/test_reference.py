"""The reference is whole: every setting, every public name."""

import re
from pathlib import Path

import pytest

import pencil
import pencil.methods
from pencil.config import RunConfig

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
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
    assert "| `validation` | number ≥ 0, < 1 | `0.0` | share of the training rows to hold out" in page
    assert "| `label_rate` | number or schedule | `1.0` | η = λ / (B c), the label step per visit" in page
    assert "| `matrix` | list of lists of numbers | required |" in page
    assert '| `precision` | `auto`, `fp32`, `bf16` | `"fp32"` |' in page


def test_rows_of_tables_have_four_cells(page):
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert rows
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}


def test_what_all_kinds_of_data_share_is_told_once(page):
    assert page.count("| `validation` |") == 1


def documented() -> set[str]:
    page = (DOCS / "reference/python.md").read_text(encoding="utf-8")
    return set(re.findall(r"auto(?:class|function|module):: (\S+)$", page, re.M))


def test_every_public_name_is_documented():
    top = {name.removeprefix("pencil.") for name in documented() if re.fullmatch(r"pencil\.\w+", name)}
    modules = {"run", "errors"}  # PencilError with all of pencil.errors
    assert top - modules == set(dir(pencil)) - {"__version__", "PencilError", "methods"}


def test_every_method_is_documented():
    concrete = {name for name in pencil.methods.__all__ if hasattr(getattr(pencil.methods, name), "name")}
    assert {"DivideMix", "Pencil"} <= concrete
    assert {f"pencil.methods.{name}" for name in concrete} <= documented() | {
        "pencil.methods.Pencil",
        "pencil.methods.CrossEntropy",  # at the top, as pencil.Pencil and pencil.CrossEntropy
    }


def test_every_adapter_is_documented():
    files = {path.stem for path in (ROOT / "src/pencil/integrations").glob("*.py")}
    trainers = files - {"__init__", "beside", "sklearn", "sklearn_checks", "sklearn_inputs"}
    told = {name.split(".")[2] for name in documented() if name.startswith("pencil.integrations.")}
    assert told == trainers | {"beside"}
