"""Labels that a run starts from: prototypes, an earlier run, or both.

Those of prototypes are computed once, kept in the run's folder, and read when the run resumes. For inputs that are
vectors they are computed before the first step, and the prototypes become a second expert beside the network. For
other inputs, such as images, they are computed from the network's features after a quarter of the backbone phase, as
the posterior is (``posterior``); the label rows then begin anew. Rows that an earlier run knows begin as it left them.
"""

from __future__ import annotations

from pathlib import Path

import torch

from pencil.config import RunConfig
from pencil.engine import Training
from pencil.estimates import Passes, Start, fit_start
from pencil.results import save_expert
from pencil.run.joining import earlier_run, start_labels
from pencil.run.passes import early_epoch, has_vectors, passes_over_features, passes_over_inputs
from pencil.run.posterior import kept_rows, store_of_posterior
from pencil.run.start_rows import read_start, write_start
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
        self._wanted, self._earlier = config.start.labels == "prototypes", config.start.run
        self._epoch = early_epoch(config.phases)
        learner = training.learner
        self.choice = store_of_posterior(config, learner.method, learner.num_classes)

    def begin(self, step: int) -> None:
        """Before the loop continues at ``step``: start from these labels, now or when the network has features."""
        if self._wanted:
            self._begin(step)
        if step == 0:
            self._join()

    def _begin(self, step: int) -> None:
        vectors = has_vectors(self._training)
        if step > (0 if vectors else self._epoch * self._training.sampler.steps - 1):
            self._read()
        elif vectors:
            self.found = self._compute(passes_over_inputs(self._training))
            self._write_expert(self.found)
        if not vectors:
            self._training.after_epoch.append(self._after_epoch)

    def _after_epoch(self, epochs: int) -> None:
        if epochs == self._epoch:
            self._compute(passes_over_features(self._training, self._folder))
            self._join()

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
            write_start(self._training, store, self._folder, NAME)
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
            job.events.emit("data", 0, words=words)

    def _write_expert(self, found: Start) -> None:
        if self._folder is not None and self._training.runtime.is_main:
            save_expert(self._folder, found.classifier)

    def _read(self) -> None:
        assert self._folder is not None, "only a run with a folder resumes"
        self._training.learner.start_from(
            read_start(self._training, self.choice, self._folder, NAME), rows=False
        )
