"""The settings page, written from the JSON schema of ``RunConfig``: field, type, default, meaning."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pencil.config import RunConfig

if TYPE_CHECKING:
    from sphinx.application import Sphinx

MARK = "<!-- settings -->"
Schema = Mapping[str, Any]
FOLDED = {"learning_rate", "label_rate"}  # schedules are described once, at the end


def reference(schema: Schema) -> str:
    """All settings as Markdown: a table of the sections, then a heading for each."""
    defs: Schema = schema["$defs"]
    parts = [_rows(_summarised(schema["properties"], defs), schema)]
    for name, field in schema["properties"].items():
        parts += _section(name, field, defs, level=2)
    schedules = [defs[name] for name in ("LinearSchedule", "CosineSchedule", "PiecewiseSchedule")]
    parts += ["## Schedules", 'A number that changes over its phase: `{kind = "cosine", start = 0.1}`.']
    parts += [part for each in schedules for part in _alternative(each, "kind", (), 3)]
    return "\n\n".join(parts)


def _section(path: str, field: Schema, defs: Schema, level: int) -> Iterator[str]:
    """A heading, what it is, its fields; for alternatives what they share and then each."""
    found = [defs[name] for name in dict.fromkeys(_names(field))]
    if not found or path.rpartition(".")[2] in FOLDED:
        return
    yield f"{'#' * level} {path}"
    if len(found) == 1:
        yield from _described(found[0], ())
    else:
        key = field.get("discriminator", _inner(field)).get("propertyName", "kind")
        shared = _shared(found)
        if shared:
            yield f"Whatever the {key}:"
            yield _rows({name: found[0]["properties"][name] for name in shared}, found[0])
        for each in found:
            yield from _alternative(each, key, shared, level + 1)
    for name, inner in _fields_of(found).items():
        yield from _section(f"{path}.{name}", inner, defs, level + 1)


def _alternative(definition: Schema, key: str, without: tuple[str, ...], level: int) -> Iterator[str]:
    chosen = definition["properties"][key]
    names = chosen.get("enum", [chosen.get("const")])
    yield f"{'#' * level} {key} = {', '.join(map(str, names))}"
    yield from _described(definition, (*without, key))


def _described(definition: Schema, without: tuple[str, ...]) -> Iterator[str]:
    text = re.split(r"\n\nAttributes:", definition.get("description", ""))[0]
    yield _inline(text)
    fields = {name: field for name, field in definition["properties"].items() if name not in without}
    if fields:
        yield _rows(fields, definition)


def _summarised(fields: Mapping[str, Schema], defs: Schema) -> dict[str, Schema]:
    """Fields without a description, described by the section that they hold."""
    return {name: {"description": _summary(field, defs), **field} for name, field in fields.items()}


def _summary(field: Schema, defs: Schema) -> str:
    """The first line of the one section there may be, or the names of all."""
    if "discriminator" in field:
        return f"{field['discriminator']['propertyName']}: {', '.join(field['discriminator']['mapping'])}"
    return next((defs[name]["description"].split("\n")[0] for name in _names(field)), "")


def _rows(fields: Mapping[str, Schema], definition: Schema) -> str:
    meanings = _attributes(definition.get("description", ""))
    lines = ["| setting | type | default | |", "|---|---|---|---|"]
    for name, field in fields.items():
        required = name in definition.get("required", ())
        default = "required" if required else _default(field)
        meaning = field.get("description") or meanings.get(name, "")
        lines.append(f"| `{name}` | {_type(field)} | {default} | {_inline(meaning)} |")
    return "\n".join(lines)


def _attributes(description: str) -> dict[str, str]:
    """The meanings under ``Attributes:`` in a Google docstring."""
    _, _, listed = description.partition("\n\nAttributes:\n")
    joined = re.sub(r"\n {5,}", " ", listed)
    return dict(line.strip().split(": ", 1) for line in joined.splitlines() if ": " in line)


def _type(field: Schema) -> str:
    if "$ref" in field or "oneOf" in field:
        return "table"
    if "anyOf" in field:
        kinds = [_type(each) for each in field["anyOf"] if each.get("type") != "null"]
        table = "schedule" if "number" in kinds else "table"
        return " or ".join(dict.fromkeys(table if kind == "table" else kind for kind in kinds))
    if "enum" in field or "const" in field:
        return ", ".join(f"`{value}`" for value in field.get("enum", [field.get("const")]))
    if field.get("type") == "array":
        inner = _type(field.get("items", {}))
        return f"list of {inner.replace('list of', 'lists of') if 'list' in inner else inner + 's'}"
    kind = str(field.get("type", "any"))
    return _bounded({"object": "table", "integer": "whole number"}.get(kind, kind), field)


def _bounded(kind: str, field: Schema) -> str:
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    bounds = [f"{sign} {field[key]:g}" for key, sign in signs.items() if key in field]
    return f"{kind} {', '.join(bounds)}".strip()


def _default(field: Schema) -> str:
    value = field.get("default")
    if value is None:
        return "–"
    if isinstance(value, Mapping):
        return "as below" if value else "empty"
    return f"`{json.dumps(value, ensure_ascii=False)}`"


def _inline(text: str) -> str:
    """Inline ``code`` of reStructuredText as Markdown's, on one line, safe within a table."""
    return re.sub(r"\s*\n\s*", " ", text.replace("``", "`")).replace("|", "\\|")


def _names(field: Any) -> Iterator[str]:
    """The definitions that a field refers to, itself or by what it is made of."""
    if isinstance(field, Mapping):
        if "$ref" in field:
            yield field["$ref"].rpartition("/")[2]
        for key in ("oneOf", "anyOf", "items"):
            yield from _names(field.get(key))
    elif isinstance(field, list):
        for each in field:
            yield from _names(each)


def _inner(field: Schema) -> Schema:
    return next((each["discriminator"] for each in field.get("anyOf", ()) if "discriminator" in each), {})


def _shared(found: list[Any]) -> tuple[str, ...]:
    first = found[0]["properties"]
    return tuple(name for name in first if all(each["properties"].get(name) == first[name] for each in found))


def _fields_of(found: list[Any]) -> dict[str, Schema]:
    return {name: field for each in found for name, field in each["properties"].items()}


def _fill(_: Sphinx, __: str, source: list[str]) -> None:
    if MARK in source[0]:
        source[0] = source[0].replace(MARK, reference(RunConfig.model_json_schema()))


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", _fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
