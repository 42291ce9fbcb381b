"""Train or resume a run: lock its folder, build its objects, and run the loop."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from pencil.config import RunConfig
from pencil.engine import (
    Event,
    JsonLines,
    Listener,
    Loop,
    Mlflow,
    Policy,
    Runtime,
    TensorBoard,
    Training,
    WeightsAndBiases,
    is_lost_rank,
)
from pencil.errors import DeviceError, PencilError, RunError
from pencil.machine import fault_of
from pencil.run.build import build_runtime, build_training, warn_of_fixed_plan
from pencil.run.code import Trust, check_code, code_in
from pencil.run.directory import JOB, RunDirectory
from pencil.run.embedding import with_features
from pencil.run.estimation import Estimation
from pencil.run.finishing import leave_all
from pencil.run.lock import locked
from pencil.run.method import load_method
from pencil.run.noise import describe_noise
from pencil.run.own_data import check_same_encoder, data_fingerprint, own_examples
from pencil.run.renewal import Renewal, check_renewals
from pencil.run.resolve import resolve
from pencil.run.sources import Prepared, describe_data
from pencil.run.start import StartOfTraining

AFTER_RESTART_SECONDS = 30.0  # under torchrun: time for the replaced process to end


def train(
    config: RunConfig, out: str | Path, listeners: Sequence[Listener] = (), *, policy: Policy | None = None
) -> RunDirectory:
    """Train a new run, from the first step to the last or to a signal.

    The folder is created after data and network have been built, so a mistake in the settings leaves no folder. If
    torchrun restarts its workers after one died, this function continues their run.

    Args:
        config: All settings.
        out: The folder for the run; it must not contain one.
        listeners: Receive the events of training.
        policy: Decides at the end of each epoch how the run continues; see ``pencil.engine.policy``.
    """
    out = Path(out)
    if RunDirectory(out).was_begun_by_this_job(config):
        return resume(out, listeners, trust_code=code_in(config).values(), policy=policy)
    _need_trackers(config)
    load_method(config)  # finds mistakes in its settings before any data is read
    directory = RunDirectory.vacant(out)  # checked on all ranks before any rank creates it
    with _ranks(config, directory) as runtime:
        config, prepared = resolve(config, runtime, _reports("check", runtime, listeners))
        _describe(config, prepared.train.num_classes, runtime, listeners)
        prepared = with_features(prepared, config.data, runtime, _reports("embed", runtime, listeners))
        training = build_training(config, prepared, directory, runtime)
        check_renewals(config, training)
        training.policy = policy or training.policy
        warn_of_fixed_plan(config, training)
        fingerprint, verified = data_fingerprint(prepared) if runtime.is_main else {}, prepared.verified
        alone = _alone(
            directory, runtime, lambda: RunDirectory.create(directory.path, config, fingerprint, verified)
        )
        with alone, _faults_explained(directory):
            return _carry_on(config, directory, prepared, training, listeners)


def resume(
    out: Path,
    listeners: Sequence[Listener] = (),
    *,
    trust_code: Trust = False,
    changed_data: bool = False,
    from_start: bool = False,
    policy: Policy | None = None,
) -> RunDirectory:
    """Continue a run exactly where its newest checkpoint left it.

    Args:
        out: The run's folder.
        listeners: Receive the events of training.
        trust_code: Whether code that the run names (data, model, method) may be imported: True, or the import paths.
        changed_data: Whether to continue although the data has changed since the run began.
        from_start: Whether to ignore all checkpoints and begin at the first step.
        policy: The policy that the run was started with, if any.
    """
    directory = RunDirectory.open(out)
    if directory.is_finished:
        if os.environ.get("RANK", "0") == "0":
            with locked(directory.path):
                directory.convert()
        return directory
    config = directory.config
    check_code(code_in(config), trust_code, source=out)
    with (
        _ranks(config, directory, resumes=True) as runtime,
        _alone(directory, runtime, directory.convert),
        _faults_explained(directory),
    ):
        report = _reports("check", runtime, listeners)
        prepared = own_examples(directory, trust_code=trust_code, changed_data=changed_data, progress=report)
        prepared = with_features(prepared, config.data, runtime, _reports("embed", runtime, listeners))
        check_same_encoder(directory, prepared.encoder, directory.config.data.embed)
        begins = from_start or directory.saved_step is None
        training = build_training(config, prepared, directory, runtime, begins=begins)
        training.policy = policy or training.policy
        return _carry_on(config, directory, prepared, training, listeners, from_start=from_start)


@contextlib.contextmanager
def _alone(
    directory: RunDirectory, runtime: Runtime, begin: Callable[[], object] = lambda: None
) -> Iterator[None]:
    """Hold the folder's lock on the main rank; if that fails, or the run cannot begin, raise on every rank."""
    problem: PencilError | None = None
    with contextlib.ExitStack() as stack:
        if runtime.is_main:
            try:
                wait = AFTER_RESTART_SECONDS if JOB in os.environ else 0.0
                stack.enter_context(locked(directory.path, wait_seconds=wait))
                begin()
            except PencilError as error:
                problem = error
        if runtime.any_of(problem is not None)[0]:
            raise problem or RunError(
                f"{directory.path}: the main rank cannot start; fix the error that it reports"
            )
        yield


