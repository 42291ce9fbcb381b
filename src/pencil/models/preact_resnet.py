"""Pre-activation ResNet for small images: He et al., Identity Mappings in Deep Residual Networks, ECCV 2016.

Shapes: images (B, in_channels, H, W); a block keeps H and W or halves them (rounding up); logits (B, C).
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from pencil.errors import ConfigError
from pencil.models.init import check_widths, he_init


class PreActBlock(nn.Module):
    """BN, ReLU, 3x3 convolution, twice; what comes in is added to what goes out.

    Where the shape changes the shortcut is a 1x1 convolution of the activated input, and it is the activated
    input itself in the network's first block (the paper's appendix: the stem's activation comes before the
    split). Everywhere else the shortcut is the identity, which is the paper's point.
    """

    def __init__(self, in_channels: int, channels: int, stride: int = 1, *, first: bool = False) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(in_channels)
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.first = first
        self.project: nn.Conv2d | None = None
        if stride != 1 or in_channels != channels:
            self.project = nn.Conv2d(in_channels, channels, 1, stride, bias=False)

    def forward(self, features: Tensor) -> Tensor:
        """Features (B, in_channels, H, W) to (B, channels, H / stride, W / stride)."""
        activated = F.relu(self.bn1(features))
        shortcut = activated if self.first else features
        if self.project is not None:
            shortcut = self.project(activated)
        out: Tensor = self.conv2(F.relu(self.bn2(self.conv1(activated))))
        return out + shortcut


class PreActResNet(nn.Module):
    """Depth 6n + 2: a 3x3 stem, three stages of n blocks, BN, ReLU, global average, linear.

    Args:
        depth: 20, 32 (the paper's CIFAR-10 network), 44, 56, ...
        num_classes: C.
        in_channels: Channels of the images.
        width: Channels of the first stage; the next two have twice and four times as many.
    """

    def __init__(self, depth: int, num_classes: int, in_channels: int = 3, width: int = 16) -> None:
        super().__init__()
        check_widths("width", (width,))
        blocks = blocks_per_stage(depth)
        self.conv = nn.Conv2d(in_channels, width, 3, padding=1, bias=False)
        self.stages = nn.Sequential(
            _stage(width, width, blocks, stride=1),
            _stage(width, 2 * width, blocks, stride=2),
            _stage(2 * width, 4 * width, blocks, stride=2),
        )
        self.bn = nn.BatchNorm2d(4 * width)
        self.fc = nn.Linear(4 * width, num_classes)
        he_init(self)

    def forward(self, images: Tensor) -> Tensor:
        """Images (B, in_channels, H, W) to logits (B, C)."""
        features = F.relu(self.bn(self.stages(self.conv(images))))
        logits: Tensor = self.fc(features.mean(dim=(2, 3)))
        return logits


def blocks_per_stage(depth: int) -> int:
    """The n of depth 6n + 2: two convolutions per block in three stages, the stem and the linear layer."""
    if depth < 8 or (depth - 2) % 6:
        raise ConfigError(f"depth = {depth}: a PreAct ResNet has depth 6n + 2; choose 8, 20, 32, 44 or 56")
    return (depth - 2) // 6


def _stage(in_channels: int, channels: int, blocks: int, stride: int) -> nn.Sequential:
    # Only the stage right behind the stem keeps its stride and width: its first block is the network's first.
    head = PreActBlock(in_channels, channels, stride, first=stride == 1)
    return nn.Sequential(head, *(PreActBlock(channels, channels) for _ in range(blocks - 1)))
