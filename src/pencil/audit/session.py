"""Begin, extend and answer the audit of a run, and use its answers."""

from __future__ import annotations

import platform
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

import torch

from pencil._version import __version__
from pencil.algorithm import TopRows
from pencil.audit.certificate import changes
from pencil.audit.draw import looks, shares
from pencil.audit.labels import FrozenLabels, nested_sets, plain
from pencil.audit.log import LOG, Line, append, read_audits
from pencil.audit.record import STRATA, Answer, Audit, Bound, Draw, Plan, What
from pencil.errors import ConfigError, RunError
from pencil.estimates import Recalibration, recalibrate
from pencil.identity import new_id
from pencil.results import Audited, write_audited
from pencil.results.audited import AUDITED
from pencil.run import LabelTable, RunDirectory

LOOKS = 100
ALPHA = MAX_ERROR = 0.05


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What the user asks for; None stands for the audit's own value, or the default for a new audit."""

    what: What | None = None
    bound: Bound | None = None
    looks: int | None = None
    seed: int | None = None
    alpha: float | None = None
    max_error: float | None = None


def current_audit(directory: RunDirectory) -> Audit | None:
    """The newest audit of a run; None if there is none."""
    return next(reversed(read_audits(directory.path)), None)


def begin(directory: RunDirectory, labels: FrozenLabels, wanted: Wanted) -> Audit:
    """Fix the plan of a new audit, draw its labels, and write both to the log.

    Raises:
        RunError: There is no label to audit.
    """
    what: What = wanted.what or "relabels"
    sizes = {name: len(labels.rows_of(name)) for name in STRATA[what]}
    if not sum(sizes.values()):
        raise RunError(f"{directory.path}: no label was changed; audit all labels with --what all")
    seed = secrets.randbits(32) if wanted.seed is None else wanted.seed
    alpha = ALPHA if wanted.alpha is None else wanted.alpha
    max_error = MAX_ERROR if wanted.max_error is None else wanted.max_error
    counts = shares(sizes, wanted.looks or LOOKS)
    plan = Plan(
        id=new_id(),
        run=labels.run,
        what=what,
        bound=wanted.bound or "exact",
        seed=seed,
        alpha=alpha,
        max_error=max_error,
        rule=labels.rule,
        labels=labels.fingerprint,
        sizes=sizes,
        mean_p_wrong={name: labels.mean_p_wrong(name) for name in sizes},
        thresholds=nested_sets(labels.sure(what), counts["relabel"], alpha, max_error),
        versions={"pencil": __version__, "python": platform.python_version()},
        at=_now(),
    )
    items = labels.items(looks(seed, sizes, [counts]), seed)
    first = Draw(audit=plan.id, counts=counts, answered=0, items=items)
    append(directory.path, Line(plan=plan), Line(draw=first))
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
            f"{directory.path / LOG}: {problem}, so its answers certify nothing about them; "
            "restore them, or begin another audit with --new"
        )
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
    append(directory.path, Line(draw=more), to=plan)
    return Audit(plan, [*audit.draws, more], audit.answers)


def answer(
    directory: RunDirectory, audit: Audit, answers: Iterable[tuple[int, str | None]], auditor: str
) -> Audit:
    """Record answers by look number, but not again and not of an audit that another replaced (see ``append``)."""
    known = audit.labels
    new = [
        Answer(audit=audit.plan.id, look=look, label=label, auditor=auditor, at=_now())
        for look, label in answers
        if look not in known or known[look] != label
    ]
    if new:
        append(directory.path, *(Line(answer=each) for each in new), to=audit.plan)
    return Audit(audit.plan, audit.draws, [*audit.answers, *new])


def recalibrate_run(directory: RunDirectory, audit: Audit) -> Recalibration | None:
    """Correct the probabilities of a run with the answers of an audit of all labels, if they contradict them.

    The correction is stored in the run; without a contradiction, an earlier one is removed.

    Raises:
        ConfigError: The audit is about changed labels only, which say nothing about the others.
    """
    if audit.plan.what != "all":
        raise ConfigError("--recalibrate: requires a sample of all labels; begin one with --new --what all")
    table = LabelTable.open(directory, recalibrated=False)
    numbers = {name: number for number, name in enumerate(map(plain, table.class_names))}
    pairs = [(item, label) for item, label in audit.answered if item.again is None and label is not None]
    if not pairs:
        raise RunError(f"{directory.path / LOG}: no label was judged yet; answer some first")
    found = [table.undecided(item.row) for item, _ in pairs]
    beliefs = [row.distribution for row in found]
    counts = {name: sum(item.stratum == name for item, _ in pairs) for name in audit.plan.sizes}
    correction = recalibrate(
        torch.cat([each.dense() if isinstance(each, TopRows) else each for each in beliefs]),
        torch.cat([row.given for row in found]),
        torch.tensor([numbers[str(label)] for _, label in pairs]),
        torch.tensor([audit.plan.sizes[item.stratum] / counts[item.stratum] for item, _ in pairs]),
    )
    if correction is None:
        (directory.path / AUDITED).unlink(missing_ok=True)
    else:
        write_audited(directory.path, Audited(correction, len(pairs)))
    return correction


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
