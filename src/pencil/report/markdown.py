"""The report's summary as Markdown, for issues, wikis and pull requests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from pencil.report import words
from pencil.report.contents import Report
from pencil.report.source import Example
from pencil.report.tables import class_rows, confusions
from pencil.report.text import percent, sentence
from pencil.results import alarm_sentence, writing
from pencil.results.judged import NO_CLASS

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
        *(f"> **Alarm:** {escaped(sentence(alarm_sentence(alarm)))}" for alarm in report.summary["alarms"]),
        *map(escaped, words.story(report)),
        _verdicts(report),
        "## What to do next",
        "\n".join(_step(number, step) for number, step in enumerate(words.advice(report), 1)),
        "## Noise",
        escaped(words.noise_words(report)),
        *_confusions(report),
        "## Classes with most changes",
        _classes(report),
        *_examples("Surest corrections", report.corrections, report),
        *_examples("To review", report.reviews, report),
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


def _confusions(report: Report) -> list[str]:
    found = confusions(report)
    rows = (
        [escaped(each.given), escaped(each.suggested), f"{each.count:,}", percent(each.share)]
        for each in found
    )
    return [table(["given", "suggested", "examples", "of the class"], rows)] if found else []


def _classes(report: Report) -> str:
    rows = (
        [
            escaped(row.name),
            f"{row.given:,}",
            f"{row.changed:,}",
            percent(row.share),
            "" if row.confidence is None else percent(row.confidence),
            "" if row.confusion is None else f"{escaped(row.confusion[0])} ({row.confusion[1]:,})",
        ]
        for row in class_rows(report, MOST_CLASSES)
    )
    return table(["class", "examples", "changed", "share", "mean confidence", "most often to"], rows)


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
