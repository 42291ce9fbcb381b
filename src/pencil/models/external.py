"""Networks from elsewhere: torchvision, timm, and a user's own module by import path."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

from torch import nn

from pencil.errors import ConfigError, MissingExtraError, did_you_mean
from pencil.imports import import_object, need


def torchvision_model(
    name: str, num_classes: int, input_shape: tuple[int, ...], args: Mapping[str, Any]
) -> nn.Module:
    """A classification network of torchvision; ``weights`` in args fill all but its last layer."""
    models = _load("torchvision").models
    label = f"torchvision:{name}"
    _check_known(label, name, models.list_models(module=models))
    if image_channels(label, input_shape) != 3:
        raise ConfigError(f"model.name = {label!r} takes 3 channels, but the data's inputs are {input_shape}")
    if args.get("weights") is None:
        return _checked(label, call(label, models.get_model, name, num_classes=num_classes, **args))
    # torchvision refuses another num_classes than the weights were trained for, so the head is changed after.
    return with_new_head(_checked(label, call(label, models.get_model, name, **args)), num_classes, label)


def timm_model(
    name: str, num_classes: int, input_shape: tuple[int, ...], args: Mapping[str, Any]
) -> nn.Module:
    """A network of timm with as many input channels as the data has; args may ask for ``pretrained``."""
    timm = _load("timm")
    label = f"timm:{name}"
    if ":" not in name and not timm.is_model(name):  # "hf-hub:..." names a download, not an entry of the list
        _check_known(label, name, timm.list_models())
    sizes: dict[str, Any] = {"num_classes": num_classes, "in_chans": image_channels(label, input_shape)}
    return _checked(label, call(label, timm.create_model, name, **(sizes | dict(args))))


def user_model(
    path: str, num_classes: int, input_shape: tuple[int, ...], args: Mapping[str, Any]
) -> nn.Module:
    """What a user's factory at ``package.module:factory`` returns.

    It is called with ``num_classes`` and args, and with ``input_shape`` where it names such a parameter.
    """
    factory = import_object(path, field="model.name")
    if isinstance(factory, nn.Module) or not callable(factory):
        raise ConfigError(
            f"model.name = {path!r} is a {type(factory).__name__}; name a class or function that builds one"
        )
    sizes: dict[str, Any] = {"num_classes": num_classes}
    if "input_shape" in inspect.signature(factory).parameters:
        sizes["input_shape"] = input_shape
    _check_binding(path, factory, sizes, args)
    return _checked(path, factory(**sizes, **args))


def with_new_head(model: nn.Module, num_classes: int, label: str) -> nn.Module:
    """The same network with its last linear layer replaced by a new one of ``num_classes`` outputs."""
    linear = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    if not linear:
        raise ConfigError(
            f"model.name = {label!r} ends in no linear layer to replace; leave weights out of model.args"
        )
    parent, _, last = linear[-1].rpartition(".")
    old = model.get_submodule(linear[-1])
    assert isinstance(old, nn.Linear)
    new = nn.Linear(old.in_features, num_classes, bias=old.bias is not None)
    setattr(model.get_submodule(parent), last, new)
    return model


def image_channels(label: str, input_shape: tuple[int, ...]) -> int:
    """The channels of images (channels, H, W); other inputs do not suit an image network."""
    if len(input_shape) != 3:
        raise ConfigError(
            f"model.name = {label!r} takes images (channels, H, W), but the data's inputs are "
            f"{tuple(input_shape)}; choose linear or mlp"
        )
    return input_shape[0]


def _load(package: str) -> ModuleType:
    return load_package(package, purpose=f"build the network of model.name = '{package}:...'")


def load_package(package: str, *, purpose: str) -> ModuleType:
    """Import torchvision or timm; ``purpose`` ends the sentence "... is needed to"."""
    try:
        return need(package, extra=package, purpose=purpose)
    except RuntimeError as error:  # torchvision beside another torch than it was built for fails in this way
        raise MissingExtraError(
            f"{package} is installed but does not load beside this torch ({error}); install builds of torch "
            "and torchvision that belong together, both for the CPU or both for the same CUDA"
        ) from error


def _check_known(label: str, name: str, known: Iterable[str]) -> None:
    names = list(known)
    if name not in names:
        package = label.partition(":")[0]
        raise ConfigError(
            f"model.name = {label!r}: {package} has no network {name!r}{did_you_mean(name, names)}"
            f" ({package} lists {len(names)} of them: {package}.{_LISTING[package]})"
        )


_LISTING = {"torchvision": "models.list_models()", "timm": "list_models()"}


def call(label: str, factory: Callable[..., Any], /, *positional: Any, **keywords: Any) -> Any:
    """Call a library's factory; its errors about the arguments become a ConfigError."""
    try:
        return factory(*positional, **keywords)
    except (TypeError, ValueError, KeyError) as error:
        raise ConfigError(f"model.args do not fit model.name = {label!r}: {error}") from error


def _check_binding(
    path: str, factory: Callable[..., Any], sizes: Mapping[str, Any], args: Mapping[str, Any]
) -> None:
    """Check the arguments before the call, so that TypeErrors from inside the factory stay recognisable."""
    signature = inspect.signature(factory)
    open_ended = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    if not open_ended and "num_classes" not in signature.parameters:
        raise ConfigError(f"model.name = {path!r}: {signature} must take a parameter num_classes; add it")
    for arg, value in args.items():
        if not open_ended and arg not in signature.parameters:
            hint = did_you_mean(arg, signature.parameters) or "; remove it, or add it to the factory"
            raise ConfigError(f"model.args.{arg} = {value!r}: {path}{signature} takes no such argument{hint}")
    try:
        signature.bind(**sizes, **args)
    except TypeError as error:
        raise ConfigError(f"model.args do not fit model.name = {path!r}: {error}") from error


def _checked(label: str, model: Any) -> nn.Module:
    if not isinstance(model, nn.Module):
        raise ConfigError(
            f"model.name = {label!r} built a {type(model).__name__}; it must return a torch.nn.Module"
        )
    return model
