"""Begin, extend and answer the audit of a run, and use its answers."""

from __future__ import annotations

import platform
import secrets
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from pencil._version import __version__
from pencil.audit.certificate import changes
from pencil.audit.draw import looks, shares
from pencil.audit.labels import FrozenLabels, nested_sets
from pencil.audit.log import Line, append, log_of, read_audits
from pencil.audit.record import STRATA, Answer, Audit, Bound, Draw, Plan, What
from pencil.errors import ConfigError, RunError
from pencil.identity import new_id
from pencil.results.decisions import FIRST
from pencil.review.elsewhere import MadeElsewhere, record
from pencil.review.opinions import SECOND
from pencil.run import RunDirectory

LOOKS = 100
ALPHA = MAX_ERROR = 0.05
NOTHING: Mapping[What, str] = {
    "relabels": "no label was changed; audit all labels with --what all",
    "all": "people decided about every label, so there is none to audit",
    "asked": "no label is doubtful enough to ask about; check a random sample with: pencil audit RUN --what all",
}


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What the user asks for; None stands for the audit's own value, or the default for a new audit."""

    what: What | None = None
    bound: Bound | None = None
    looks: int | None = None
    seed: int | None = None
    alpha: float | None = None
    max_error: float | None = None


def current_audit(directory: RunDirectory, what: What = "all") -> Audit | None:
    """The newest audit of a run, or the newest rows that were asked about; None if there are none."""
    return next(reversed(read_audits(directory.path, what)), None)


def begin(directory: RunDirectory, labels: FrozenLabels, wanted: Wanted) -> Audit:
    """Fix the plan of a new audit, draw its labels, and write both to the log.

    Raises:
        RunError: There is no label to audit.
    """
    what: What = wanted.what or "relabels"
    sizes = {name: len(labels.rows_of(name)) for name in STRATA[what]}
    if not sum(sizes.values()):
        raise RunError(f"{directory.path}: {NOTHING[what]}")
    seed = secrets.randbits(32) if wanted.seed is None else wanted.seed
    alpha = ALPHA if wanted.alpha is None else wanted.alpha
    max_error = MAX_ERROR if wanted.max_error is None else wanted.max_error
    counts = shares(sizes, wanted.looks or LOOKS)
    plan = Plan(
        id=new_id(),
        run=labels.run,
        entry=labels.table.entry,
        what=what,
        bound=wanted.bound or "exact",
        seed=seed,
        alpha=alpha,
        max_error=max_error,
        rule=labels.rule,
        labels=labels.fingerprint,
        sizes=sizes,
        mean_p_wrong={name: labels.mean_p_wrong(name) for name in sizes},
        thresholds=nested_sets(labels.sure(what), counts.get("relabel", 0), alpha, max_error),
        versions={"pencil": __version__, "python": platform.python_version()},
        at=_now(),
    )
    items = labels.items(looks(seed, sizes, [counts]), seed)
    first = Draw(audit=plan.id, counts=counts, answered=0, items=items)
    append(directory.path, what, Line(plan=plan), Line(draw=first))
    return Audit(plan, [first], [])


def resumed(directory: RunDirectory, audit: Audit, labels: FrozenLabels, wanted: Wanted) -> Audit:
    """Continue an audit: check that it is still about the same labels, and draw more of them if asked to.

    Raises:
        ConfigError: The options are not those of the audit.
        RunError: The labels or the rule have changed.
    """
    _check_options(audit.plan, wanted)
    problem = changes(audit, labels)
    if problem is not None:
        raise RunError(
            f"{directory.path / log_of(audit.plan.what)}: {problem}, so its answers certify nothing about them; "
            "restore them, or begin another audit with --new"
        )
    _count_as_decisions(directory, audit, labels, audit.labels)  # those that a killed process did not
    return audit if wanted.looks is None else _extended(directory, audit, labels, wanted.looks)


def _check_options(plan: Plan, wanted: Wanted) -> None:
    names = {"what": "--what", "bound": "--bound", "seed": "--seed", "max_error": "--max-error"}
    for name, option in {**names, "alpha": "--confidence"}.items():
        asked, fixed = getattr(wanted, name), getattr(plan, name)
        if asked is not None and asked != fixed:
            shown = f"{1 - fixed:g}" if name == "alpha" else fixed
            raise ConfigError(
                f"{option}: the audit was begun with {shown}; leave the option out, or begin another audit with --new"
            )


def _extended(directory: RunDirectory, audit: Audit, labels: FrozenLabels, count: int) -> Audit:
    plan, before = audit.plan, audit.draws[-1].counts
    counts = {name: max(before[name], more) for name, more in shares(plan.sizes, count).items()}
    if counts == before:
        return audit
    shown = looks(plan.seed, plan.sizes, [*(draw.counts for draw in audit.draws), counts])
    items = labels.items(shown[len(audit.items) :], plan.seed)
    more = Draw(audit=plan.id, counts=counts, answered=len(audit.labels), items=items)
    append(directory.path, plan.what, Line(draw=more), to=plan)
    return Audit(plan, [*audit.draws, more], audit.answers)


def answer(
    directory: RunDirectory,
    audit: Audit,
    labels: FrozenLabels,
    answers: Iterable[tuple[int, str | None]],
    auditor: str,
) -> Audit:
    """Record answers by look number, but not again and not of an audit that another replaced (see ``append``).

    They count as decisions on their rows, too.
    """
    known = audit.labels
    new = [
        Answer(audit=audit.plan.id, look=look, label=label, auditor=auditor, at=_now())
        for look, label in answers
        if look not in known or known[look] != label
    ]
    if new:
        append(directory.path, audit.plan.what, *(Line(answer=each) for each in new), to=audit.plan)
    answered = Audit(audit.plan, audit.draws, [*audit.answers, *new])
    _count_as_decisions(directory, answered, labels, {each.look for each in new})
    return answered


def _count_as_decisions(
    directory: RunDirectory, audit: Audit, labels: FrozenLabels, looks: Container[int]
) -> None:
    """Let everything that is said about the run know the answers to some looks; repeats are second opinions."""
    numbers = {name: number for number, name in enumerate(labels.names)}
    who = {each.look: each.auditor for each in audit.answers}
    for again, round_ in ((False, FIRST), (True, SECOND)):
        made = (
            MadeElsewhere(
                item.row,
                labels.table.row(item.row).ids[0],
                label=None if label is None else numbers[label],
                given=numbers[item.given],
                suggested=numbers[item.suggested],
                reviewer=who[item.number],
            )
            for item, label in audit.answered
            if item.number in looks and (item.again is not None) == again
        )
        record(directory, f"audit {audit.plan.id}", made, round_=round_)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
