"""Weights to start from, after He et al. 2015 and the authors' code for residual networks."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from pencil.errors import ConfigError


def he_init(model: nn.Module) -> None:
    """Set the weights of every convolution, normalisation and linear layer in place.

    Convolutions: normal with variance 2 / (kernel area x output channels), so that gradients keep their size.
    Linear layers keep PyTorch's uniform weights and get zero biases, as in the authors' code: the last layer
    has no ReLU behind it for which the factor 2 would make up.
    """
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            _zero(module.bias)
        elif isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Linear):
            _zero(module.bias)


def check_widths(arg: str, widths: Sequence[int]) -> None:
    """Refuse layer widths that are not whole numbers above 0 (TOML may hold anything)."""
    if not all(isinstance(width, int) and width > 0 for width in widths):
        raise ConfigError(f"model.args.{arg} = {widths!r}: layer widths must be whole numbers above 0")


def _zero(bias: Tensor | None) -> None:
    if bias is not None:
        nn.init.zeros_(bias)
