"""The report as one self-contained HTML file: style, script, charts and images are inline."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pencil._version import __version__
from pencil.estimates import Interval
from pencil.report import tables, words
from pencil.report.contents import Report
from pencil.report.curves import SHARES, thinned
from pencil.report.figures import cell_words, figures
from pencil.report.findings import BINS
from pencil.report.near import near_words
from pencil.report.source import Example
from pencil.report.text import between, count, percent, share_of
from pencil.results import RELABEL, REVIEW, writing

TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Gallery:
    """Examples with a title and a caption; ``verdict`` completes "There is nothing to ..." if there are no examples."""

    id: str
    title: str
    words: str
    verdict: str
    examples: list[Example]


def write_page(report: Report, path: Path) -> int:
    """Write the page; return its size in bytes."""
    data = page(report).encode("utf-8")
    with writing(path, ".html", ".htm") as partial:
        partial.write_bytes(data)
    return len(data)


def page(report: Report) -> str:
    """Return the page as HTML."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {
        "percent": percent,
        "commas": lambda number: f"{number:,}",
        "between": between,
        "class_name": lambda number, names: names[number],
    }
    script = (TEMPLATES / "report.js").read_text(encoding="utf-8")
    return environment.get_template("report.html").render(
        report=report,
        counts=report.counts,
        version=__version__,
        style="".join(
            (TEMPLATES / name).read_text(encoding="utf-8") for name in ("charts.css", "report.css")
        ),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        figures=figures(report, legend=False),
        **_texts(report),
    )


def _texts(report: Report) -> dict[str, Any]:
    """The page's sentences and tables."""
    matrix = report.transition
    return {
        "headline": words.headline(report),
        "story": words.story(report),
        "advice": words.advice(report),
        "about_estimates": words.about_estimates(report),
        "estimates": tables.estimates(report),
        "cards": cards(report),
        "classes": tables.class_rows(report),
        "confusions": tables.confusions(report),
        "cells": cell_words(matrix),
        "matrix_names": [report.class_names[index] for index in matrix.classes],
        "epochs": thinned(report.lines),
        "shares": {
            key: name
            for key, name in SHARES.items()
            if any(line.get(key) is not None for line in report.lines)
        },
        "bins": bins(report),
        "verdicts": tuple(report.counts.totals),
        "totals": tuple(report.counts.totals.values()),
        "packages": packages(report),
        "galleries": galleries(report),
        "near_words": [] if report.near is None else near_words(report.near.counts),
    }


def cards(report: Report) -> list[tuple[str, str, str]]:
    """The figures at the top of the page: name, value and a note."""
    counts, found, last = report.counts, report.estimates, report.summary["last"]
    result = [
        ("Examples", f"{counts.rows:,}", count(len(report.class_names), "class", "classes")),
        ("Seem wrong", percent(found.rate.value), _beside(found.rate, report, counts.truth.total_wrong)),
        (
            "Can be relabelled",
            f"{counts.total(RELABEL):,}",
            f"with at most {share_of(report.rule.max_false_relabels)} errors",
        ),
        (
            "Suggestions wrong",
            percent(found.suggested_error.value),
            _beside(found.suggested_error, report, counts.truth.suggested_wrong),
        ),
    ]
    if last.get("test_accuracy") is not None:
        result.append(("Test accuracy", percent(last["test_accuracy"]), "after the last epoch"))
    return result


def _beside(share: Interval, report: Report, true: int) -> str:
    """The bounds of an estimate, and the truth if it is known."""
    rows = report.counts.truth.rows
    return between(share) + (f"; in truth {percent(true / rows)}" if rows else "")


def bins(report: Report) -> list[tuple[str, list[int], int]]:
    """The histogram of p_wrong as a table: range, number of rows by verdict, and wrong labels if they are known."""
    counts = report.counts
    columns: list[list[int]] = counts.histogram[: len(counts.totals)].T.tolist()
    wrong: list[int] = counts.truth.bins.tolist()
    ranges = (f"{100 * index // BINS} to {100 * (index + 1) // BINS} %" for index in range(BINS))
    return list(zip(ranges, columns, wrong, strict=True))


def packages(report: Report) -> dict[str, str]:
    """Software versions and hardware of the run."""
    made = report.environment
    plain = {name: str(made[name]) for name in ("pencil", "python") if name in made}
    machine = {
        name: str(made[name]) for name in ("platform", "processor", "cores", "threads") if name in made
    }
    gpus = {"gpus": ", ".join(made["gpus"])} if made.get("gpus") else {}
    return {**plain, **made.get("packages", {}), **machine, **gpus}


def galleries(report: Report) -> list[Gallery]:
    """Both lists of examples with their captions."""
    relabel, review = report.counts.total(RELABEL), report.counts.total(REVIEW)
    corrections = (
        f"{len(report.corrections):,} of {count(relabel, 'example')} to relabel, the most confident first. Equally "
        "confident examples are ordered to show different confusions first."
    )
    reviews = (
        f"{len(report.reviews):,} of {count(review, 'example')} to review, the least confident first: the given "
        "label may be wrong, but no other class is sure enough."
    )
    return [
        Gallery("corrections", "Surest corrections", corrections, "relabel", report.corrections),
        Gallery("review", "To review", reviews, "review", report.reviews),
    ]
