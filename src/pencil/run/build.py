"""Build a training from a RunConfig."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Iterable

import torch

from pencil.algorithm import total_epochs
from pencil.config import RunConfig
from pencil.config.methods import OwnMethod
from pencil.data import EpochSampler, Examples, Order, blocks_of, mixed_seed
from pencil.data.sampler import WINDOW
from pencil.engine import Auto, Checkpoints, LabelLearner, Policy, Runtime, Training
from pencil.errors import ConfigError, DeviceError, PlanWarning, RunError
from pencil.run.directory import RunDirectory
from pencil.run.joining import earlier_run, start_network
from pencil.run.method import build_method, check_networks
from pencil.run.network import Make, build_network, build_optimizer, build_preparation
from pencil.run.sources import Prepared
from pencil.stores import GivenLabels

ORDER, DROPOUT = 13, 14  # what draws random numbers, see sources


def build_runtime(config: RunConfig) -> Runtime:
    """Start the runtime: device, ranks and precision."""
    train = config.train
    return Runtime.start(
        train.device,
        train.precision,
        channels_last=train.channels_last,
        parallel=train.parallel,
        timeout_seconds=train.timeout_seconds,
    )


def runtime_anywhere(config: RunConfig) -> Runtime:
    """The runtime for using a finished run, which may have been trained on a machine with other devices."""
    try:
        return build_runtime(config)
    except DeviceError:
        train = config.train.model_copy(update={"device": "auto"})
        runtime = build_runtime(config.model_copy(update={"train": train}))
    warnings.warn(
        f"train.device: the run was trained on {config.train.device!r}, which this machine does not have; "
        f"{str(runtime.device)!r} is used",
        stacklevel=3,
    )
    return runtime


def build_training(
    config: RunConfig,
    prepared: Prepared,
    directory: RunDirectory | None,
    runtime: Runtime,
    *,
    make: Make | None = None,
    begins: bool = True,
) -> Training:
    """Build all objects of a run. They are the same on every rank, except for the rows that it owns.

    Without a directory, training writes nothing to disk and saves no checkpoints. ``make`` builds the network instead
    of ``config.model``. The network of a run that begins may start from that of an earlier one; a run that continues
    has its own checkpoint. For labels see ``start``.
    """
    _check_plan(config, runtime)
    check_networks(config)
    order = Order(len(prepared.train), blocks_of(prepared.train.inputs))
    check_same_rows(order, runtime, prepared.skipped_rows if config.data.on_error == "skip" else None)
    indices = order.owned_indices(runtime.rank, runtime.world_size)
    mine = prepared.train.subset(indices)
    sampler = build_sampler(config, order, runtime)
    preparation = build_preparation(config, prepared.train, runtime)
    network = build_network(config, prepared.train, preparation, runtime, make)
    earlier = earlier_run(config.start) if begins and config.start.run is not None else None
    if earlier is not None:
        start_network(network, earlier, prepared.train.class_names)
    model = runtime.network(network)
    keep = config.checkpoint.keep
    learner = _build_learner(config, prepared.train, mine.labels, directory)
    torch.manual_seed(mixed_seed(config.seed, DROPOUT, runtime.rank))
    return Training(
        runtime=runtime,
        model=model,
        optimizer=build_optimizer(config.optimizer, model),
        learner=learner,
        sampler=sampler,
        preparation=preparation,
        train=mine,
        indices=indices,
        validation=prepared.validation,
        test=prepared.test,
        checkpoints=None if directory is None else Checkpoints(directory.checkpoints, runtime, keep),
        checkpoint_seconds=config.checkpoint.seconds,
        checkpoint_steps=config.checkpoint.steps,
        accumulate=config.train.accumulate,
        workers=config.train.workers,
        evaluate_every=config.train.evaluate_every,
        compile=config.train.compile,
        alarms=config.alarms,
        policy=_own_policy(config, prepared, learner) if directory is not None else None,
    )


def _own_policy(config: RunConfig, prepared: Prepared, learner: LabelLearner) -> Policy | None:
    """The policy of ``plan = "auto"``, for a method that corrects labels and with rows to judge it by."""
    held_out = 0 if prepared.validation is None else len(prepared.validation)
    return Auto(held_out) if config.plan == "auto" and held_out and learner.method.learns_labels else None


def warn_of_fixed_plan(config: RunConfig, training: Training) -> None:
    """Warn where a run begins with ``plan = "auto"``, but nothing is held out to decide by."""
    decides = training.policy is not None or not training.learner.method.learns_labels
    if config.plan == "auto" and not decides and training.runtime.is_main:
        warnings.warn(
            "plan: 'auto' decides by held-out rows, and there are none, so the phases stay as they are; hold some out "
            "with data.validation=0.1, or set plan=fixed",
            PlanWarning,
            stacklevel=3,
        )


def _build_learner(
    config: RunConfig, train: Examples, labels: GivenLabels, directory: RunDirectory | None
) -> LabelLearner:
    with warnings.catch_warnings():
        # Proofs that no label flips are for hard given labels, and an earlier run may have corrected them already.
        if config.start.run is not None or config.start.labels != "given":
            warnings.simplefilter("ignore", PlanWarning)
        method = build_method(config, train=train)
        try:
            return LabelLearner(
                method,
                labels,
                config.phases,
                store=config.store,
                folder=None if directory is None else directory.path,
            )
        except ValueError as error:  # of a setting that does not fit the number of classes
            if isinstance(config.method, OwnMethod):
                raise
            raise ConfigError(f"method.{error}") from error


def _check_plan(config: RunConfig, runtime: Runtime) -> None:
    if not total_epochs(config.phases):
        raise ConfigError("phases: no phase has an epoch; set phases.NAME.epochs, or --epochs")
    if config.train.batch_size < runtime.world_size * config.train.accumulate:
        raise ConfigError(
            f"train.batch_size: {config.train.batch_size} is less than {runtime.world_size} ranks × "
            f"{config.train.accumulate} passes (train.accumulate); raise it"
        )


def check_same_rows(order: Order, runtime: Runtime, skipped: Iterable[str] | None = None) -> None:
    """Check that all ranks have the same rows; a shard or an image may be skipped on one machine only.

    Raises:
        RunError: The ranks have different rows.
    """
    blocks = order.blocks
    shards = b"" if blocks is None else torch.stack([blocks.sizes, blocks.sources]).numpy().tobytes()
    left_out = "\n".join(skipped or ()).encode("utf-8", "surrogateescape")
    content = str(order.num_rows).encode() + shards + left_out  # the number may be the average of the others'
    mine = torch.tensor([order.num_rows, zlib.crc32(content)], dtype=torch.float64)
    if not torch.equal(runtime.total(mine.clone()), mine * runtime.world_size):
        parts = "" if blocks is None else f"{len(blocks)} with "
        raise RunError(
            f"data.path: the ranks read different {'rows' if blocks is None else 'shards'} (rank {runtime.rank}: "
            f"{parts}{order.num_rows} rows); make the same {'files' if blocks is None else 'shards'} readable on every "
            "machine"
        )


def build_sampler(config: RunConfig, order: Order, runtime: Runtime) -> EpochSampler:
    """Build the sampler, which orders the rows of every epoch by seed."""
    return EpochSampler(
        order.num_rows,
        config.train.batch_size,
        mixed_seed(config.seed, ORDER),
        runtime.rank,
        runtime.world_size,
        blocks=order.placed,
        window=getattr(config.data, "window", WINDOW),
    )
