"""Computes the posterior of a run's labels at the right moment, and writes it into the run's folder."""

from __future__ import annotations

import shutil
from dataclasses import replace

from pencil.config import RunConfig
from pencil.engine import Training
from pencil.errors import RunError
from pencil.estimates import Alarm, NoiseEstimate
from pencil.results import POSTERIOR, Estimates, SavedLabels, read_estimates, save_labels, write_estimates
from pencil.results.estimates import ESTIMATES
from pencil.run.directory import RunDirectory
from pencil.run.posterior import Posterior, PosteriorOfTraining, store_of_posterior
from pencil.stores import rows_at_once

LATE = Alarm(
    "late_features",
    "the probabilities come from the features of the trained network, which has seen the given labels many times, so "
    "wrong labels look right",
    "train the run again from the start; resume keeps what was computed early in training",
)


class Estimation:
    """The posterior of a run: from inputs that are vectors, or the network's early features or last predictions.

    Every rank takes part in every call. A run that is stopped and resumed computes the same posterior: it depends on
    the data and, for network features, on the weights at that time.

    Attributes:
        posterior: What computes it.
    """

    def __init__(self, config: RunConfig, directory: RunDirectory, training: Training) -> None:
        self._directory, self._training = directory, training
        learner = training.learner
        choice = store_of_posterior(config, learner.method, learner.num_classes)
        self.posterior = PosteriorOfTraining(
            *(training, choice, directory.path, self._write_early, self._is_written_for_all, config.phases),
            held_out=config.data.validation > 0,
        )
        self._found: Posterior | None = None
        self._known: tuple[float, float] | None = None  # the noise rate and its upper bound

    def begin(self, step: int) -> None:
        """Before the loop continues after so many steps, undone ones included: let alarms use what is known.

        Those from the inputs are computed now instead of at the end. Those from the network's features are read if
        they are written.
        """
        if not self._training.watches:
            return
        job = self._training
        if self.posterior.from_inputs:
            self._found = self.posterior.found()
            self._tell_alarms(self._found.noise, self._found)
        elif step >= self.posterior.epoch * job.sampler.steps and self._is_written_for_all():
            self._tell_alarms(read_estimates(self._directory.path, job.learner.num_classes))
        job.after_restore.append(lambda _: self._tell_again())

    def finish(self) -> None:
        """Write the trained network's posterior if it has one, else what was not written early in training."""
        calibrated = self.posterior.calibrated()
        if calibrated is not None:
            self._write(calibrated)
            if self._training.watches:
                self._tell_alarms(calibrated.noise)  # the summary's last alarm is judged by what is known now
        elif self.posterior.from_inputs or not self._is_written_for_all():
            self._write(self._found or self.posterior.found())

    def _tell_alarms(self, noise: NoiseEstimate | Estimates, posterior: Posterior | None = None) -> None:
        """None if the estimate cannot be trusted."""
        trusted = not noise.alarms
        self._known = (noise.rate.value, noise.rate.high) if trusted else None
        self._tell_again()
        self._training.posterior = posterior.rows.gather if trusted and posterior is not None else None

    def _tell_again(self) -> None:
        """After a restore: labels that were recomputed are undone, and with them that the estimate is too old."""
        self._training.noise_rate = self._known

    def _is_written_for_all(self) -> bool:
        runtime = self._training.runtime
        return runtime.any_of(runtime.is_main and self._is_written())[0]

    def _is_written(self) -> bool:
        """Whether the posterior of all rows is there and can be read."""
        folder, classes = self._directory.path, self._training.learner.num_classes
        try:
            read_estimates(folder, classes)
            saved = SavedLabels(folder, classes, name=POSTERIOR)
            rows = sum(len(chunk.ids) for chunk in saved.chunks(rows_at_once(classes)))
            return rows == self._training.sampler.num_rows
        except RunError:
            return False

    def _write_early(self, found: Posterior) -> None:
        self._write(found)
        if self._training.watches:
            self._tell_alarms(found.noise)

    def _write(self, found: Posterior) -> None:
        """All ranks write their rows; then the main rank writes the estimates, which mark them as complete."""
        job, folder = self._training, self._directory.path
        if job.runtime.is_main:
            (folder / ESTIMATES).unlink(missing_ok=True)
            shutil.rmtree(folder / POSTERIOR, ignore_errors=True)  # files of another number of ranks
        job.runtime.barrier()
        rows, ids, given = found.rows.state(), job.train.ids, job.train.labels
        given = given if found.checks is not None else replace(given, before=None)
        rank, best = job.runtime.rank, found.likeliest
        save_labels(folder, job.indices, given, rows, ids, rank, name=POSTERIOR, likeliest=best)
        job.runtime.barrier()
        if job.runtime.is_main:
            alarms = (*found.noise.alarms, *([LATE] if found.source == "last epoch" else []))
            noise = replace(found.noise, alarms=alarms)
            write_estimates(folder, Estimates.of(noise, found.source, str(found.choice), found.checks))
        job.runtime.barrier()
