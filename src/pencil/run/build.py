"""A training from a RunConfig: the only place that turns settings into objects."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW

from pencil.algorithm import total_epochs
from pencil.config import RunConfig
from pencil.config.schema import Optimizer as OptimizerSection
from pencil.data import (
    EpochSampler,
    Examples,
    Inputs,
    Normalize,
    Order,
    Preparation,
    blocks_of,
    channel_statistics,
    mixed_seed,
)
from pencil.data.sampler import WINDOW
from pencil.engine import Checkpoints, LabelLearner, Runtime, Training, is_sharded
from pencil.errors import ConfigError, RunError
from pencil.imports import users_code
from pencil.kinds import DataSection
from pencil.methods import Method
from pencil.models import PAIR, build_model
from pencil.results import ModelCard, load_weights, read_card
from pencil.run.code import Trust, check_code, code_of_run
from pencil.run.directory import RunDirectory
from pencil.run.noise import noise_matrix
from pencil.run.sources import Prepared
from pencil.run.trusted import is_run, newest_entry
from pencil.stores import USUAL_K, choose_store, free_memory

WEIGHTS, AUGMENTATION, ORDER, DROPOUT = 11, 12, 13, 14  # what draws random numbers, see sources
STATISTICS_ROWS = 20_000  # enough to know a channel's mean and deviation to three digits
Make = Callable[[tuple[int, ...], int], nn.Module]
"""A function that builds a network from the shape of one input and the number of classes."""


def build_runtime(config: RunConfig) -> Runtime:
    """Device, ranks and precision."""
    train = config.train
    return Runtime.start(
        train.device,
        train.precision,
        channels_last=train.channels_last,
        parallel=train.parallel,
        timeout_seconds=train.timeout_seconds,
    )


def build_training(
    config: RunConfig,
    prepared: Prepared,
    directory: RunDirectory | None,
    runtime: Runtime,
    *,
    make: Make | None = None,
) -> Training:
    """Everything a run needs, the same on every rank but for the rows it owns.

    Without a directory it leaves nothing on disk and takes no checkpoints. ``make`` builds the network in place of
    ``config.model``.
    """
    _check_plan(config, runtime)
    _check_pair(config)
    order = Order(len(prepared.train), blocks_of(prepared.train.inputs))
    check_same_rows(order, runtime, prepared.skipped_rows if config.data.on_error == "skip" else None)
    indices = order.owned_indices(runtime.rank, runtime.world_size)
    mine = prepared.train.subset(indices)
    sampler = build_sampler(config, order, runtime)
    preparation = build_preparation(config, prepared.train, runtime)
    model = runtime.network(build_network(config, prepared.train, preparation, runtime, make))
    keep = config.checkpoint.keep
    torch.manual_seed(mixed_seed(config.seed, DROPOUT, runtime.rank))
    return Training(
        runtime=runtime,
        model=model,
        optimizer=build_optimizer(config.optimizer, model),
        learner=LabelLearner(
            build_method(config, train=prepared.train),
            mine.labels,
            config.phases,
            store=config.store,
            folder=None if directory is None else directory.path,
        ),
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
    )


def with_store(config: RunConfig, train: Examples, runtime: Runtime) -> RunConfig:
    """The settings with ``auto`` resolved by the main rank's memory: a run keeps its store wherever it goes on."""
    if config.store != "auto":
        return config
    memory = runtime.total(
        torch.tensor([float(free_memory()) if runtime.is_main else 0.0], dtype=torch.float64)
    )
    choice = choose_store(
        -(-len(train) // runtime.world_size),
        config.method.row_width(train.num_classes),
        can_cut=config.method.cut(USUAL_K) is not None,
        memory=int(memory[0]),
    )
    return config.model_copy(update={"store": str(choice)})


def with_review(config: RunConfig, runtime: Runtime) -> RunConfig:
    """The settings with the entry of a review to stop at, the main rank's: who reviews on does not change a run."""
    trusted = config.data.trusted
    if trusted is None or trusted.entry is not None or not is_run(trusted):
        return config
    last = float(newest_entry(trusted)) if runtime.is_main else 0.0
    entry = int(runtime.total(torch.tensor([last], dtype=torch.float64))[0])
    data = config.data.model_copy(update={"trusted": trusted.model_copy(update={"entry": entry})})
    return config.model_copy(update={"data": data})


def _check_plan(config: RunConfig, runtime: Runtime) -> None:
    if not total_epochs(config.phases):
        raise ConfigError("phases: no phase has an epoch; set phases.NAME.epochs, or --epochs")
    if config.train.batch_size < runtime.world_size * config.train.accumulate:
        raise ConfigError(
            f"train.batch_size: {config.train.batch_size} is fewer than {runtime.world_size} ranks × "
            f"{config.train.accumulate} passes (train.accumulate); raise it"
        )


def build_method(config: RunConfig, train: Examples) -> Method:
    """The method as configured, with the matrix of the run's own noise where it wants that."""
    method, noise = config.method, config.data.noise
    if not method.wants_noise:
        return method
    try:
        return method.with_noise(None if noise is None else noise_matrix(noise, train))
    except ValueError as error:
        raise ConfigError(f"method.{error}") from error


def _check_pair(config: RunConfig) -> None:
    """A method of two networks needs a pair of them, and a pair needs such a method."""
    two, pair = config.method.networks == 2, config.model.name == PAIR
    if two and not pair:
        raise ConfigError(
            f"model.name = {config.model.name!r}: method {config.method.name} trains two networks; "
            f"--set model.name=pair --set model.args.name={config.model.name}"
        )
    if pair and not two:
        raise ConfigError(
            f"model.name = 'pair': method {config.method.name} trains one network; name that one"
        )


def check_same_rows(order: Order, runtime: Runtime, skipped: Iterable[str] | None = None) -> None:
    """Refuse ranks that do not see the same rows, as where a shard or an image is skipped on one machine only."""
    blocks = order.blocks
    if blocks is None and skipped is None:
        return
    shards = b"" if blocks is None else torch.stack([blocks.sizes, blocks.sources]).numpy().tobytes()
    left_out = "\n".join(skipped or ()).encode("utf-8", "surrogateescape")
    mine = torch.tensor([order.num_rows, zlib.crc32(shards + left_out)], dtype=torch.float64)
    if not torch.equal(runtime.total(mine.clone()), mine * runtime.world_size):
        parts = "" if blocks is None else f"{len(blocks)} with "
        raise RunError(
            f"data.path: the ranks see different {'rows' if blocks is None else 'shards'} (rank {runtime.rank}: {parts}"
            f"{order.num_rows} rows); make the same {'files' if blocks is None else 'shards'} readable on every machine"
        )


def build_sampler(config: RunConfig, order: Order, runtime: Runtime) -> EpochSampler:
    """The order of rows in every epoch, by seed."""
    return EpochSampler(
        order.num_rows,
        config.train.batch_size,
        mixed_seed(config.seed, ORDER),
        runtime.rank,
        runtime.world_size,
        blocks=order.placed,
        window=getattr(config.data, "window", WINDOW),
    )


def build_network(
    config: RunConfig,
    train: Examples,
    preparation: Preparation,
    runtime: Runtime,
    make: Make | None = None,
) -> nn.Module:
    """The backbone with seeded starting weights, leaving the global random state as it was."""
    field, name = ("model.name", config.model.name) if make is None else ("module", make.__name__)
    with torch.random.fork_rng(devices=[]), users_code(field, name):
        torch.manual_seed(mixed_seed(config.seed, WEIGHTS))
        shape = input_shape(train.inputs, preparation)
        model = (make or _maker(config))(shape, train.num_classes)
        model = runtime.place(model)
        _check_logits(model, _first(train.inputs, preparation), train.num_classes, f"{field} = {name!r}")
    return model


def _maker(config: RunConfig) -> Make:
    name, args = config.model.name, config.model.args
    return lambda shape, classes: build_model(name, num_classes=classes, input_shape=shape, args=args)


def _check_logits(model: nn.Module, example: Tensor, num_classes: int, what: str) -> None:
    """One example through the network: better a sentence now than a shape error in the first batch."""
    model.eval()
    with torch.no_grad():
        logits = model(example)
    model.train()
    shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
    if shape != (1, num_classes):
        raise ConfigError(
            f"{what}: for one input {tuple(example.shape)} it returns {shape}, "
            f"but must return logits (1, {num_classes})"
        )


def build_optimizer(section: OptimizerSection, model: nn.Module) -> torch.optim.Optimizer:
    """The optimiser; its rate is set before every step from the phase's schedule."""
    if section.name == "adamw":
        return AdamW(model.parameters(), lr=0.0, weight_decay=section.weight_decay)
    return SGD(
        model.parameters(),
        lr=0.0,
        momentum=section.momentum,
        nesterov=section.nesterov,
        weight_decay=section.weight_decay,
        fused=_is_contiguous(model),
    )


def _is_contiguous(model: nn.Module) -> bool:
    """Whether torch's fused step, twice as fast, may be taken: it goes through memory in order, whatever the strides.

    Gradients have the strides of their weights, so it is enough that those are contiguous (and no shards).
    """
    return not is_sharded(model) and all(weight.is_contiguous() for weight in model.parameters())


def build_preparation(config: RunConfig, train: Examples, runtime: Runtime) -> Preparation:
    """Normalisation from a sample of the training inputs, augmentation by seed."""
    return Preparation(
        device=runtime.device,
        normalize=_normalize(config.data, train, mixed_seed(config.seed, AUGMENTATION)),
        augment=config.data.augment,
        seed=mixed_seed(config.seed, AUGMENTATION),
        channels_last=runtime.channels_last,
    )


def input_shape(inputs: Inputs, preparation: Preparation) -> tuple[int, ...]:
    """The shape of one input as the network sees it."""
    return tuple(_first(inputs, preparation).shape[1:])


def _first(inputs: Inputs, preparation: Preparation) -> Tensor:
    return preparation.evaluation(inputs.fetch(torch.tensor([0])))


def model_card(config: RunConfig, train: Examples, preparation: Preparation) -> ModelCard:
    """How to build and feed the backbone of this run."""
    normalize, augment = preparation.normalize, preparation.augment
    return ModelCard(
        name=config.model.name,
        args=config.model.args,
        input_shape=input_shape(train.inputs, preparation),
        class_names=train.class_names,
        mean=normalize.mean if normalize else None,
        std=normalize.std if normalize else None,
        crop=augment.crop if augment else None,
    )


def trained_network(
    directory: RunDirectory, runtime: Runtime, *, trust_code: Trust = False
) -> tuple[nn.Module, Preparation, ModelCard]:
    """The backbone of a finished run, ready to predict; ``trust_code``: see ``pencil.run.resume``."""
    card = read_card(directory.path)
    check_code(code_of_run(directory), trust_code, source=directory.path)
    with users_code("model.name", card.name):
        model = build_model(
            card.name, num_classes=len(card.class_names), input_shape=card.input_shape, args=card.args
        )
    load_weights(directory.path, model)
    normalize = Normalize(card.mean, card.std) if card.mean is not None and card.std is not None else None
    preparation = Preparation(
        device=runtime.device,
        normalize=normalize,
        augment=directory.config.data.augment,
        channels_last=runtime.channels_last,
    )
    return runtime.place(model), preparation, card


def _normalize(data: DataSection, train: Examples, seed: int) -> Normalize | None:
    """Images: each channel's mean and deviation. Features: each one's mean and one deviation for all.

    One scale makes learning rates mean the same for any features, and does not blow up those that hardly vary.
    """
    if data.normalize == "none":
        return None
    mean, std = channel_statistics(train.inputs, _sample(train, seed))
    if data.normalize == "mean":
        return Normalize(mean, (1.0,) * len(mean))
    if train.inputs.fetch(torch.tensor([0])).dim() == 4:
        return Normalize(mean, std)
    common = (sum(value**2 for value in std) / len(std)) ** 0.5
    return Normalize(mean, (common,) * len(mean))


def _sample(train: Examples, seed: int) -> Tensor:
    """Rows enough to know the statistics by; of shards only some, for each that is read may have to be fetched."""
    blocks, generator = blocks_of(train.inputs), torch.Generator().manual_seed(seed)
    if len(train) <= STATISTICS_ROWS:
        return torch.arange(len(train))
    if blocks is not None:
        return blocks.sample(STATISTICS_ROWS, generator)
    return torch.randint(len(train), (STATISTICS_ROWS,), generator=generator).sort().values
