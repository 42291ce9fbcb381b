"""The network of a run: building it, preparing its inputs, its optimiser, and loading it after training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW

from pencil.config import RunConfig
from pencil.config.schema import Optimizer as OptimizerSection
from pencil.data import (
    Examples,
    Inputs,
    Normalize,
    Preparation,
    blocks_of,
    channel_statistics,
    mixed_seed,
)
from pencil.embed.finetune import NAME as FINETUNED
from pencil.embed.finetune import finetuned
from pencil.engine import Runtime, is_sharded
from pencil.errors import ConfigError
from pencil.imports import users_code
from pencil.kinds import DataSection
from pencil.models import PrototypeExpert, WithExpert, build_model, prepare
from pencil.results import ModelCard, load_weights, read_card, read_expert
from pencil.run.code import Trust, check_code, code_of_run
from pencil.run.directory import RunDirectory

WEIGHTS, AUGMENTATION = 11, 12  # what draws random numbers, see sources
STATISTICS_ROWS = 20_000  # gives a channel's mean and deviation to three digits
SEEN_BEFORE = 1024  # rows that a network's layers may see before training
Make = Callable[[tuple[int, ...], int], nn.Module]
"""A function that builds a network from the shape of one input and the number of classes."""


def build_network(
    config: RunConfig,
    train: Examples,
    preparation: Preparation,
    runtime: Runtime,
    make: Make | None = None,
) -> nn.Module:
    """Build the network with seeded initial weights; the global random state is unchanged."""
    field, name = ("model.name", config.model.name) if make is None else ("module", make.__name__)
    with torch.random.fork_rng(devices=[]), users_code(field, name):
        torch.manual_seed(mixed_seed(config.seed, WEIGHTS))
        shape = input_shape(train.inputs, preparation)
        model = (make or _maker(config))(shape, train.num_classes)
        prepare(model, lambda: _some_inputs(config, train, preparation).cpu())
        model = runtime.place(model)
        _check_logits(model, _first(train.inputs, preparation), train.num_classes, f"{field} = {name!r}")
    return model


def _some_inputs(config: RunConfig, train: Examples, preparation: Preparation) -> Tensor:
    """Prepared inputs of rows that are spread over the sample for the normalisation, the same on every rank."""
    rows = _sample(train, mixed_seed(config.seed, AUGMENTATION))
    return preparation.evaluation(train.inputs.fetch(rows[:: -(-len(rows) // SEEN_BEFORE)]))


def _maker(config: RunConfig) -> Make:
    name, args = config.model.name, config.model.args
    return lambda shape, classes: _named_network(name, shape, classes, args)


def _named_network(name: str, shape: tuple[int, ...], classes: int, args: Mapping[str, Any]) -> nn.Module:
    if name == FINETUNED:
        return finetuned(classes, shape, args)
    return build_model(name, num_classes=classes, input_shape=shape, args=args)


def _check_logits(model: nn.Module, example: Tensor, num_classes: int, what: str) -> None:
    """Check the network's output for one example, to raise a clear error before the first batch."""
    model.eval()
    with torch.no_grad():
        logits = model(example)
    model.train()
    shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
    if shape != (1, num_classes):
        raise ConfigError(
            f"{what}: for one input {tuple(example.shape)} it returns {shape}; "
            f"change it to return logits (1, {num_classes})"
        )


def build_optimizer(section: OptimizerSection, model: nn.Module) -> torch.optim.Optimizer:
    """Build the optimiser; its learning rate is set before every step from the phase's schedule."""
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
    """Whether torch's fused step, which is twice as fast, can be used: it ignores strides.

    Gradients have the strides of their weights, so it is enough that the weights are contiguous (and not sharded).
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
    """The shape of one prepared input."""
    return tuple(_first(inputs, preparation).shape[1:])


def _first(inputs: Inputs, preparation: Preparation) -> Tensor:
    return preparation.evaluation(inputs.fetch(torch.tensor([0])))


def model_card(config: RunConfig, train: Examples, preparation: Preparation) -> ModelCard:
    """The model card of this run."""
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
    directory: RunDirectory, runtime: Runtime, *, trust_code: Trust = False, expert: bool = False
) -> tuple[nn.Module, Preparation, ModelCard]:
    """Load the network of a finished run for prediction, with its second expert if asked for.

    For ``trust_code`` see ``pencil.run.resume``.
    """
    card = read_card(directory.path)
    check_code(code_of_run(directory), trust_code, source=directory.path)
    with users_code("model.name", card.name):
        model = _named_network(card.name, card.input_shape, len(card.class_names), card.args)
    load_weights(directory.path, model)
    model = _with_expert(model, directory, card) if expert else model
    normalize = Normalize(card.mean, card.std) if card.mean is not None and card.std is not None else None
    preparation = Preparation(
        device=runtime.device,
        normalize=normalize,
        augment=directory.config.data.augment,
        channels_last=runtime.channels_last,
    )
    return runtime.place(model), preparation, card


def _with_expert(model: nn.Module, directory: RunDirectory, card: ModelCard) -> nn.Module:
    tensors = read_expert(directory.path, card)
    mean, std = (None if values is None else torch.tensor(values) for values in (card.mean, card.std))
    return WithExpert(model, PrototypeExpert(tensors, mean, std))


def _normalize(data: DataSection, train: Examples, seed: int) -> Normalize | None:
    """Mean and deviation of each channel of images; mean of each feature and one deviation for all features.

    With one scale, learning rates suit any features, and nearly constant features are not amplified.
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
    """A sample of rows for the statistics; from some shards only, because each may have to be downloaded."""
    blocks, generator = blocks_of(train.inputs), torch.Generator().manual_seed(seed)
    if len(train) <= STATISTICS_ROWS:
        return torch.arange(len(train))
    if blocks is not None:
        return blocks.sample(STATISTICS_ROWS, generator)
    return torch.randint(len(train), (STATISTICS_ROWS,), generator=generator).sort().values
