"""Saving a training and taking it up again, exactly where it stood."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pencil.engine.checkpoint import State
from pencil.engine.guard import Guard
from pencil.engine.progress import Progress
from pencil.engine.row_files import RowSnapshot, read_rows
from pencil.engine.state import restore, snapshot
from pencil.engine.training import Training
from pencil.errors import DataError, RunError


class Saver:
    """Takes checkpoints of a training, and loads them into it.

    Attributes:
        step: The step of the newest checkpoint; None where there is none yet.
    """

    def __init__(self, training: Training, guard: Guard) -> None:
        self.step: int | None = None
        self._training = training
        self._guard = guard
        self._saved_at = time.monotonic()

    @property
    def is_due(self) -> bool:
        """Whether the last checkpoint is older than ``Training.checkpoint_seconds``."""
        return time.monotonic() - self._saved_at >= self._training.checkpoint_seconds

    def finite_state(self, progress: Progress) -> State:
        """What is to be saved; raises ``NotFiniteError``, on all ranks, where it is not finite."""
        job = self._training
        job.runtime.agree_on_buffers(job.backbone)
        saved = progress.to_json(job.sampler.num_rows, job.runtime)
        state = snapshot(job.backbone, job.optimizer, saved, job.runtime.rank, shared=job.learner.shared)
        self._guard.require_finite(state)
        return state

    def save(self, progress: Progress, state: State, *, wait: bool) -> None:
        """Take a checkpoint, in the background unless ``wait`` is set."""
        job, step = self._training, progress.taken
        needs = [] if progress.course is None else progress.course.protected
        if job.checkpoints is not None:
            rows = RowSnapshot(job.learner.store.state(), job.owned.start, at_rest=wait)
            if wait:
                job.checkpoints.save(step, state, rows, needs)
            else:
                job.checkpoints.begin(step, state, rows, needs)
                job.learner.before_write = rows.note
            self.step = step
        self._saved_at = time.monotonic()

    def newest(self) -> Progress | None:
        """Load the newest whole checkpoint, if there is one."""
        checkpoints = self._training.checkpoints
        newest = checkpoints.newest() if checkpoints else None
        if newest is None:
            return None
        progress = self._load(newest)
        self.step = progress.taken
        return progress

    def at(self, step: int) -> Progress:
        """Load the checkpoint after ``step`` steps."""
        checkpoints = self._training.checkpoints
        assert checkpoints is not None
        checkpoints.wait()  # it may still be on its way, and so may others that read the rows
        return self._load(checkpoints.at(step))

    @contextlib.contextmanager
    def finishing(self) -> Iterator[None]:
        """Whatever ends training, a checkpoint that is being written is finished."""
        try:
            yield
        except BaseException:
            if self._training.checkpoints is not None:
                with contextlib.suppress(Exception):  # what ended training counts
                    self._training.checkpoints.wait()
            raise

    def _load(self, path: Path) -> Progress:
        try:
            return self._loaded(path)
        except (
            KeyError,
            TypeError,
            ValueError,
            DataError,
        ) as error:  # names or values that this program does not write
            raise RunError(
                f"checkpoint {path} does not fit this run ({type(error).__name__}: {error}); resume it with the "
                "settings, data and code that it began with"
            ) from error

    def _loaded(self, path: Path) -> Progress:
        job = self._training
        assert job.checkpoints is not None
        rank, shared = job.runtime.rank, job.learner.shared
        saved: dict[str, Any] = restore(
            job.checkpoints, path, job.backbone, job.optimizer, rank, shared=shared
        )
        if saved["num_rows"] != job.sampler.num_rows:
            raise RunError(
                f"checkpoint {path.name} is of {saved['num_rows']} rows, but the data now has "
                f"{job.sampler.num_rows}; resume with the data the run began with"
            )
        read_rows(path, job.learner.store.state(), job.owned)
        return Progress.from_json(saved, job.sampler)
