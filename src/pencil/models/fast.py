"""A network for small images that learns in minutes, after Jordan's airbench (2024) at half its width.

Fixed 2x2 filters whiten the images; their weights come from patches of the training images (``prepare``) and are kept
in the state dict. Three blocks follow, then a global maximum and a scaled linear layer.

Shapes: images (B, in_channels, H, W) of at least 2 x 2 pixels; logits (B, C).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pencil.errors import ConfigError
from pencil.models.init import check_widths, he_init

PATCH = 2
FLAT = 5e-4
"""Added to the variances, so that directions without any are not amplified."""
SCALE = 1 / 9
"""Of the logits: without it the first predictions are too sure, because a maximum is taken before the linear layer."""


class PatchWhitening(nn.Module):
    """A 2x2 convolution with fixed weights, each filter with both signs, and a learned bias.

    Until ``prepare`` is called, the filters are the pixels of a patch.
    """

    weight: Tensor

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        values = in_channels * PATCH**2
        self.out_channels = 2 * values
        self.register_buffer("weight", _both_signs(torch.eye(values), in_channels))
        self.bias = nn.Parameter(torch.zeros(self.out_channels))

    @torch.no_grad()
    def prepare(self, images: Tensor) -> None:
        """Compute the filters from images (B, in_channels, H, W) as the network will see them."""
        self.weight.copy_(_both_signs(whitening_filters(images), images.shape[1]))

    def forward(self, images: Tensor) -> Tensor:
        """Images (B, in_channels, H, W) to (B, 8 in_channels, H - 1, W - 1)."""
        return F.conv2d(images, self.weight, self.bias)


class Block(nn.Module):
    """3x3 convolution, max pooling, BN, GELU, 3x3 convolution, BN, GELU."""

    def __init__(self, in_channels: int, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, features: Tensor) -> Tensor:
        """Features (B, in_channels, H, W) to (B, channels, H / 2, W / 2); a last single pixel is kept."""
        pooled = F.max_pool2d(self.conv1(features), 2, ceil_mode=min(features.shape[2:]) < 4)
        return F.gelu(self.bn2(self.conv2(F.gelu(self.bn1(pooled)))))


class FastNet(nn.Module):
    """Whitened patches, three blocks, global maximum, linear.

    Args:
        num_classes: C.
        in_channels: Channels of the images.
        widths: Channels of the three blocks.
    """

    def __init__(
        self, num_classes: int, in_channels: int = 3, widths: Sequence[int] = (32, 128, 128)
    ) -> None:
        super().__init__()
        check_widths("widths", widths)
        if len(widths) != 3:
            raise ConfigError(f"model.args.widths = {list(widths)} must have three entries, one per block")
        first, second, third = widths
        self.whitening = PatchWhitening(in_channels)
        self.blocks = nn.Sequential(
            Block(self.whitening.out_channels, first), Block(first, second), Block(second, third)
        )
        self.fc = nn.Linear(third, num_classes)
        he_init(self)
        _start_near_identity(self)

    def forward(self, images: Tensor) -> Tensor:
        """Images (B, in_channels, H, W) to logits (B, C)."""
        features: Tensor = self.blocks(F.gelu(self.whitening(images)))
        logits: Tensor = self.fc(features.amax(dim=(2, 3))) * SCALE
        return logits


def prepare(model: nn.Module, images: Callable[[], Tensor]) -> None:
    """Let the layers that need training images see some; ``images`` is called only if there are such layers."""
    layers = [module for module in model.modules() if isinstance(module, PatchWhitening)]
    if layers:
        seen = images()
        for layer in layers:
            layer.prepare(seen)


def whitening_filters(images: Tensor) -> Tensor:
    """Filters (V, V) of which the responses to the patches (V values) of images have no correlation and variance 1."""
    channels = images.shape[1]
    patches = images.float().unfold(2, PATCH, 1).unfold(3, PATCH, 1)  # (B, channels, H - 1, W - 1, 2, 2)
    rows = patches.permute(0, 2, 3, 1, 4, 5).reshape(-1, channels * PATCH**2).double()
    rows -= rows.mean(dim=0)
    values, vectors = torch.linalg.eigh(rows.T @ rows / len(rows))
    filters: Tensor = (vectors / (values.clamp_min(0) + FLAT).sqrt()).T
    return filters.float()


def _both_signs(filters: Tensor, channels: int) -> Tensor:
    return torch.cat([filters, -filters]).view(-1, channels, PATCH, PATCH)


def _start_near_identity(model: nn.Module) -> None:
    """The first filters of each 3x3 convolution pass a channel on as it is."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.dirac_(module.weight[: module.in_channels].data)
