"""A run in a notebook: its settings, metrics and labels as arrays, its figures, and a short summary as HTML.

    run = pencil.open_run("runs/first")
    run.metrics["test_accuracy"]                                # an array, an entry per epoch
    run.labels["id"][run.labels["verdict"] == "relabel"]        # arrays, an entry per training row
    run.figure("accuracy")                                      # a notebook shows it

Everything is read from the run's folder. The data is not opened, and no code that the run names is imported.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pencil.algorithm import TopRows
from pencil.config import RunConfig
from pencil.engine import read_metrics
from pencil.errors import ConfigError
from pencil.report import Figure, Report, figures, gather
from pencil.report.page import cards
from pencil.report.words import headline
from pencil.results import DECISIONS, VERDICTS, Judged
from pencil.results.label_errors import LabelErrors
from pencil.results.table import Column, Table, escaped, texts
from pencil.run import LabelTable, RunDirectory


class Run:
    """One run. Its contents are read on first access and cached.

    Settings and metrics can be read while the run trains; summary, labels and figures require a finished run.

    Attributes:
        path: The run's folder.
    """

    def __init__(self, path: str | Path | RunDirectory) -> None:
        self._directory = path if isinstance(path, RunDirectory) else RunDirectory.open(Path(path))
        self.path = self._directory.path

    @cached_property
    def config(self) -> RunConfig:
        """The settings of the run."""
        return self._directory.config

    @property
    def is_finished(self) -> bool:
        """Whether the run trained all its epochs."""
        return self._directory.is_finished

    @property
    def summary(self) -> dict[str, Any]:
        """The contents of ``summary.json``: examples, labels changed, the last and the best metrics."""
        return self._directory.summary

    @property
    def metrics(self) -> Table:
        """The metrics of each epoch, from ``metrics.jsonl``; NaN for a number that an epoch does not have."""
        lines = read_metrics(self._directory.metrics)
        names = dict.fromkeys(name for line in lines for name in line)
        return Table({name: _column([line.get(name) for line in lines]) for name in names})

    @cached_property
    def class_names(self) -> tuple[str, ...]:
        """The classes, in the order of ``label_distribution``."""
        return self._labels.class_names

    @cached_property
    def labels(self) -> Table:
        """The labels with an entry per training row.

        They are the labels of ``pencil labels``, not rounded. Its table calls given and suggested ``given_label`` and
        ``suggested_label``, leaves out trusted, and may also have ``duplicates`` and ``outlier``.

        id: the row's id in the data set;
        given: the given class;
        suggested: the most likely class;
        confidence: its probability;
        p_wrong: the probability that the given label is wrong;
        verdict: ``keep``, ``relabel``, ``review`` or ``drop``;
        trusted: whether the given label was verified before training;
        decision: the review decision, or an empty text.
        """
        parts = [_label_columns(chunk, self.class_names) for chunk in self._labels.chunks()]
        return Table({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})

    @cached_property
    def errors(self) -> LabelErrors:
        """Which labels seem wrong, as ``pencil.find_errors`` says it, with all decisions so far."""
        names, rule = np.array(self.class_names), self._labels.rule
        return LabelErrors(self._labels.belief(), names, max_false=rule.max_false_relabels)

    def label_distribution(self) -> NDArray[np.float32]:
        """(N, C) the probability of each class for each training row; 1 for the label of a review decision."""
        parts = (chunk.distribution for chunk in self._labels.chunks())
        whole = (part.dense() if isinstance(part, TopRows) else part for part in parts)
        return np.concatenate([part.float().numpy() for part in whole])

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """The report's charts by name: verdicts, by_class, transition, p_wrong, changes, accuracy."""
        return figures(self._report)

    def figure(self, name: str) -> Figure:
        """One of the charts. A notebook shows it; ``.svg_file()`` is its text as an .svg file."""
        if name not in self.figures:
            raise ConfigError(f"figure: {name!r} is unknown; use {', '.join(self.figures)}")
        return self.figures[name]

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}{'' if self.is_finished else ', not finished'})"

    def _repr_html_(self) -> str:
        title = f"<p><strong>Run {escaped(str(self.path))}</strong></p>"
        if not self.is_finished:
            words = f"Not finished; {self.metrics.num_rows:,} epochs so far. Continue it with: "
            return f"{title}<p>{words}<code>{escaped(self._directory.resume_command)}</code></p>"
        words = f"<p>{escaped(headline(self._report))}.</p>"
        return f"{title}{words}{_html_of_cards(self._report)}{_html_image(self.figure('verdicts'))}"

    @cached_property
    def _labels(self) -> LabelTable:
        return LabelTable.open(self._directory)

    @cached_property
    def _report(self) -> Report:
        return gather(self._directory, read_data=False)


def open_run(path: str | Path) -> Run:
    """Open a run for reading, in a notebook or a program.

    Args:
        path: The run's folder, written by ``pencil train`` or ``pencil.train``.

    Raises:
        RunError: The folder contains no run.
    """
    return Run(path)


def _html_of_cards(report: Report) -> str:
    rows = (
        f"<tr><th>{escaped(name)}</th><td>{escaped(value)}</td><td>{escaped(words)}</td></tr>"
        for name, value, words in cards(report)
    )
    return f"<table><tbody>{''.join(rows)}</tbody></table>"


def _html_image(figure: Figure) -> str:
    """An image tag, because an inline SVG's style would apply to the rest of the notebook."""
    data = base64.b64encode(figure.svg_file().encode()).decode()
    return f'<img alt="{escaped(figure.words)}" width="570" src="data:image/svg+xml;base64,{data}">'


def _label_columns(judged: Judged, class_names: Sequence[str]) -> dict[str, Column]:
    decision = torch.zeros_like(judged.verdict) if judged.decision is None else judged.decision
    return {
        "id": texts(judged.ids),
        "given": _named(class_names, judged.given),
        "suggested": _named(class_names, judged.suggested),
        "confidence": judged.confidence.numpy(),
        "p_wrong": judged.p_wrong.numpy(),
        "verdict": _named(VERDICTS, judged.verdict),
        "trusted": judged.trusted.numpy(),
        "decision": _named(DECISIONS, decision),  # the first means no decision
    }


def _column(values: Sequence[Any]) -> Column:
    """Numbers as an array of numbers, anything else as objects."""
    if all(isinstance(value, int | float | None) for value in values):
        whole = all(isinstance(value, int) for value in values)
        numbers = [np.nan if value is None else value for value in values]
        return np.array(numbers, dtype=np.int64 if whole else np.float64)
    return texts(values)


def _named(names: Sequence[str], numbers: Tensor) -> Column:
    column: Column = texts(names)[numbers.numpy()]
    return column
