"""Train a run, or continue one: build it, hold its folder, leave its results."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

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
    read_metrics,
    whole_weights,
)
from pencil.errors import PencilError, RunError
from pencil.machine import fault_of
from pencil.results import save_labels, save_model, summarize
from pencil.run.build import build_runtime, build_training
from pencil.run.code import Trust, check_code, code_in
from pencil.run.directory import JOB, RunDirectory
from pencil.run.label_table import rows_to_keep
from pencil.run.lock import locked
from pencil.run.method import load_method
from pencil.run.network import model_card
from pencil.run.own_data import data_fingerprint, own_examples
from pencil.run.resolve import resolve
from pencil.run.sources import Prepared

AFTER_RESTART_SECONDS = 30.0  # under torchrun: for the process that this one replaces to end
SKIPPED_LISTED = 1000  # rows that the summary lists; it counts them all


def train(
    config: RunConfig, out: str | Path, listeners: Sequence[Listener] = (), *, policy: Policy | None = None
) -> RunDirectory:
    """Train a new run, from the first step to the last or to a signal.

    The folder is made when data and network are ready, so a mistake in the settings leaves none behind. If torchrun
    restarts its workers after one died, this continues the run that they had begun.

    Args:
        config: All settings.
        out: The folder for the run; it must not hold one.
        listeners: What receives the events of training.
        policy: What decides at the end of each epoch how the run continues; see ``pencil.engine.policy``.
    """
    out = Path(out)
    if RunDirectory(out).was_begun_by_this_job(config):
        return resume(out, listeners, trust_code=code_in(config).values(), policy=policy)
    _need_trackers(config)
    load_method(config)  # a mistake in its settings is found before any data is read
    directory = RunDirectory.vacant(out)  # no rank makes it before all have looked and met below
    with _ranks(config, directory) as runtime:
        config, prepared = resolve(config, runtime, _teller(runtime, listeners))
        training = build_training(config, prepared, directory, runtime)
        training.policy = policy
        fingerprint = data_fingerprint(prepared) if runtime.is_main else {}
        alone = _alone(directory, runtime, lambda: RunDirectory.create(directory.path, config, fingerprint))
        with alone, _faults_told(directory):
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
        listeners: Who hears of its progress.
        trust_code: Whether code that the run names (data, model, method) may be imported: True, or the import paths.
        changed_data: Go on where the data is not what the run began with.
        from_start: Begin again at the first step, whatever checkpoints there are.
        policy: The one that the run began with, if any.
    """
    directory = RunDirectory.open(out)
    if directory.is_finished:
        return directory
    config = directory.config
    check_code(code_in(config), trust_code, source=out)
    with _ranks(config, directory) as runtime, _alone(directory, runtime), _faults_told(directory):
        told = _teller(runtime, listeners)
        prepared = own_examples(directory, trust_code=trust_code, changed_data=changed_data, progress=told)
        training = build_training(config, prepared, directory, runtime)
        training.policy = policy
        return _carry_on(config, directory, prepared, training, listeners, from_start=from_start)


@contextlib.contextmanager
def _alone(
    directory: RunDirectory, runtime: Runtime, begin: Callable[[], object] = lambda: None
) -> Iterator[None]:
    """While the main rank holds the folder's lock; where it cannot, or cannot begin, every rank ends."""
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
            raise problem or RunError(f"{directory.path}: the main rank cannot work there")
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
    if is_main:
        training.events.listeners = (*_writers(config, directory, loop.step), *listeners)
    try:
        finished = loop.run()
    finally:
        training.events.close()
    if finished:
        _leave_labels(config, directory, training)
        weights = whole_weights(training.model)
        training.runtime.barrier()  # every part is there before the run counts as finished
        if is_main:
            _leave_results(config, directory, prepared, training, weights, int(loop.progress.changed))
        training.runtime.barrier()  # every rank sees a finished run
    return directory


def _teller(runtime: Runtime, listeners: Sequence[Listener]) -> Callable[[int, int], None]:
    """Tells listeners how many rows were looked at; of several ranks, which all look at all rows, one speaks."""

    def tell(done: int, total: int) -> None:
        for listener in listeners if runtime.is_main else ():
            listener.handle(Event("check", 0, {"done": done, "total": total}))

    return tell


@contextlib.contextmanager
def _ranks(config: RunConfig, directory: RunDirectory) -> Iterator[Runtime]:
    """This process among the others; whenever one of them is lost, what was saved is named."""
    try:
        runtime = build_runtime(config)
        try:
            yield runtime
        finally:
            runtime.stop()
    except RuntimeError as error:
        if is_lost_rank(error):
            raise _lost_rank(error, directory) from error
        raise


@contextlib.contextmanager
def _faults_told(directory: RunDirectory) -> Iterator[None]:
    """What the machine ran out of, in one line; the last checkpoint is as it was."""
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
    why = re.sub(r"^\[\S+\] ", "", str(error)).split(". ")[0]  # without gloo's file and its guesses
    step = directory.saved_step
    saved = "nothing was saved yet" if step is None else f"the last checkpoint is that of step {step}"
    return RunError(
        f"another rank is gone ({' '.join(why.split())}); {saved}; torchrun --max-restarts=N starts all again, or "
        f"continue with any number of ranks: {directory.resume_command}"
    )


def _need_trackers(config: RunConfig) -> None:
    """Packages that are missing are missed before anything is read or made."""
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


def _leave_labels(config: RunConfig, directory: RunDirectory, training: Training) -> None:
    """Every rank writes the rows it owns."""
    if training.runtime.is_main:
        shutil.rmtree(directory.labels, ignore_errors=True)  # parts of another number of ranks
    training.runtime.barrier()
    mine, rows = training.train, rows_to_keep(config, training.learner, directory.path)
    save_labels(directory.path, training.indices, mine.labels, rows, mine.ids, training.runtime.rank)


def _leave_results(
    config: RunConfig,
    directory: RunDirectory,
    prepared: Prepared,
    training: Training,
    weights: dict[str, Tensor],
    changed: int,
) -> None:
    train = prepared.train
    save_model(directory.path, weights, model_card(config, train, training.preparation))
    metrics = read_metrics(directory.metrics)
    summary = summarize(metrics, num_rows=len(train), labels_changed=changed)
    method = {"method": config.method.name, "learns_labels": training.learner.method.learns_labels}
    directory.write_summary({**method, **summary, **_skipped(prepared)})


def _skipped(prepared: Prepared) -> dict[str, Any]:
    """What the run went on without: shards with their rows, and single rows with what is wrong."""
    result: dict[str, Any] = {}
    if prepared.skipped:
        result["skipped_shards"] = dict(prepared.skipped)
    if prepared.skipped_rows:
        result["skipped_rows"] = dict(itertools.islice(prepared.skipped_rows.items(), SKIPPED_LISTED))
        result["skipped_rows_count"] = len(prepared.skipped_rows)
    return result
