"""Explain all validation errors: field, value and remedy, with "did you mean"."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from pencil.errors import did_you_mean

SCHEDULES = ("linear", "piecewise", "cosine")
MOST_DETAILS, MOST_LINES = 300, 40  # an untrusted file may contain a million mistakes
MOST_SHOWN = 200  # characters of a value
_PLAIN = {"float", "int"}
_MEMBERS = {f"{kind.capitalize()}Schedule": kind for kind in SCHEDULES}  # pydantic's name of each kind
_BRANCHES = {*_PLAIN, *_MEMBERS}
_WORDS = {
    "float_type": "should be a number",
    "finite_number": "should be finite",
    "int_type": "should be a whole number",
    "bool_type": "should be true or false",
    "string_type": "should be a string, in quotes",
    "model_type": "should be a table",
    "dataclass_type": "should be a table",
    "dict_type": "should be a table",
    "tuple_type": "should be an array",
}
_A_SCHEDULE = f"should be a number or a table with kind = {', '.join(SCHEDULES[:-1])} or {SCHEDULES[-1]}"


def explain(error: ValidationError, table: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """Describe every mistake on its own line; only the first ones if there are very many."""
    details = error.errors(include_url=False)
    lines = list(dict.fromkeys(_lines(details[:MOST_DETAILS], table, schema)))
    head = "1 setting is wrong" if len(lines) == 1 else f"{len(lines)} settings are wrong"
    if len(details) > MOST_DETAILS or len(lines) > MOST_LINES:
        head, lines = f"more than {min(len(lines), MOST_LINES)} settings are wrong", lines[:MOST_LINES]
    return "\n".join([f"{head}:", *(f"  {line}" for line in lines)])


def _lines(
    details: Sequence[ErrorDetails], table: Mapping[str, Any], schema: Mapping[str, Any]
) -> Iterable[str]:
    for detail in details:
        path, branch = _without_branches(detail["loc"], table, schema)
        if detail["type"] == "too_short" and _lookup(table, path):
            continue  # not empty: its entries are wrong and reported separately
        if branch is None:
            yield _sentence(detail, path, table, schema)
        else:
            yield from _schedule_lines(detail, path, branch, table, schema)


def _schedule_lines(
    detail: ErrorDetails,
    path: tuple[str | int, ...],
    branch: tuple[tuple[str | int, ...], str],
    table: Mapping[str, Any],
    schema: Mapping[str, Any],
) -> Iterable[str]:
    """Report a wrong schedule once: pydantic reports it as a number and as every kind of schedule."""
    place, member = branch
    value = _lookup(table, place)
    if not isinstance(value, Mapping):
        if member in _PLAIN:
            word = "should be finite" if detail["type"] == "finite_number" else _A_SCHEDULE
            yield f"{_dotted(place)}: {_shown(value)} {word}"
    elif "kind" not in value:
        yield f"{_dotted(place)}.kind: missing; use {_either(SCHEDULES)}"
    elif value["kind"] not in SCHEDULES:
        word = str(value["kind"])
        yield f"{_dotted(place)}.kind: {_shown(value['kind'])} is unknown{_hint(word, SCHEDULES)}"
    elif _MEMBERS.get(member) == value["kind"]:
        yield _sentence(detail, path, table, schema)


def _sentence(
    detail: ErrorDetails, path: tuple[str | int, ...], table: Mapping[str, Any], schema: Mapping[str, Any]
) -> str:
    field = _dotted(path)
    kind, context = detail["type"], detail.get("ctx", {})
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"{field}: unknown setting{_hint(str(path[-1]), _fields(schema, table, path[:-1]))}"
    if kind in ("missing", "missing_argument", "missing_keyword_only_argument"):
        return f"{field}: missing; set it in the config or with --set {field}=..."
    if kind.startswith("union_tag"):
        return _tag_sentence(field, context, _tags(schema, table, path))
    if kind == "too_short":
        return f"{field}: empty; add at least {context['min_length']} entry"
    message = detail["msg"].removeprefix("Value error, ").removeprefix("Input ")
    if kind == "value_error":
        # A dataclass's own check: the message begins with the field's name if a single field is wrong.
        name, _, rest = message.partition(": ")
        return f"{field}.{name}: {rest}" if name in _fields(schema, table, path) else f"{field}: {message}"
    return f"{field}: {_shown(detail['input'])} {_WORDS.get(kind, message)}"


def _tag_sentence(field: str, context: Mapping[str, Any], tags: Sequence[str]) -> str:
    """Describe a wrong ``kind`` or ``name``, which selects one of several tables."""
    key = str(context["discriminator"]).strip("'").removesuffix("()")  # it may be a function of that name
    if "tag" not in context:
        return f"{field}.{key}: missing; use {_either(tags)}"
    word = str(context["tag"])
    own = ", or your own as package.module:Name" if field == "method" else ""
    return f"{field}.{key}: {word!r} is unknown{did_you_mean(word, tags) or _known(tags) + own}"


def _without_branches(
    loc: tuple[str | int, ...], table: Mapping[str, Any], schema: Mapping[str, Any]
) -> tuple[tuple[str | int, ...], tuple[tuple[str | int, ...], str] | None]:
    """Return the path in the user's table, and the branch of a union of schedules, if any.

    pydantic inserts the name (or the tag) of the union's member into the path, after the union.
    """
    path: tuple[str | int, ...] = ()
    branch, tagged = None, None
    for part in loc:
        if tagged != path and part in _tags(schema, table, path):
            tagged = path
        elif part in _BRANCHES and _lookup(table, (*path, part)) is None:
            branch = (path, str(part))
        else:
            path = (*path, part)
    return path, branch


def _lookup(table: Any, path: Sequence[str | int]) -> Any:
    for part in path:
        try:
            table = table[part]
        except (KeyError, IndexError, TypeError):
            return None
    return table


def _dotted(path: Sequence[str | int]) -> str:
    return ".".join(str(part) for part in path) or "config"


def _shown(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def _fields(schema: Mapping[str, Any], table: Mapping[str, Any], path: Sequence[str | int]) -> set[str]:
    """The settings that exist at a path, from the JSON schema."""
    value = _lookup(table, path)
    nodes = _nodes(schema, table, path)
    options = [option for node in nodes for option in _options(schema, node, value)]
    return {name for option in options for name in option.get("properties", {})}


def _tags(schema: Mapping[str, Any], table: Mapping[str, Any], path: Sequence[str | int]) -> list[str]:
    """The allowed values of ``kind`` or ``name`` at a path; empty if it does not select a table."""
    nodes = _nodes(schema, table, path)
    unions = [union for node in nodes for union in (node, *node.get("anyOf", ()))]
    return [tag for union in unions for tag in union.get("discriminator", {}).get("mapping", {})]


def _nodes(schema: Mapping[str, Any], table: Any, path: Sequence[str | int]) -> list[Mapping[str, Any]]:
    """The JSON schema's nodes at a path, selected by the table's tags."""
    nodes = [schema]
    for part in path:
        options = [option for node in nodes for option in _options(schema, node, table)]
        found = (
            option.get("items") if isinstance(part, int) else option.get("properties", {}).get(part)
            for option in options
        )
        nodes = [child for child in found if child is not None]
        table = _lookup(table, (part,))
    return nodes


def _options(schema: Mapping[str, Any], node: Mapping[str, Any], value: Any) -> list[Mapping[str, Any]]:
    """Resolve references and unions of a node, without members that the value's tag excludes."""
    if "$ref" in node:
        return _options(schema, schema["$defs"][node["$ref"].rsplit("/", 1)[1]], value)
    branches = node.get("anyOf") or node.get("oneOf")
    if not branches:
        return [node]
    options = [option for branch in branches for option in _options(schema, branch, value)]
    return [option for option in options if _admits(option, value)] or options


def _admits(option: Mapping[str, Any], value: Any) -> bool:
    for key in ("kind", "name"):
        tag = option.get("properties", {}).get(key, {})
        allowed = tag.get("enum", [tag["const"]] if "const" in tag else None)
        if allowed and isinstance(value, Mapping) and value.get(key, allowed[0]) not in allowed:
            return False
    return True


def _either(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _hint(word: str, known: Iterable[str]) -> str:
    return did_you_mean(word, known) or _known(known)


def _known(words: Iterable[str]) -> str:
    return f"; known: {', '.join(sorted(words))}"
