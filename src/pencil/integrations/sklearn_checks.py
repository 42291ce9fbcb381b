"""Checks of the scikit-learn estimator's parameters, which scikit-learn requires in ``fit``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from torch import nn

from pencil.algorithm import CosineSchedule, LinearSchedule, Method, PiecewiseSchedule
from pencil.algorithm.checks import LARGEST
from pencil.algorithm.schedule import extremes
from pencil.errors import DataError


class InputError(DataError, ValueError):
    """A parameter or an array that the estimator cannot use; scikit-learn expects a ``ValueError``."""


def check_parameters(parameters: Mapping[str, Any]) -> None:
    """Refuse the first wrong parameter, and name the allowed values."""
    for name, value in parameters.items():
        allowed, words = _RULES.get(name, _ANYTHING)
        if not allowed(value):
            raise InputError(f"{name}: {value!r} must be {words}")


def _among(*words: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and value in words


def _is_whole(value: Any, least: int) -> bool:
    return not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= least


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, Real) and 0 <= float(value) <= LARGEST


def _is_rate(value: Any) -> bool:
    if isinstance(value, CosineSchedule | LinearSchedule | PiecewiseSchedule):
        return all(map(_is_number, extremes(value)))
    return _is_number(value)


def _are_widths(value: Any) -> bool:
    return isinstance(value, Sequence) and all(_is_whole(width, 1) for width in value)


def _are_epochs(value: Any) -> bool:
    if not isinstance(value, Sequence) or len(value) != 3:
        return False
    return all(_is_whole(count, 0) for count in value) and any(value)


def _is_method(value: Any) -> bool:
    return value is None or (isinstance(value, Method) and value.networks == 1)


_ANYTHING: tuple[Callable[[Any], bool], str] = (lambda value: True, "anything")
_NUMBER = f"a number from 0 to {LARGEST:,.0f}"
_RATE = f"{_NUMBER}, or a schedule such as pencil.CosineSchedule(0.02, 0.001)"
_RULES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "head": (_among("linear", "mlp"), "'linear' or 'mlp'; for a network of your own give module"),
    "hidden": (_are_widths, "widths of hidden layers, such as (256,)"),
    "module": (
        lambda value: value is None or isinstance(value, nn.Module) or callable(value),
        "a torch.nn.Module, or a function of (shape of one input, number of classes) that returns one",
    ),
    "epochs": (
        lambda value: value is None or _are_epochs(value),
        "three whole numbers, of the phases backbone, correction and finetune, such as (2, 28, 20), or None",
    ),
    "learning_rate": (_is_rate, _RATE),
    "batch_size": (lambda value: _is_whole(value, 1), "a whole number above 0"),
    "weight_decay": (_is_number, _NUMBER),
    "label_rate": (_is_rate, _RATE),
    "pull": (lambda value: value is None or _is_number(value), f"{_NUMBER}, or None"),
    "start": (
        lambda value: value is None or _among("given", "prototypes")(value),
        "'given', 'prototypes' or None",
    ),
    "expert": (lambda value: isinstance(value, bool), "True or False"),
    "entropy_weight": (_is_number, _NUMBER),
    "method": (
        _is_method,
        "None for Pencil, a method of pencil.methods or one of your own (see docs: Your own method) that trains one "
        "network; methods of two networks run with: pencil train",
    ),
    "normalize": (_among("auto", "mean", "none"), "'auto', 'mean' or 'none'"),
}
