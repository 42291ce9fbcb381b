"""Networks by name: what is built in, what torchvision and timm bring, what a user wrote."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import nn

from pencil.errors import ConfigError, did_you_mean
from pencil.models.external import call, image_channels, timm_model, torchvision_model, user_model
from pencil.models.fast import FastNet
from pencil.models.pair import Pair
from pencil.models.preact_resnet import PreActResNet
from pencil.models.resnet import RESNET18, RESNET34, CifarResNet
from pencil.models.small import SmallCNN, linear, mlp

Builder = Callable[..., nn.Module]

# Called with num_classes, args, and in_features (heads, over any inputs) or in_channels (image networks).
_HEADS: Mapping[str, Builder] = {"linear": linear, "mlp": mlp}
_IMAGE_NETWORKS: Mapping[str, Builder] = {
    "fast": FastNet,
    "small_cnn": SmallCNN,
    "preact_resnet8": partial(PreActResNet, 8),
    "preact_resnet20": partial(PreActResNet, 20),
    "preact_resnet32": partial(PreActResNet, 32),
    "preact_resnet44": partial(PreActResNet, 44),
    "preact_resnet56": partial(PreActResNet, 56),
    "resnet18_cifar": partial(CifarResNet, RESNET18),
    "resnet34_cifar": partial(CifarResNet, RESNET34),
}

PAIR = "pair"  # two of any network, named by args: name and args


def model_names() -> tuple[str, ...]:
    """The names of the built-in networks."""
    return (*_HEADS, *_IMAGE_NETWORKS)


def build_model(
    name: str,
    *,
    num_classes: int,
    input_shape: tuple[int, ...],
    args: Mapping[str, Any] | None = None,
) -> nn.Module:
    """A freshly initialised network whose logits are (B, num_classes).

    Weights are drawn from PyTorch's default generator, as in any ``nn.Module``: seed or fork it around this.

    Args:
        name: A built-in (``model_names()``), ``torchvision:NAME``, ``timm:NAME``, or a user's own
            ``package.module:factory``.
        num_classes: C.
        input_shape: The shape of one input as the network will see it: (D,) for features, (channels, H, W)
            for images, after any crop.
        args: Further arguments of the network.

    Raises:
        ConfigError: For a name or arguments that do not fit, naming ``model.name`` or ``model.args``.
    """
    args = dict(args or {})
    _refuse_sizes(args)
    source, colon, rest = name.partition(":")
    if name == PAIR:
        return _pair(num_classes, input_shape, args)
    if not colon:
        return _built_in(name, num_classes, input_shape, args)
    if source == "torchvision":
        return torchvision_model(rest, num_classes, input_shape, args)
    if source == "timm":
        return timm_model(rest, num_classes, input_shape, args)
    return user_model(name, num_classes, input_shape, args)


def named_code(name: str, args: Any) -> str | None:
    """What building this network would run besides this package and plain torchvision and timm; None for nothing.

    Their networks by name run nothing else; words among their arguments may name files and downloads. ``args`` may
    come from a file and have any form.
    """
    source, colon, rest = name.partition(":")
    if name == PAIR and isinstance(args, Mapping):
        return named_code(str(args.get("name", "")), args.get("args", {}))
    values = args.values() if isinstance(args, Mapping) else [args]
    plain = all(isinstance(value, bool | int | float) for value in values)
    if not colon or (source in ("torchvision", "timm") and ":" not in rest and plain):
        return None
    return name


def _built_in(name: str, num_classes: int, input_shape: tuple[int, ...], args: dict[str, Any]) -> nn.Module:
    sizes = {"num_classes": num_classes}
    if name in _HEADS:
        build, sizes["in_features"] = _HEADS[name], math.prod(input_shape)
    elif name in _IMAGE_NETWORKS:
        build, sizes["in_channels"] = _IMAGE_NETWORKS[name], image_channels(name, input_shape)
    else:
        raise ConfigError(_unknown(name))
    _check_args(name, build, args, known=sizes)
    model: nn.Module = call(name, build, **sizes, **args)
    return model


def _pair(num_classes: int, input_shape: tuple[int, ...], args: dict[str, Any]) -> nn.Module:
    """Two networks of one kind that differ in their starting weights."""
    _check_args(PAIR, _named, args, known={})
    if "name" not in args:
        raise ConfigError("model.args.name: missing; a pair needs the name of the network it has twice")
    return Pair(*(_named(**args, num_classes=num_classes, input_shape=input_shape) for _ in range(2)))


def _named(name: str, args: Mapping[str, Any] | None = None, **sizes: Any) -> nn.Module:
    return build_model(name, args=args, **sizes)


def _refuse_sizes(args: Mapping[str, Any]) -> None:
    for size in ("num_classes", "input_shape"):
        if size in args:
            raise ConfigError(f"model.args.{size} = {args[size]!r}: the data decides that; remove it")


def _check_args(name: str, build: Builder, args: Mapping[str, Any], known: Mapping[str, int]) -> None:
    allowed = [arg for arg in inspect.signature(build).parameters if arg not in known]
    for arg, value in args.items():
        if arg not in allowed:
            takes = f"it takes {', '.join(allowed)}" if allowed else "it takes none"
            hint = did_you_mean(arg, allowed)
            raise ConfigError(f"model.args.{arg} = {value!r}: {name} has no such argument; {takes}{hint}")


_ELSEWHERE = (
    *(
        "resnet",
        "wide_resnet",
        "resnext",
        "efficientnet",
        "mobilenet",
        "densenet",
        "vgg",
        "convnext",
        "vit_",
        "swin",
    ),
    *("regnet", "alexnet", "squeezenet", "shufflenet"),
)
"""How names of networks begin that other packages have."""


def _unknown(name: str) -> str:
    elsewhere = next((prefix for prefix in _ELSEWHERE if name.startswith(prefix)), None)
    hint = (
        did_you_mean(name, model_names())
        if elsewhere is None
        else f"; write torchvision:{name} or timm:{name};"
    )
    known = ", ".join((*model_names(), "torchvision:NAME", "timm:NAME"))
    return f"model.name = {name!r} is unknown{hint or ';'} known: {known}, or your own package.module:factory"
