"""What the answers of an audit show: counts, bounds and sentences. A pure function, so that anyone can recompute it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pencil.audit.bounds import (
    allowed,
    checks_needed,
    fixed_sequence,
    live_bound,
    looks_to_certify,
    most_errors,
)
from pencil.audit.log import read_audits
from pencil.audit.record import Audit, Item
from pencil.audit.strata import Rate, Stratum, difference_rate, live_rate, stratified_rate

Findings = dict[str, Any]
Answered = Sequence[tuple[Item, str | None]]


def findings(audit: Audit) -> Findings:
    """Everything that an audit states, as plain values."""
    new = [(item, label) for item, label in audit.answered if item.again is None]
    found: Findings = {
        "complete": audit.is_complete,
        "looks": len(audit.items),
        "answered": len(audit.answered),
        "checked": len(new),
        "cannot_tell": sum(label is None for _, label in new),
        "changed_answers": len(audit.answers) - len(audit.labels),
        "agreement": _agreement(audit),
    }
    if audit.plan.sizes.get("relabel"):
        found["relabels"] = _relabels(audit, [pair for pair in new if pair[0].stratum == "relabel"])
    if audit.plan.what == "all":
        found["all"] = _all(audit, new)
    if audit.plan.what == "asked":
        found["asked"] = {"right": sum(label == item.suggested for item, label in new)}
    return found


def _agreement(audit: Audit) -> dict[str, int]:
    """How many looks were blind repeats, and how many of these got the same answer as the first time."""
    labels = audit.labels
    again = [(labels[item.again], label) for item, label in audit.answered if item.again is not None]
    return {"repeated": len(again), "agreed": sum(first == second for first, second in again)}


def _relabels(audit: Audit, new: Answered) -> Findings:
    """The bounds on changed labels. A label that the auditor cannot judge counts as wrong."""
    plan = audit.plan
    size, wrong = plan.sizes["relabel"], [label != item.suggested for item, label in new]
    most = allowed(size, plan.max_error)
    found: Findings = {
        "size": size,
        "drawn": audit.draws[-1].counts["relabel"],
        "checked": len(wrong),
        "wrong": sum(wrong),
        "max_wrong": most,
        "at_most": None,
        "looks_to_certify": None,
        "sample_to_certify": None,
        "thresholds": None,
    }
    if plan.bound == "live":
        found["at_most"] = live_bound(size, wrong, plan.alpha)
        found["looks_to_certify"] = looks_to_certify(size, wrong, plan.alpha, most)
    elif audit.is_complete:
        found["at_most"] = most_errors(size, len(wrong), sum(wrong), plan.alpha)
        found["thresholds"] = _thresholds(audit, new)
        found["sample_to_certify"] = checks_needed(size, plan.alpha, most, sum(wrong))
    found["certified"] = found["at_most"] is not None and found["at_most"] <= most
    return found


def _thresholds(audit: Audit, new: Answered) -> list[Findings]:
    """The fixed sequence: nested sets by confidence, and which of them are certified."""
    plan, sets = audit.plan, []
    for threshold in plan.thresholds:
        inside = [label != item.suggested for item, label in new if item.confidence >= threshold.confidence]
        sets.append((threshold.size, len(inside), sum(inside)))
    passed = fixed_sequence(sets, plan.max_error, plan.alpha)
    pairs = zip(plan.thresholds, passed, strict=True)
    return [{"confidence": threshold.confidence, **each._asdict()} for threshold, each in pairs]


def _all(audit: Audit, new: Answered) -> Findings:
    """Noise rate and remaining error of the whole set."""
    plan = audit.plan
    given = [_stratum(audit, name, new, of_given=True) for name in plan.sizes if plan.sizes[name]]
    final = [_stratum(audit, name, new, of_given=False) for name in plan.sizes if plan.sizes[name]]
    exact = plan.bound == "exact" and audit.is_complete
    return {
        "size": sum(plan.sizes.values()),
        "given_wrong": sum(each.errors for each in given),
        "final_wrong": sum(each.errors for each in final),
        "noise_rate": _rate(stratified_rate(given, plan.alpha)) if exact else None,
        "remaining_error": _rate(stratified_rate(final, plan.alpha)) if exact else None,
        "noise_rate_approximate": _rate(difference_rate(given)) if new else None,
        "remaining_error_at_most": live_rate(final, plan.alpha) if plan.bound == "live" else None,
    }


def _stratum(audit: Audit, name: str, new: Answered, *, of_given: bool) -> Stratum:
    """The answers in a stratum: whether the given label is wrong, or the one after the run."""
    pairs = [pair for pair in new if pair[0].stratum == name]
    wrong = [
        None if label is None else label != (item.given if of_given else item.final) for item, label in pairs
    ]
    return Stratum(
        size=audit.plan.sizes[name],
        wrong=wrong,
        expected=[item.p_wrong for item, _ in pairs],
        mean_expected=audit.plan.mean_p_wrong[name],
    )


def _rate(rate: Rate) -> dict[str, float]:
    return {name: round(value, 6) for name, value in rate._asdict().items()}


def bounds_in_words(audit: Audit, found: Findings) -> list[str]:
    """The bounds as sentences, the most important first."""
    if "asked" in found:
        return [f"{found['asked']['right']:,} of {_count(found['checked'], 'suggestion')} were right"]
    return [*_relabel_words(audit, found), *_all_words(audit, found)]


def sentences(audit: Audit, found: Findings) -> list[str]:
    """The findings as sentences: the bounds, and what to know about the answers."""
    said = bounds_in_words(audit, found)
    agreement = found["agreement"]
    if agreement["repeated"]:
        said.append(
            f"{agreement['agreed']} of {agreement['repeated']} labels that were shown twice got the same answer; "
            "all statements are relative to the auditor's answers"
        )
    if found["cannot_tell"]:
        counted = "" if "asked" in found else " and count as wrong"
        said.append(f"{_count(found['cannot_tell'], 'label')} could not be judged{counted}")
    return said


def _relabel_words(audit: Audit, found: Findings) -> list[str]:
    relabels = found.get("relabels")
    if relabels is None:
        return ["no label was changed, so there are no changed labels to audit"]
    size, most, confidence = relabels["size"], relabels["at_most"], f"{100 * (1 - audit.plan.alpha):g} %"
    done = f"{_count(relabels['checked'], 'check')} {_with_errors(relabels['wrong'])}"
    to_go = relabels["looks_to_certify"]
    if most is None:
        return [_not_yet(audit, relabels, done)]
    said = [
        f"of {size:,} changed labels at most {most:,} ({100 * most / size:.1f} %) are wrong, {confidence} sure, "
        f"after {done}"
    ]
    limit = f"{100 * audit.plan.max_error:g} %"
    if relabels["wrong"] > relabels["max_wrong"]:
        said.append(
            f"{limit} cannot be certified: it allows {_count(relabels['max_wrong'], 'error')} in {size:,} labels"
        )
    elif to_go:
        said.append(f"{_count(to_go, 'further check')} without an error would certify {limit}")
    elif not relabels["certified"]:
        sample = relabels["sample_to_certify"]
        said.append(f"a sample of {sample:,} {_with_errors(relabels['wrong'])} would certify {limit}")
    return [*said, *_threshold_words(relabels, limit, confidence)]


def _not_yet(audit: Audit, relabels: Findings, done: str) -> str:
    if any(draw.answered for draw in audit.draws):
        return (
            f"{done}; the sample was extended after answers were given, so the exact bound does not hold; "
            "begin another audit with --new --bound live"
        )
    left = relabels["drawn"] - relabels["checked"]
    when = f"{left:,} more" if left else "the last repeat"
    return (
        f"{done}; the bound is stated after {when}, "
        "when the sample of fixed size is complete (--bound live states one after every answer)"
    )


def _threshold_words(relabels: Findings, limit: str, confidence: str) -> list[str]:
    passed = [each for each in relabels["thresholds"] or () if each["certified"]]
    if not passed or relabels["certified"]:
        return []
    last = passed[-1]
    return [
        f"the {last['size']:,} changed labels with confidence {last['confidence']:.4f} or more have at most {limit} "
        f"errors, {confidence} sure (fixed sequence of thresholds)"
    ]


def _all_words(audit: Audit, found: Findings) -> list[str]:
    whole, sure = found.get("all"), f"{100 * (1 - audit.plan.alpha):g} % sure"
    if whole is None:
        return []
    said = []
    for name, words in (("noise_rate", "given labels are"), ("remaining_error", "labels after the run are")):
        rate = whole[name]
        if rate is not None:
            said.append(
                f"about {100 * rate['value']:.1f} % of the {whole['size']:,} {words} wrong "
                f"({100 * rate['low']:.1f} to {100 * rate['high']:.1f} %, {sure})"
            )
    if whole["remaining_error_at_most"] is not None:
        share = 100 * whole["remaining_error_at_most"]
        said.append(f"at most {share:.1f} % of the {whole['size']:,} labels after the run are wrong, {sure}")
    return said


def _with_errors(count: int) -> str:
    return "without an error" if not count else f"with {_count(count, 'error')}"


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def suggested_looks(size: int, alpha: float, max_error: float) -> int:
    """The smallest sample that certifies ``max_error`` if it has no error."""
    return checks_needed(size, alpha, allowed(size, max_error))


def newest_statements(folder: Path, rule: Mapping[str, Any]) -> list[str]:
    """What the newest audit of a run states, as sentences; empty without an audit or without answers.

    The first one says so if the verdict rule of the audited labels is not ``rule``.
    """
    audits = read_audits(folder)
    if not audits or not audits[-1].answers:
        return []
    before = (
        [] if audits[-1].plan.rule == dict(rule) else ["it is about the verdicts of another rule than these"]
    )
    return [*before, *bounds_in_words(audits[-1], findings(audits[-1]))]
