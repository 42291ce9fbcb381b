"""The report's sentences: training, findings, caveats and next steps."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from pencil.report.contents import Report
from pencil.report.curves import spans
from pencil.report.text import count, listed, percent, whole_percent
from pencil.results import KEEP, RELABEL, REVIEW

SEVERAL = 8
"""Smaller classes may lose most of their examples by chance."""
STRIKING = 0.5
"""Share of changed labels above which a class is mentioned."""


@dataclass(frozen=True)
class Advice:
    """A next step, with its command if it has one."""

    words: str
    command: str | None = None


def headline(report: Report) -> str:
    """The result in one line."""
    changed, rows = report.counts.total_changed, report.counts.rows
    if not changed:
        return f"None of the {rows:,} labels seems wrong"
    return f"{changed:,} of {count(rows, 'label')} {'seems' if changed == 1 else 'seem'} wrong"


def story(report: Report) -> list[str]:
    """The paragraphs of the summary."""
    return [_done(report), _found(report), *_trust(report)]


def _done(report: Report) -> str:
    phases = listed([f"{span.name} {span.last - span.first + 1}" for span in spans(report.lines)])
    epochs = f"{count(len(report.lines), 'epoch')} ({phases})" if phases else "an unknown number of epochs"
    settings = report.settings
    return (
        f"The network {settings['model']['name']} was trained on {count(report.counts.rows, 'example')} of "
        f"{count(len(report.class_names), 'class', 'classes')} for {epochs} "
        f"with the method {settings['method']['name']}."
    )


def _found(report: Report) -> str:
    counts, rule = report.counts, report.rule
    if not report.learns_labels:
        return "This method does not learn labels, so it suggests no changes."
    return (
        f"Each example now has a probability for every class. For {count(counts.total(RELABEL), 'example')} the run is "
        f"sure that another class is right (relabel), for {counts.total(KEEP):,} that the given one is (keep); for "
        f"{counts.total(REVIEW):,} it is not sure (review). At most {whole_percent(rule.max_false_relabels)} of the "
        f"examples to relabel are expected to get a wrong label."
        f"{_decided(report)}"
    )


def _decided(report: Report) -> str:
    decided = report.counts.decided
    verb = "was" if decided == 1 else "were"
    return f" {count(decided, 'example')} {verb} reviewed; the decisions are counted here." if decided else ""


def _trust(report: Report) -> list[str]:
    last, sentences = report.summary["last"], []
    if last.get("test_accuracy") is not None:
        sentences.append(
            f"The trained network predicts {percent(last['test_accuracy'])} of the test labels correctly. Its "
            "suggestions are not more reliable than its predictions."
        )
    truth = report.counts.truth
    if truth.rows:
        sentences.append(
            f"The true labels of this data are known: {percent(truth.given_right / truth.rows)} of the given labels "
            f"are right, and {percent(truth.suggested_right / truth.rows)} of the suggested ones."
        )
    return sentences


def noise_words(report: Report) -> str:
    """The estimated noise rate with a lower and an upper bound."""
    counts = report.counts
    rows, sure, unsure = max(counts.rows, 1), counts.total(RELABEL), counts.total(REVIEW)
    return (
        f"An estimated {percent(counts.total_changed / rows)} of the given labels are wrong: the share of examples "
        f"for which another class is suggested. Counting only the examples to relabel, the share is "
        f"{percent(sure / rows)}; counting those to review as well, {percent((sure + unsure) / rows)}."
    )


CAVEAT = (
    "The matrix treats suggested classes as true. If the network itself confuses two classes, the matrix shows this as "
    "label noise. It does not show errors that the network has learned from the labels."
)


def advice(report: Report) -> list[Advice]:
    """The next steps, most important first."""
    steps = (_alarms, _nothing_changed, _relabel, _review, _vanishing, _changing, _use)
    return [step for step in (of(report) for of in steps) if step is not None]


def _alarms(report: Report) -> Advice | None:
    words = "Resolve the alarms first. Do not use the suggestions before that."
    return Advice(words) if report.summary["alarms"] else None


def _relabel(report: Report) -> Advice | None:
    words = (
        "Check the surest corrections below. If they are convincing, use suggested_label for examples with the "
        "verdict relabel."
    )
    command = f"pencil labels {shlex.quote(report.run)} --out labels.csv"
    return Advice(words, command) if report.counts.total(RELABEL) else None


def _review(report: Report) -> Advice | None:
    examples = count(report.counts.total(REVIEW), "example")
    words = (
        f"Review the {examples} with the verdict review, or leave them out. Then train again on your decisions with "
        "pencil train DATA --trusted RUN."
    )
    command = f"pencil review {shlex.quote(report.run)}"
    return Advice(words, command) if report.counts.total(REVIEW) else None


def _vanishing(report: Report) -> Advice | None:
    names = vanished(report)
    words = (
        f"Check examples of {listed(names)} before relabelling them: fewer than a quarter of "
        f"{'its' if len(names) == 1 else 'their'} labels are left, so the network has probably confused one class with "
        "another."
    )
    return Advice(words) if names else None


def _changing(report: Report) -> Advice | None:
    gone = vanished(report)
    names = [name for name in striking(report) if name not in gone]
    words = (
        f"Check {listed(names)}: more than {whole_percent(STRIKING)} of the labels changed. Common causes are two "
        "classes that look the same, or a labelling guideline that can be read in two ways."
    )
    return Advice(words) if names else None


def _use(report: Report) -> Advice | None:
    words = "Train on the corrected labels, or use this run's model: model.safetensors."
    return Advice(words) if report.counts.total_changed else None


def _nothing_changed(report: Report) -> Advice | None:
    if report.counts.total_changed:
        return None
    if not report.learns_labels:
        return Advice("If you expected wrong labels, train with a method that learns labels, such as pencil.")
    faster = (
        ", or raise method.label_rate"
        if "label_rate" in report.settings["method"]
        else ", or change [method]"
    )
    return Advice(
        f"If you expected wrong labels, give the correction phase more epochs{faster}. pencil train warns if no label "
        "can change."
    )


def vanished(report: Report, most: int = 5) -> list[str]:
    """Classes that are suggested less than a quarter as often as given; small classes are ignored."""
    given, suggested = report.counts.given, report.counts.suggested
    gone = (4 * suggested < given) & (given >= SEVERAL)
    return [report.class_names[index] for index in gone.nonzero()[:, 0].tolist()[:most]]


def striking(report: Report, most: int = 5) -> list[str]:
    """The classes with the largest shares of changed labels, if above ``STRIKING``."""
    given, changed = report.counts.given, report.counts.changed
    shares = changed.double() / given.clamp_min(1)
    order = shares.argsort(descending=True, stable=True)[:most].tolist()
    return [report.class_names[index] for index in order if float(shares[index]) > STRIKING]
