"""Small networks: a linear layer and an MLP for features, a three-layer CNN for 28x28 and 32x32 images.

Shapes: inputs (B, ...) are flattened to (B, D) by the heads; images (B, in_channels, H, W); logits (B, C).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from torch import Tensor, nn

from pencil.errors import ConfigError
from pencil.models.init import check_widths, he_init


def linear(in_features: int, num_classes: int) -> nn.Sequential:
    """One linear layer over the flattened inputs: (B, ...) to (B, C)."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(in_features, num_classes))
    he_init(model)
    return model


def mlp(
    in_features: int,
    num_classes: int,
    hidden: Sequence[int] = (256,),
    batch_norm: bool = False,
    dropout: float = 0.0,
) -> nn.Sequential:
    """Hidden layers with ReLU, then a linear layer: (B, ...) to (B, C).

    Args:
        in_features: D, the values of one flattened input.
        num_classes: C.
        hidden: The width of each hidden layer; none at all is the linear model.
        batch_norm: Whether to normalise before each ReLU.
        dropout: The share of hidden units dropped after each ReLU.
    """
    check_widths("hidden", hidden)
    if not 0.0 <= dropout < 1.0:
        raise ConfigError(f"model.args.dropout = {dropout!r} must be at least 0 and below 1")
    layers = [
        layer for pair in pairwise((in_features, *hidden)) for layer in _hidden(*pair, batch_norm, dropout)
    ]
    last = hidden[-1] if hidden else in_features
    model = nn.Sequential(nn.Flatten(), *layers, nn.Linear(last, num_classes))
    he_init(model)
    return model


class SmallCNN(nn.Module):
    """Three 3x3 convolutions with BN and ReLU, the first two max-pooled; global average; linear.

    Args:
        num_classes: C.
        in_channels: Channels of the images.
        widths: Channels of the three convolutions.
    """

    def __init__(self, num_classes: int, in_channels: int = 1, widths: Sequence[int] = (32, 64, 128)) -> None:
        super().__init__()
        check_widths("widths", widths)
        if len(widths) != 3:
            raise ConfigError(
                f"model.args.widths = {list(widths)} must have three entries, one per convolution"
            )
        first, second, third = widths
        self.features = nn.Sequential(
            *_conv(in_channels, first),
            nn.MaxPool2d(2),
            *_conv(first, second),
            nn.MaxPool2d(2),
            *_conv(second, third),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.fc = nn.Linear(third, num_classes)
        he_init(self)

    def forward(self, images: Tensor) -> Tensor:
        """Images (B, in_channels, H, W) to logits (B, C)."""
        logits: Tensor = self.fc(self.features(images))
        return logits


def _hidden(in_features: int, width: int, batch_norm: bool, dropout: float) -> Iterator[nn.Module]:
    layer = nn.Linear(in_features, width)
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    yield layer
    if batch_norm:
        yield nn.BatchNorm1d(width)
    yield nn.ReLU()
    if dropout:
        yield nn.Dropout(dropout)


def _conv(in_channels: int, channels: int) -> tuple[nn.Module, ...]:
    convolution = nn.Conv2d(in_channels, channels, 3, padding=1, bias=False)
    return convolution, nn.BatchNorm2d(channels), nn.ReLU()
