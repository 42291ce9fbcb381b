"""The report's summary as Markdown, for issues, wikis and pull requests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from pencil.belief import NO_CLASS
from pencil.report import words
from pencil.report.contents import Report
from pencil.report.near import near_words
from pencil.report.source import Example
from pencil.report.tables import class_rows, confusions, estimates
from pencil.report.text import between, percent
from pencil.results import writing

SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&$])")
MOST_CLASSES, MOST_EXAMPLES = 20, 10


def write_markdown(report: Report, path: Path) -> int:
    """Write the summary; return its size in bytes."""
    data = markdown(report).encode("utf-8")
    with writing(path, ".md", ".markdown", option="--markdown") as partial:
        partial.write_bytes(data)
    return len(data)


def markdown(report: Report) -> str:
    """Return the summary as Markdown."""
    parts = [
        f"# {words.headline(report)}",
        f"Run {code(report.run)}, finished {report.finished}.",
        *(f"> **Alarm:** {escaped(alarm)}" for alarm in report.alarms),
        *map(escaped, words.story(report)),
        _verdicts(report),
        "## What to do next",
        "\n".join(_step(number, step) for number, step in enumerate(words.advice(report), 1)),
        "## Noise",
        _estimates(report),
        escaped(words.about_estimates(report)),
        *_confusions(report),
        "## Classes with the most labels that seem wrong",
        _classes(report),
        *_examples("Surest corrections", report.corrections, report),
        *_examples("To review", report.reviews, report),
        *_near(report),
        "## Made by",
        f"{code(report.command)}, seed {report.settings['seed']}. Again: {code(report.rerun)}",
        *(f"*{escaped(note)}*" for note in report.notes),
    ]
    return "\n\n".join(parts) + "\n"


def escaped(text: str) -> str:
    """Escape text so that Markdown shows it literally."""
    return SPECIAL.sub(r"\\\1", text)


def code(text: str) -> str:
    """Format text as code, even if it contains backticks."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence}{text}{fence}" if longest == 0 else f"{fence} {text} {fence}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a table; all cells must be escaped already."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _step(number: int, step: words.Advice) -> str:
    return f"{number}. {escaped(step.words)}" + (f" {code(step.command)}" if step.command else "")


def _verdicts(report: Report) -> str:
    rows = max(report.counts.rows, 1)
    return table(
        ["verdict", "examples", "share"],
        ([verdict, f"{total:,}", percent(total / rows)] for verdict, total in report.counts.totals.items()),
    )


def _with_truth(head: list[str], rows: list[list[str]], truth: list[float | None]) -> str:
    """A table with one more column if the truth is known."""
    if any(each is not None for each in truth):
        head = [*head, "true"]
        rows = [[*row, percent(true or 0.0)] for row, true in zip(rows, truth, strict=True)]
    return table(head, rows)


def _estimates(report: Report) -> str:
    found = estimates(report)
    rows = [[each.name, percent(each.share.value), between(each.share)] for each in found]
    return _with_truth(["share", "estimate", "bounds"], rows, [each.truth for each in found])


def _confusions(report: Report) -> list[str]:
    found = confusions(report)
    rows = [
        [escaped(each.true), escaped(each.given), percent(each.share.value), between(each.share)]
        for each in found
    ]
    head = ["true class", "labelled", "share of the class", "bounds"]
    return [_with_truth(head, rows, [each.truth for each in found])] if found else []


def _classes(report: Report) -> str:
    found = class_rows(report, MOST_CLASSES)
    rows = [
        [
            escaped(row.name),
            f"{row.given:,}",
            percent(row.wrong.value),
            between(row.wrong),
            f"{row.relabel:,}",
            f"{row.review:,}",
            "" if row.confusion is None else f"{escaped(row.confusion[0])} ({row.confusion[1]:,})",
        ]
        for row in found
    ]
    head = ["class", "examples", "seem wrong", "bounds", "relabel", "review", "most often to"]
    return _with_truth(head, rows, [row.truth for row in found])


def _near(report: Report) -> list[str]:
    if report.near is None:
        return []
    rows = [example for group in report.near.groups for example in group]
    return [
        "## Near-identical rows and outliers",
        *map(escaped, near_words(report.near.counts)),
        *_examples("Near-identical rows with different labels", rows, report),
        *_examples("Outliers", [example for example, _ in report.near.outliers], report),
    ]


def _examples(title: str, examples: list[Example], report: Report) -> list[str]:
    names = report.class_names
    rows = [
        [
            escaped(example.case.id),
            escaped(names[example.case.given]),
            escaped(names[example.case.suggested]),
            percent(example.case.confidence),
            "" if example.case.second == NO_CLASS else escaped(names[example.case.second]),
        ]
        for example in examples[:MOST_EXAMPLES]
    ]
    return [f"## {title}", table(["id", "given", "suggested", "confidence", "second"], rows)] if rows else []
