"""ResNet-18 and -34 for small images: He et al., Deep Residual Learning, CVPR 2016, with the CIFAR stem.

The ImageNet stem (7x7 convolution of stride 2, then max-pooling) would leave 32x32 images 8x8 before the
first block; here the stem is one 3x3 convolution and nothing is pooled.

Shapes: images (B, in_channels, H, W); logits (B, C).
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional as F

from pencil.models.init import check_widths, he_init

RESNET18 = (2, 2, 2, 2)
RESNET34 = (3, 4, 6, 3)


class BasicBlock(nn.Module):
    """3x3 convolution, BN, ReLU, 3x3 convolution, BN; the shortcut is added before the last ReLU."""

    def __init__(self, in_channels: int, channels: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut = nn.Sequential()
        if stride != 1 or in_channels != channels:
            self.shortcut.append(nn.Conv2d(in_channels, channels, 1, stride, bias=False))
            self.shortcut.append(nn.BatchNorm2d(channels))

    def forward(self, features: Tensor) -> Tensor:
        """Features (B, in_channels, H, W) to (B, channels, H / stride, W / stride)."""
        out = F.relu(self.bn1(self.conv1(features)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + self.shortcut(features))


class CifarResNet(nn.Module):
    """A 3x3 stem, four stages of basic blocks, global average, linear.

    Args:
        blocks: Blocks of each stage: ``RESNET18`` or ``RESNET34`` (the paper's CIFAR-100 network).
        num_classes: C.
        in_channels: Channels of the images.
        width: Channels of the first stage; every later one has twice as many as the one before.
    """

    def __init__(
        self, blocks: Sequence[int], num_classes: int, in_channels: int = 3, width: int = 64
    ) -> None:
        super().__init__()
        check_widths("width", (width,))
        self.conv = nn.Conv2d(in_channels, width, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(width)
        widths = [width * 2**stage for stage in range(len(blocks))]
        inputs = [width, *widths[:-1]]
        self.stages = nn.Sequential(*map(_stage, inputs, widths, blocks))
        self.fc = nn.Linear(widths[-1], num_classes)
        he_init(self)

    def forward(self, images: Tensor) -> Tensor:
        """Images (B, in_channels, H, W) to logits (B, C)."""
        features: Tensor = self.stages(F.relu(self.bn(self.conv(images))))
        logits: Tensor = self.fc(features.mean(dim=(2, 3)))
        return logits


def _stage(in_channels: int, channels: int, blocks: int) -> nn.Sequential:
    """The first stage keeps the resolution; every later one halves it as it doubles the width."""
    stride = 1 if in_channels == channels else 2
    return nn.Sequential(
        BasicBlock(in_channels, channels, stride),
        *(BasicBlock(channels, channels) for _ in range(blocks - 1)),
    )
