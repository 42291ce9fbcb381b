"""Labels that a run starts from: prototypes, an earlier run, or both.

Those of prototypes are computed once, kept in the run's folder, and read when the run resumes. For inputs that are
vectors they are computed before the first step, and the prototypes become a second expert beside the network. For
other inputs, such as images, they are computed from the network's features after a quarter of the backbone phase, as
the posterior is (``posterior``), and replace the label rows. Rows that an earlier run knows begin as it left them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from pencil.algorithm import backbone_epochs
from pencil.config import RunConfig
from pencil.engine import Training
from pencil.estimates import Passes, Start, fit_start
from pencil.results import save_expert
from pencil.run.joining import earlier_run, start_labels
from pencil.run.passes import early_epoch, has_vectors, passes_over_features, passes_over_inputs
from pencil.run.posterior import kept_rows, store_of_posterior
from pencil.run.start_rows import StartRows, labels_changed, read_start, write_start
from pencil.stores import rows_at_once

NAME = "start"


class StartOfTraining:
    """Computes or reads the labels that a training starts from. Every rank takes part in every call.

    Args:
        config: The settings of the run.
        training: The training, before its loop runs.
        folder: The run's folder; None to keep nothing.

    Attributes:
        choice: The store of the rows.
        found: The fitted start, of inputs that are vectors; None before it is computed, and after a run was resumed.
    """

    def __init__(self, config: RunConfig, training: Training, folder: Path | None) -> None:
        self.found: Start | None = None
        self._training, self._folder = training, folder
        self._wanted = config.start.labels == "prototypes"
        self._earlier = None if config.start.run is None else config.start
        self._early = 0 if has_vectors(training) else early_epoch(config.phases)
        self._rows: dict[int, StartRows] = {}
        learner = training.learner
        self.choice = store_of_posterior(config, learner.method, learner.num_classes)

    def begin(self, step: int) -> None:
        """Before the loop continues at this step of the plan: start from these labels, or when there are features."""
        job = self._training
        if step == 0 and self._wanted and not self._early:
            self.found = self._compute(passes_over_inputs(job))
            self._write_expert(self.found)
        if step == 0:
            self._join()
        else:
            self._recall(step)
        if self._wanted or self._earlier is not None:
            job.before_epoch.append(self._before_epoch)
            job.after_epoch.append(self._after_epoch)
        job.after_restore.append(self._recall)

    @property
    def _epoch(self) -> int:
        """The number of epochs before the start is computed; 0 for vectors. A policy may end backbone sooner."""
        return min(self._early, max(1, backbone_epochs(self._training.learner.phases)))

    def _after_epoch(self, epochs: int) -> dict[str, Any] | None:
        if not (self._wanted and epochs == self._epoch == self._early):
            return None
        self._compute_from_network()
        return {"labels_changed": labels_changed(self._training)} if self._counts else None

    def _before_epoch(self, epochs: int) -> int | None:
        """Start now if a policy has just ended backbone; return how many labels differ after a start."""
        if epochs not in (0, self._epoch) or (epochs and not self._wanted):
            return None
        if self._wanted and 0 < epochs < self._early:
            self._compute_from_network()
        return labels_changed(self._training) if self._counts else None

    def _compute_from_network(self) -> None:
        self._compute(passes_over_features(self._training, self._folder))
        self._join()

    @property
    def _counts(self) -> bool:
        return self._training.learner.method.learns_labels

    def _recall(self, step: int) -> None:
        """Let the method learn from what it learned from at this step of the plan."""
        job, due = self._training, self._epoch * self._training.sampler.steps
        # A start at its usual time is part of the checkpoint of that moment, a sooner one follows it.
        begun = self._wanted and (step > due or (step == due and self._epoch == self._early))
        job.learner.start_from((self._rows.get(self._epoch) or self._read()) if begun else None, rows=False)

    def _join(self) -> None:
        """Take the label rows of the earlier run, if there is one."""
        if self._earlier is not None:
            start_labels(self._training.learner, self._training.train, earlier_run(self._earlier))

    def _compute(self, passes: Passes) -> Start:
        learner = self._training.learner
        given, classes = learner.given.hard, learner.num_classes
        found = fit_start(passes, given, classes, total=self._training.runtime.total)
        store = self.choice.make(len(given), classes, self._folder)
        size, differing = rows_at_once(classes), 0
        for places, features in passes():
            for part, some in zip(places.split(size), features.split(size), strict=True):
                whole = found.posterior(some, given[part])
                differing += int((whole.argmax(1) != given[part]).sum())
                rows = kept_rows(whole, given[part], self.choice)
                store.scatter(part, rows)  # type: ignore[arg-type]  # of the store's kind
        if self._folder is not None:
            write_start(self._training, store, self._folder, self._name)
        self._rows[self._epoch] = store
        learner.start_from(store)
        self._tell(found, differing)
        return found

    def _tell(self, found: Start, differing: int) -> None:
        """Report what training starts from; the main rank reports for all."""
        job, rounds = self._training, len(found.rounds)
        of_all = int(job.runtime.total(torch.tensor([differing], dtype=torch.float64)))
        if job.runtime.is_main:
            words = (
                f"labels start from class prototypes, {rounds} round{'s' * (rounds > 1)}: {of_all:,} of "
                f"{job.sampler.num_rows:,} differ from the given ones"
            )
            if job.learner.given.values.dim() == 2:
                words += "; of votes and soft labels they use the likeliest class alone, --start given uses all of them"
            job.events.emit("data", 0, words=words)

    def _write_expert(self, found: Start) -> None:
        if self._folder is not None and self._training.runtime.is_main:
            save_expert(self._folder, found.classifier)

    def _read(self) -> StartRows:
        assert self._folder is not None, "only a run with a folder resumes"
        self._rows[self._epoch] = read_start(self._training, self.choice, self._folder, self._name)
        return self._rows[self._epoch]

    @property
    def _name(self) -> str:
        """The folder; one of its own for a start that came sooner, so that the usual one stays with its checkpoints."""
        return NAME if self._epoch == self._early else f"{NAME}-{self._epoch}"