def _carry_on(
    config: RunConfig,
    directory: RunDirectory,
    prepared: Prepared,
    training: Training,
    listeners: Sequence[Listener],
    *,
    from_start: bool = False,
) -> RunDirectory:
    loop = Loop(training)
    if not from_start:
        loop.resume()
    is_main = training.runtime.is_main
    estimation = Estimation(config, directory, training)
    start = StartOfTraining(config, training, directory.path)
    renewal = Renewal(training, estimation.posterior, start.choice, directory.path)
    if is_main:
        training.events.listeners = (*_writers(config, directory, loop.step), *listeners)
    estimation.begin(loop.step)
    start.begin(loop.progress.step)
    renewal.begin(loop.progress.step)
    try:
        finished = loop.run()
    finally:
        training.events.close()
    if finished:
        leave_all(config, directory, prepared, loop, estimation)
    return directory


def _describe(config: RunConfig, classes: int, runtime: Runtime, listeners: Sequence[Listener]) -> None:
    """Report how the data is read and what noise does to it; the main rank reports for all."""
    lines = (
        (describe_data(config.data), describe_noise(config.data.noise, classes)) if runtime.is_main else ()
    )
    for words in filter(None, lines):
        for listener in listeners:
            listener.handle(Event("data", 0, {"words": words}))


def _reports(
    kind: Literal["check", "embed"], runtime: Runtime, listeners: Sequence[Listener]
) -> Callable[[int, int], None]:
    """Return a function that reports the number of rows done to listeners; the main rank reports for all."""
    begun = spoken = time.monotonic()
    before = 0

    def report(done: int, total: int) -> None:
        nonlocal begun, spoken, before
        if done < before:  # the next split, which began after the last report
            begun = spoken
        before, spoken = done, time.monotonic()
        left = (spoken - begun) / done * (total - done)
        for listener in listeners if runtime.is_main else ():
            listener.handle(Event(kind, 0, {"done": done, "total": total, "seconds_left": left}))

    return report


@contextlib.contextmanager
def _ranks(config: RunConfig, directory: RunDirectory, *, resumes: bool = False) -> Iterator[Runtime]:
    """Join the other ranks; if one is lost, raise an error that names the last checkpoint."""
    try:
        runtime = build_runtime(config) if not resumes else _runtime_of_run(config, directory)
        try:
            yield runtime
        finally:
            runtime.stop()
    except RuntimeError as error:
        if is_lost_rank(error):
            raise _lost_rank(error, directory) from error
        raise


def _runtime_of_run(config: RunConfig, directory: RunDirectory) -> Runtime:
    """The runtime of a run that continues, perhaps on another machine."""
    try:
        return build_runtime(config)
    except DeviceError as error:
        file = directory.path / "config.toml"
        raise DeviceError(
            f'{error}: to continue here, write device = "auto" under [train] in {file}'
        ) from error


@contextlib.contextmanager
def _faults_explained(directory: RunDirectory) -> Iterator[None]:
    """Turn a fault of the machine, such as a full disk, into a one-line error; the last checkpoint stays intact."""
    try:
        yield
    except PencilError:
        raise
    except Exception as error:
        words = fault_of(error)
        if words is None:
            raise
        raise RunError(
            f"{directory.path}: {words}; then continue with: {directory.resume_command}"
        ) from error


def _lost_rank(error: RuntimeError, directory: RunDirectory) -> RunError:
    why = re.sub(r"^\[\S+\] ", "", str(error)).split(". ")[0]  # without gloo's file name and its hints
    step = directory.saved_step
    saved = "no checkpoint was saved yet" if step is None else f"the last checkpoint is at step {step}"
    return RunError(
        f"another rank was lost ({' '.join(why.split())}); {saved}; use torchrun --max-restarts=N to restart all, or "
        f"continue with any number of ranks: {directory.resume_command}"
    )


def _need_trackers(config: RunConfig) -> None:
    """Raise an error for missing tracker packages before any data is read."""
    if config.train.mlflow:
        Mlflow.package()
    if config.train.wandb:
        WeightsAndBiases.package()


def _writers(config: RunConfig, directory: RunDirectory, step: int) -> list[Listener]:
    writers: list[Listener] = [JsonLines(directory.metrics, resume_at=step)]
    if config.train.tensorboard:
        writers.append(TensorBoard(directory.path / "tensorboard", resume_at=step))
    if config.train.mlflow:
        writers.append(Mlflow(directory.path, config.table()))
    if config.train.wandb:
        writers.append(WeightsAndBiases(directory.path, config.table()))
    return writers
