"""A phase that begins with new labels: the trained network's posterior, calibrated on held-out rows.

    phases = [..., {name = "finetune", epochs = 7, learning_rate = 0.01, labels = "calibrated"}]

The label rows are then recomputed, from probabilities that take the noise into account (``estimates.held_out``),
instead of from what the network has made of the given labels. A network that has memorised its labels has
nothing new to say about them: then they stay as they are. ``plan = "auto"`` adds such a phase where correction was
undone or held-out labels confirm a noise matrix (``engine.auto``).

The rows are computed before the first step of the phase and kept in the run's folder, in ``calibrated-EPOCHS``.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pencil.algorithm import Phase, backbone_epochs, total_epochs
from pencil.config import RunConfig
from pencil.engine import LIKELIHOOD, PAIRS, Training, held_out_scores
from pencil.errors import ConfigError
from pencil.estimates import left_out_likelihood
from pencil.run.posterior import ENOUGH, PosteriorOfTraining, can_calibrate
from pencil.run.start_rows import StartRows, labels_changed, read_start, write_start
from pencil.stores import StoreChoice

FOLDER = "calibrated-{}"


class Renewal:
    """Recomputes labels where the plan says so. Every rank takes part in every call.

    Args:
        training: The training, before its loop runs.
        posterior: Calibrates the network's predictions.
        choice: The store of the rows.
        folder: The run's folder.
    """

    def __init__(
        self, training: Training, posterior: PosteriorOfTraining, choice: StoreChoice, folder: Path
    ) -> None:
        self._training, self._posterior, self._choice, self._folder = training, posterior, choice, folder

    def begin(self, step: int) -> None:
        """Before the loop continues at this step of the plan: read the labels that its phases began with."""
        job = self._training
        self._recall(step)
        job.before_epoch.append(self._before_epoch)
        job.after_restore.append(self._recall)
        if self._posterior.calibrates and job.policy is not None:
            job.after_epoch.append(self._after_epoch)
            job.after_restore.append(lambda step: self._after_epoch(step // job.sampler.steps))

    def _recall(self, step: int) -> None:
        """Learn from the labels of the last phase before this step of the plan that recomputed them, if one did."""
        job = self._training
        begun = [each for each in _renewals(job.learner.phases) if each * job.sampler.steps < step]
        written = [each for each in begun if self._is_written(each)]
        if written:
            self._start(read_start(job, self._choice, self._folder, FOLDER.format(written[-1])), rows=False)

    def _before_epoch(self, epochs: int) -> int | None:
        """Where a phase asks for it, recompute labels; return how many differ from the given ones."""
        if epochs not in _renewals(self._training.learner.phases):
            return None
        found = self._posterior.calibrated()
        if found is None:
            self._forget(epochs)
            self._tell("labels stay as they are: the network has memorised the given ones")
            return None
        write_start(self._training, found.rows, self._folder, FOLDER.format(epochs))
        self._start(found.rows, rows=True)
        changed, rows = labels_changed(self._training), self._training.sampler.num_rows
        self._tell(
            f"labels are recomputed, calibrated on held-out rows: {changed:,} of {rows:,} differ from the given ones"
        )
        return changed

    def _start(self, start: StartRows, *, rows: bool) -> None:
        self._training.learner.start_from(start, rows=rows)
        self._training.noise_rate = None  # alarms knew an early estimate, which these labels replace

    def _after_epoch(self, epochs: int) -> dict[str, Any]:
        """At the end of backbone or of the plan, also a restored one: what the policy asks of the held-out labels."""
        job = self._training
        if epochs not in (backbone_epochs(job.learner.phases), total_epochs(job.learner.phases)):
            return {}
        found = left_out_likelihood(*held_out_scores(job), total=job.runtime.total)
        return {} if found is None else dict(zip((PAIRS, LIKELIHOOD), found, strict=True))

    def _is_written(self, epochs: int) -> bool:
        runtime = self._training.runtime
        return runtime.any_of(runtime.is_main and (self._folder / FOLDER.format(epochs)).is_dir())[0]

    def _forget(self, epochs: int) -> None:
        """Remove rows of an attempt that was stopped, so that the labels stay as they are when the run resumes."""
        if self._training.runtime.is_main:
            shutil.rmtree(self._folder / FOLDER.format(epochs), ignore_errors=True)
        self._training.runtime.barrier()

    def _tell(self, words: str) -> None:
        """Report what the phase begins with; the main rank reports for all."""
        if self._training.runtime.is_main:
            self._training.events.emit("data", 0, words=words)


def check_renewals(config: RunConfig, training: Training) -> None:
    """Refuse a plan with calibrated labels if they cannot be computed. Every rank takes part."""
    possible = can_calibrate(training, held_out=config.data.validation > 0)
    if list(_renewals(config.phases)) and not possible:
        raise ConfigError(
            'phases: labels = "calibrated" needs inputs such as images, and at least '
            f"{ENOUGH} rows that were held out of the training data; set data.validation, for instance to 0.1"
        )


def _renewals(phases: Sequence[Phase]) -> Iterator[int]:
    """The number of epochs before each phase that begins with new labels."""
    begun = 0
    for phase in phases:
        if phase.labels == "calibrated" and phase.epochs:
            yield begun
        begun += phase.epochs
