"""Networks: the paper's two for CIFAR, a small CNN, heads for features, and anyone else's by name."""

from pencil.models.preact_resnet import PreActBlock, PreActResNet
from pencil.models.registry import build_model, model_names
from pencil.models.resnet import RESNET18, RESNET34, CifarResNet
from pencil.models.small import SmallCNN, linear, mlp

__all__ = [
    "RESNET18",
    "RESNET34",
    "CifarResNet",
    "PreActBlock",
    "PreActResNet",
    "SmallCNN",
    "build_model",
    "linear",
    "mlp",
    "model_names",
]
