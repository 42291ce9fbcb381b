"""A pretrained network with a head, trained together on images: what ``--finetune`` builds.

The network keeps the statistics of its batch norms and uses no dropout, so its features change by training alone. The
head takes features as the run before it did: minus their mean, divided by their deviation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from pencil.embed.choose import named_code, open_encoder
from pencil.embed.network import FrozenNetwork, Pixels
from pencil.errors import ConfigError
from pencil.models import build_model

NAME = "finetuned"
"""The name of the network in the settings."""
Layers = Literal["last", "all"]


class Finetuned(nn.Module):
    """Images (B, 3, H, W) with values from 0 to 255 to logits (B, C).

    Args:
        encoder: The pretrained network.
        head: What was trained on its features.
        layers: What learns besides the head: the ``last`` block of the network, or ``all`` of it.
    """

    mean: Tensor
    deviation: Tensor
    center: Tensor
    spread: Tensor

    def __init__(self, encoder: FrozenNetwork, head: nn.Module, layers: Layers) -> None:
        super().__init__()
        steps = pixels_of(encoder)
        self.network, self.head = encoder.network, head
        self._features, self._input = encoder.features, steps.name
        for name, values in (("mean", steps.mean), ("deviation", steps.std)):
            self.register_buffer(name, torch.tensor(values).view(-1, 1, 1) / steps.scale, persistent=False)
        self.register_buffer("center", torch.zeros(encoder.size))
        self.register_buffer("spread", torch.ones(encoder.size))
        for parameter in last_block(encoder.network) if layers == "last" else encoder.network.parameters():
            parameter.requires_grad_(True)

    def forward(self, images: Tensor) -> Tensor:
        """Images to logits."""
        features = self._features({self._input: (images - self.mean) / self.deviation})
        logits: Tensor = self.head((features - self.center) / self.spread)
        return logits

    def train(self, mode: bool = True) -> Finetuned:
        """Set the mode of the head; the pretrained network stays as it evaluates."""
        super().train(mode)
        self.network.eval()
        return self


def finetuned(num_classes: int, input_shape: tuple[int, ...], args: Mapping[str, Any]) -> Finetuned:
    """The network of settings ``model.args``: ``encoder``, ``layers``, and ``head`` with ``head_args``."""
    unknown = sorted(set(args) - {"encoder", "layers", "head", "head_args"})
    layers = args.get("layers", "last")
    if unknown or "encoder" not in args or layers not in get_args(Layers):
        raise ConfigError(
            f"model.args = {dict(args)} do not fit model.name = {NAME!r}; set encoder, layers (last or all), head and "
            "head_args"
        )
    encoder = trainable_encoder(str(args["encoder"]))
    side = pixels_of(encoder).side
    if input_shape != (3, side, side):
        raise ConfigError(
            f"model.name = {NAME!r}: {encoder.name} takes images (3, {side}, {side}), not {input_shape}; set "
            f"data.size = {side}"
        )
    head = build_model(
        str(args.get("head", "linear")),
        num_classes=num_classes,
        input_shape=(encoder.size,),
        args=args.get("head_args", {}),
    )
    return Finetuned(encoder, head, layers)


def trainable_encoder(name: str) -> FrozenNetwork:
    """A pretrained network for images that can be trained further."""
    # a function has no weights, and is not imported to find that out
    encoder = None if named_code(name) else open_encoder(name)
    if not isinstance(encoder, FrozenNetwork) or encoder.pixels is None:
        raise ConfigError(
            f"{name!r} cannot be trained further; use a vision model of transformers, or efficientnet_lite0"
        )
    return encoder


def pixels_of(encoder: FrozenNetwork) -> Pixels:
    """How the network takes images."""
    assert encoder.pixels is not None
    return encoder.pixels


def last_block(network: nn.Module) -> list[nn.Parameter]:
    """The parameters of the last element of the network's longest list of blocks, and of all that follows it."""
    lists = [module for module in network.modules() if isinstance(module, nn.ModuleList | nn.Sequential)]
    parameters = list(network.parameters())
    if not lists:
        return parameters
    longest = max(lists, key=len)
    first = next(iter(longest[-1].parameters()), parameters[-1])
    return parameters[next(place for place, each in enumerate(parameters) if each is first) :]
