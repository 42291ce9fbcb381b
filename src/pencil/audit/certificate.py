"""The certificate of an audit: a JSON file that contains everything needed to recompute its statements."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from pencil._version import __version__
from pencil.audit.draw import looks
from pencil.audit.findings import findings, sentences
from pencil.audit.labels import FrozenLabels, nested_sets
from pencil.audit.record import STRATA, Answer, Audit, Draw, Plan
from pencil.errors import RunError
from pencil.reading import JSON_BYTES, parse_json, read_bytes
from pencil.results import writing

FORMAT = "pencil audit certificate 2"
FORMATS = (FORMAT, "pencil audit certificate 1")  # the first one was without the ids of run and audit
CHECKSUM = "checksum"


class CertificateError(RunError):
    """A certificate that does not hold."""


class _Contents(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    format: str
    written_by: str
    statements: list[str]
    findings: dict[str, Any]
    plan: Plan
    draws: list[Draw]
    answers: list[Answer]
    checksum: str


def write_certificate(path: Path, audit: Audit) -> dict[str, Any]:
    """Write the certificate of an audit and return its contents."""
    found = findings(audit)
    contents: dict[str, Any] = {
        "format": FORMAT,
        "written_by": f"pencil {__version__}",
        "statements": sentences(audit, found),
        "findings": found,
        "plan": audit.plan.model_dump(mode="json"),
        "draws": [draw.model_dump(mode="json") for draw in audit.draws],
        "answers": [answer.model_dump(mode="json") for answer in audit.answers],
    }
    contents[CHECKSUM] = checksum(contents)
    with writing(path, ".json") as partial:
        partial.write_text(json.dumps(contents, indent=1) + "\n", encoding="ascii")
    return contents


def checksum(contents: dict[str, Any]) -> str:
    """SHA-256 of all other fields, as JSON with sorted keys and without spaces."""
    rest = {name: value for name, value in contents.items() if name != CHECKSUM}
    return hashlib.sha256(_text(rest).encode("ascii")).hexdigest()


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def verify(path: Path, labels: Callable[[int], FrozenLabels] | None = None) -> dict[str, Any]:
    """Recompute a certificate from its own contents, and compare it with the labels of its run if they are given.

    Args:
        path: The certificate.
        labels: Gives the labels of the run after so many decisions.

    Returns:
        The contents of the certificate.

    Raises:
        CertificateError: Something was altered, or the labels are others.
    """
    text = read_bytes(path, limit=JSON_BYTES, error=CertificateError)
    contents: Any = parse_json(text, source=path, error=CertificateError)
    known = contents.get("format") if isinstance(contents, dict) else None
    if known not in FORMATS:
        raise _rejected(path, f"its format is {str(known)[:80]!r}, and this version knows {FORMAT!r}")
    try:
        parsed = _Contents.model_validate_json(text)
        computed = checksum(contents)
    except (ValidationError, ValueError, RecursionError) as error:
        raise _rejected(path, f"it is not a certificate ({str(error).splitlines()[0][:200]})") from error
    if computed != parsed.checksum:
        raise _rejected(path, "its checksum does not match its contents")
    problem = _problem(Audit(parsed.plan, parsed.draws, parsed.answers), contents)
    if problem is None and labels is not None:
        problem = changes(Audit(parsed.plan, parsed.draws, parsed.answers), labels(parsed.plan.entry))
    if problem is not None:
        raise _rejected(path, problem)
    return dict(contents)


def _rejected(path: Path, problem: str) -> CertificateError:
    return CertificateError(f"{path}: rejected, {problem}; ask for the original, or audit the run again")


def _problem(audit: Audit, contents: dict[str, Any]) -> str | None:
    """Why a certificate does not hold; None if it does."""
    items = audit.items
    first = sum(item.again is None for item in items)
    if not _follow(audit.draws) or sum(audit.draws[-1].counts.values()) != first:
        return "it does not list the labels that were drawn"
    try:
        drawn = looks(audit.plan.seed, audit.plan.sizes, [draw.counts for draw in audit.draws])
        if drawn != [item.look for item in items]:
            return "the labels are not those that the seed draws"
        if not all({item.given, item.suggested} <= set(item.choices) for item in items):
            return "it lists labels that were not among the choices"
        if not _is_one(audit):
            return "it answers labels that were not drawn, or holds parts of another audit"
        found = findings(audit)
        if _text(found) != _text(contents["findings"]):
            return "its counts or bounds do not follow from its answers"
        if sentences(audit, found) != contents["statements"]:
            return "its statements do not follow from its answers"
    except (LookupError, TypeError, ArithmeticError, ValueError, StopIteration) as error:
        return f"its parts do not fit together ({type(error).__name__})"
    return None


def _is_one(audit: Audit) -> bool:
    """Whether draws and answers are of this audit, and answers about what was drawn."""
    own = {each.audit for each in audit.draws} | {each.audit for each in audit.answers} <= {audit.plan.id}
    looks = {answer.look for answer in audit.answers}
    return own and looks <= {item.number for item in audit.items}


def _follow(draws: Sequence[Draw]) -> bool:
    """Whether there are draws, and none of them has drawn more than the last one."""
    return bool(draws) and all(
        0 <= count <= draws[-1].counts.get(name, -1) for draw in draws for name, count in draw.counts.items()
    )


def changes(audit: Audit, labels: FrozenLabels) -> str | None:
    """How the labels or the rule differ from those that an audit is about; None if they are the same."""
    plan = audit.plan
    if (plan.run, plan.entry) != (labels.run, labels.table.entry):
        return "it is about another run, or about labels after other decisions"
    if labels.rule != plan.rule:
        old, new = (json.dumps(rule, sort_keys=True) for rule in (plan.rule, labels.rule))
        return f"the verdict rule of the run is {new} now, and was {old} in the audit"
    if labels.fingerprint != plan.labels:
        return "the labels of the run are not those of the audit"
    names = STRATA[plan.what]
    if plan.sizes != {name: len(labels.rows_of(name)) for name in names} or not all(
        math.isclose(plan.mean_p_wrong.get(name, -1.0), labels.mean_p_wrong(name), rel_tol=1e-6)
        for name in names
    ):
        return "the numbers of labels with each verdict are not those of the run"
    checked = audit.draws[0].counts.get("relabel", 0)
    if plan.thresholds != nested_sets(labels.sure(plan.what), checked, plan.alpha, plan.max_error):
        return "the sets of its fixed sequence are not those of the run"
    if labels.items([item.look for item in audit.items], plan.seed) != audit.items:
        return "the rows of the run are not those of the audit"
    return None
