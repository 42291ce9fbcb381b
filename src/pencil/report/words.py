"""The report's sentences: what was found, how sure it is, and the next steps."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from pencil.report.contents import Report
from pencil.report.curves import spans
from pencil.report.near import near_words
from pencil.report.text import between, count, listed, percent, seem_wrong, sentence, share_of
from pencil.results import KEEP, RELABEL, REVIEW, Estimates, VerdictRule
from pencil.results.summary import CHANGES

SEVERAL = 8
"""Smaller classes may lose most of their examples by chance."""
STRIKING = 0.5
"""Share of wrong labels above which a class is mentioned."""
SOURCES = {
    "inputs": "the inputs",
    "early epoch": "the network's features early in training",
    "last epoch": "the network's features after its last epoch",
    "held-out rows": "the network's predictions, calibrated on held-out rows",
}


@dataclass(frozen=True)
class Advice:
    """A next step, with its command if it has one."""

    words: str
    command: str | None = None


def headline(report: Report) -> str:
    """The result in one line."""
    words = seem_wrong(report.estimates.rate, report.counts.rows)
    return f"{words[:1].upper()}{words[1:]}"


def story(report: Report) -> list[str]:
    """The paragraphs of the summary."""
    return [_found(report), *_audited(report), *_truth(report), *_near(report), _done(report)]


def _found(report: Report) -> str:
    found, counts = report.estimates, report.counts
    return (
        f"An estimated {percent(found.rate.value)} of the given labels are wrong ({between(found.rate)}). "
        f"{_relabels(report)} {count(counts.total(REVIEW), 'label')} {_are(counts.total(REVIEW))} doubtful and should "
        f"be reviewed. {counts.total(KEEP):,} are kept{_kept_wrong(report)}.{_decided(report)}"
    )


def _audited(report: Report) -> list[str]:
    return [f"An audit found: {' '.join(report.audit)}"] if report.audit else []


def _near(report: Report) -> list[str]:
    """Near-identical rows and outliers, if there are any."""
    if report.near is None:
        return []
    found = report.near.counts
    some = (found.duplicate_rows, found.outliers, found.test_rows_in_train, found.validation_rows_in_train)
    return [" ".join(near_words(found))] if any(some) else []


def _relabels(report: Report) -> str:
    number, wrong = report.counts.total(RELABEL), report.expected(report.counts.false_relabels)
    words = sentence(relabel_words(number, report.rule))
    spread = f" ({between(wrong)})" if report.has_upper_end else ""
    expected = f" An expected {percent(wrong.value)} of the new labels are wrong{spread}."
    return words + (expected if number else "")


def relabel_words(number: int, rule: VerdictRule) -> str:
    """How many labels can be replaced within the asked share of errors."""
    asked = f"with at most {share_of(rule.max_false_relabels)} errors"
    return (
        f"{count(number, 'label')} can be replaced {asked}" if number else f"no label can be replaced {asked}"
    )


def too_few_held_out(estimates: Estimates) -> str | None:
    """Why no label is replaced, and the remedy, if the held-out rows are too few; None if they are enough."""
    if estimates.source != "held-out rows" or estimates.surest == 1 or estimates.alarms:
        return None
    return (
        "the held-out rows are too few to measure the noise well enough for that; hold out more rows, for example "
        "--set data.validation=0.2"
    )


def _kept_wrong(report: Report) -> str:
    wrong = report.counts.false_keeps
    if not report.has_upper_end:
        return "; errors among them that look like their features cannot be seen"
    return (
        f", {percent(wrong.share.value)} of them expected to be wrong ({between(wrong.share)})"
        if wrong.rows
        else ""
    )


def _decided(report: Report) -> str:
    decided = report.counts.decided
    verb = "was" if decided == 1 else "were"
    return f" {count(decided, 'example')} {verb} reviewed; the decisions are counted here." if decided else ""


def _truth(report: Report) -> list[str]:
    truth, relabels = report.counts.truth, report.counts.total(RELABEL)
    if not truth.rows:
        return []
    replaced = f", and {percent(truth.false_relabels / relabels)} of the replacements are" if relabels else ""
    return [
        f"The true labels of this data are known: {percent(truth.total_wrong / truth.rows)} of the given labels are "
        f"wrong{replaced}."
    ]


def _done(report: Report) -> str:
    phases = listed([f"{span.name} {span.last - span.first + 1}" for span in spans(report.lines)])
    epochs = f"{count(len(report.lines), 'epoch')} ({phases})" if phases else "an unknown number of epochs"
    settings, accuracy = report.settings, report.summary["last"].get("test_accuracy")
    tested = "" if accuracy is None else f" It predicts {percent(accuracy)} of the test labels correctly."
    return (
        f"The network {settings['model']['name']} was trained on {count(report.counts.rows, 'example')} of "
        f"{count(len(report.class_names), 'class', 'classes')} for {epochs} "
        f"with the method {settings['method']['name']}.{tested}"
    )


def about_estimates(report: Report) -> str:
    """What the estimates are based on and what their intervals mean."""
    if not report.has_upper_end:
        return (
            f"The estimates are computed from {SOURCES[report.estimates.source]}, without any true label. With one "
            "label for each row, errors that look like their features cannot be seen, so shares have no upper end. An "
            "audit of a hundred random examples bounds the errors without relying on the estimates."
        )
    return (
        f"The estimates are computed from {SOURCES[report.estimates.source]}, without any true label. Ranges are 95 % "
        "intervals. Those of labels to relabel and to keep show the spread that remains if every probability is right. "
        "An audit of a hundred random examples checks the probabilities, and bounds the errors without relying on them."
    )


def advice(report: Report) -> list[Advice]:
    """The next steps, most important first."""
    steps = (
        _alarms,
        _nothing_found,
        _duplicates,
        _shared,
        _audit,
        _relabel,
        _none_in_share,
        _review,
        _vanishing,
        _striking,
    )
    return [step for step in (of(report) for of in steps) if step is not None]


def _alarms(report: Report) -> Advice | None:
    if report.estimates.alarms:
        return Advice(
            "Do not rely on the probabilities yet. Answer a hundred examples, which corrects them.",
            f"{_command('review', report)} --ask 100",
        )
    others = [
        alarm for alarm in report.summary["alarms"] if alarm["name"] != CHANGES
    ]  # is not about suggestions
    return Advice("Resolve the alarms before you use the suggestions.") if others else None


def _nothing_found(report: Report) -> Advice | None:
    if report.counts.total(RELABEL) or report.counts.total(REVIEW):
        return None
    return Advice(
        "There is nothing to change. If you expected wrong labels, check a hundred random examples.",
        f"{_command('audit', report)} --what all --looks 100 --csv sample.csv",
    )


def _duplicates(report: Report) -> Advice | None:
    number = 0 if report.near is None else report.near.counts.differing_groups
    words = (
        f"Check the {count(number, 'group')} of near-identical rows with different labels: the surest errors."
    )
    return Advice(words, f"{_command('review', report)} --goal duplicates") if number else None


def _shared(report: Report) -> Advice | None:
    number = 0 if report.near is None else report.near.counts.test_rows_in_train
    words = (
        f"Remove the {count(number, 'test row')} that {_are(number)} also in the training data: with them, the test "
        "accuracy looks too good."
    )
    return Advice(words) if number else None


def _audit(report: Report) -> Advice | None:
    words = "Check a random sample of the replacements: the audit states how many of all are wrong at most."
    wanted = report.counts.total(RELABEL) and not report.estimates.alarms
    return Advice(words, f"{_command('audit', report)} --csv sample.csv") if wanted else None


def _relabel(report: Report) -> Advice | None:
    words = (
        "Write the labels. Use suggested_label for examples with the verdict relabel; --max-false-relabels 5% asks for "
        "fewer errors, and replaces fewer labels."
    )
    command = f"{_command('labels', report)} --out labels.csv"
    return Advice(words, command) if report.counts.total(RELABEL) else None


def _none_in_share(report: Report) -> Advice | None:
    if report.counts.total(RELABEL) or not report.counts.total(REVIEW):
        return None
    few = too_few_held_out(report.estimates)
    return Advice(
        f"No label can be replaced with at most {share_of(report.rule.max_false_relabels)} errors. Review the doubtful "
        "ones, ask for a larger share with --max-false-relabels, or train on better features."
        + (f" {sentence(few)}" if few else "")
    )


def _review(report: Report) -> Advice | None:
    words = (
        f"Review the {count(report.counts.total(REVIEW), 'example')} with the verdict review, the most likely errors "
        "first. Then train again on your decisions with pencil train DATA --trusted RUN."
    )
    command = f"{_command('review', report)} --goal clean"
    return Advice(words, command) if report.counts.total(REVIEW) else None


def _vanishing(report: Report) -> Advice | None:
    names = vanished(report)
    words = (
        f"Check examples of {listed(names)}: {'it is' if len(names) == 1 else 'they are'} suggested less than a "
        "quarter as often as given, so the features may not separate these examples from those of another class."
    )
    return Advice(words) if names else None


def _striking(report: Report) -> Advice | None:
    gone = vanished(report)
    names = [name for name in striking(report) if name not in gone]
    words = (
        f"Check {listed(names)}: most of the labels seem wrong. Common causes are two classes that look the same, or a "
        "labelling guideline that can be read in two ways."
    )
    return Advice(words) if names else None


def vanished(report: Report, most: int = 5) -> list[str]:
    """Classes that are suggested less than a quarter as often as given; small classes are ignored."""
    given, suggested = report.counts.given, report.counts.suggested
    gone = (4 * suggested < given) & (given >= SEVERAL)
    return [report.class_names[index] for index in gone.nonzero()[:, 0].tolist()[:most]]


def striking(report: Report, most: int = 5) -> list[str]:
    """The classes with the largest estimated shares of wrong labels, if above ``STRIKING``."""
    shares = [value for value, _, _ in report.estimates.per_class]
    order = sorted(range(len(shares)), key=lambda index: -shares[index])[:most]
    return [
        report.class_names[index]
        for index in order
        if shares[index] > STRIKING and int(report.counts.given[index]) >= SEVERAL
    ]


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _command(name: str, report: Report) -> str:
    return f"pencil {name} {shlex.quote(report.run)}"
