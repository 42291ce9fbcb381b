"""Networks: the paper's two for CIFAR, two smaller ones for small images, heads for features, and others by name."""

from pencil.models.expert import PrototypeExpert, WithExpert
from pencil.models.fast import FastNet, PatchWhitening, prepare
from pencil.models.pair import Pair, apart, mean_prediction
from pencil.models.preact_resnet import PreActBlock, PreActResNet
from pencil.models.registry import PAIR, build_model, model_names, named_code
from pencil.models.resnet import RESNET18, RESNET34, CifarResNet
from pencil.models.small import SmallCNN, linear, mlp

__all__ = [
    "PAIR",
    "RESNET18",
    "RESNET34",
    "CifarResNet",
    "FastNet",
    "Pair",
    "PatchWhitening",
    "PreActBlock",
    "PreActResNet",
    "PrototypeExpert",
    "SmallCNN",
    "WithExpert",
    "apart",
    "build_model",
    "linear",
    "mean_prediction",
    "mlp",
    "model_names",
    "named_code",
    "prepare",
]
