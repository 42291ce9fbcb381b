"""The built-in networks: shapes, sizes, blocks read naively, precision, memory formats, gradients."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from pencil.errors import ConfigError
from pencil.models import RESNET34, CifarResNet, PreActBlock, PreActResNet, SmallCNN, build_model, linear, mlp
from pencil.models.preact_resnet import blocks_per_stage
from pencil.models.resnet import BasicBlock


def parameters(model):
    return sum(parameter.numel() for parameter in model.parameters())


def randomise_norms(model):
    """Statistics and weights away from 0 and 1, so that a forgotten normalisation shows."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            for tensor in (module.weight, module.running_var):
                tensor.data.uniform_(0.5, 2.0)
            for tensor in (module.bias, module.running_mean):
                tensor.data.uniform_(-0.5, 0.5)
    return model.eval()


def naive_bn(x, bn):
    mean, var = bn.running_mean[:, None, None], bn.running_var[:, None, None]
    return (x - mean) / (var + bn.eps).sqrt() * bn.weight[:, None, None] + bn.bias[:, None, None]


def preact_parameters(depth, classes, channels=3, width=16):
    """Counted by hand: stem, three stages of 3x3 pairs and norms, two projections, last norm, linear."""
    n = (depth - 2) // 6
    total = 9 * channels * width
    for stage in range(3):
        c = width * 2**stage
        before = max(width, c // 2)
        total += 9 * before * c + 9 * c * c + 2 * before + 2 * c + (before * c if stage else 0)
        total += (n - 1) * (18 * c * c + 4 * c)
    return total + 8 * width + 4 * width * classes + classes


@pytest.mark.parametrize("depth", [8, 20, 32, 44, 56])
def test_preact_resnet_has_the_papers_size(depth):
    assert parameters(PreActResNet(depth, 10)) == preact_parameters(depth, 10)


def test_preact_resnet32_has_about_466_thousand_parameters_and_32_layers():
    model = PreActResNet(32, 10)
    assert 0.455e6 < parameters(model) < 0.475e6
    layers = [m for m in model.modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    assert len([m for m in layers if getattr(m, "kernel_size", None) != (1, 1)]) == 32


@pytest.mark.parametrize("depth", [2, 7, 18, 33])
def test_depths_that_are_not_6n_plus_2_are_refused(depth):
    with pytest.raises(ConfigError, match=f"depth = {depth}.*6n"):
        blocks_per_stage(depth)


@pytest.mark.parametrize(
    ("channels", "stride", "first"), [(8, 1, False), (8, 1, True), (16, 2, False), (16, 1, False)]
)
def test_preact_block_is_its_naive_reading(channels, stride, first):
    block = randomise_norms(PreActBlock(8, channels, stride, first=first))
    x = torch.randn(3, 8, 9, 9)
    activated = naive_bn(x, block.bn1).clamp(min=0)
    out = F.conv2d(activated, block.conv1.weight, stride=stride, padding=1)
    out = F.conv2d(naive_bn(out, block.bn2).clamp(min=0), block.conv2.weight, padding=1)
    if channels == 8:
        shortcut = activated if first else x
    else:
        shortcut = F.conv2d(activated, block.project.weight, stride=stride)
    torch.testing.assert_close(block(x), out + shortcut, rtol=1e-4, atol=1e-4)


def test_preact_block_leaves_its_input_alone():
    x = torch.randn(2, 8, 8, 8)
    before = x.clone()
    PreActBlock(8, 8)(x)
    assert torch.equal(x, before)


def test_preact_network_is_stem_stages_norm_pool_linear():
    model = randomise_norms(PreActResNet(20, 5))
    x = torch.randn(2, 3, 16, 16)
    features = F.conv2d(x, model.conv.weight, padding=1)
    for stage in model.stages:
        for block in stage:
            features = block(features)
    assert features.shape == (2, 64, 4, 4)
    pooled = naive_bn(features, model.bn).clamp(min=0).flatten(2).sum(2) / 16
    torch.testing.assert_close(model(x), pooled @ model.fc.weight.T + model.fc.bias, rtol=1e-4, atol=1e-4)
    assert [block.first for stage in model.stages for block in stage] == [True] + [False] * 8


@pytest.mark.parametrize(("channels", "stride"), [(8, 1), (16, 2)])
def test_basic_block_is_its_naive_reading(channels, stride):
    block = randomise_norms(BasicBlock(8, channels, stride))
    x = torch.randn(3, 8, 8, 8)
    out = naive_bn(F.conv2d(x, block.conv1.weight, stride=stride, padding=1), block.bn1).clamp(min=0)
    out = naive_bn(F.conv2d(out, block.conv2.weight, padding=1), block.bn2)
    shortcut = x
    if channels != 8:
        shortcut = naive_bn(F.conv2d(x, block.shortcut[0].weight, stride=stride), block.shortcut[1])
    torch.testing.assert_close(block(x), (out + shortcut).clamp(min=0), rtol=1e-4, atol=1e-4)


def test_resnet34_has_about_21_million_parameters_and_keeps_32x32_in_its_first_stage():
    with torch.device("meta"):
        model = CifarResNet(RESNET34, 100)
    assert 21.2e6 < parameters(model) < 21.5e6
    small = CifarResNet(RESNET34, 10, width=4).eval()
    stem = small.conv(torch.randn(1, 3, 32, 32))
    assert small.stages[0](stem).shape == (1, 4, 32, 32)
    assert small.stages(stem).shape == (1, 32, 4, 4)


NETWORKS = [
    ("linear", (12,), {}),
    ("mlp", (12,), {"hidden": [16, 8], "batch_norm": True, "dropout": 0.2}),
    ("small_cnn", (1, 28, 28), {"widths": [4, 8, 8]}),
    ("fast", (3, 20, 20), {"widths": [4, 8, 8]}),
    ("preact_resnet20", (3, 32, 32), {"width": 4}),
    ("resnet18_cifar", (3, 16, 16), {"width": 4}),
]


@pytest.mark.parametrize(("name", "shape", "args"), NETWORKS)
def test_shapes_and_gradients_reach_every_parameter(name, shape, args):
    model = build_model(name, num_classes=7, input_shape=shape, args=args)
    logits = model(torch.randn(6, *shape))
    assert logits.shape == (6, 7)
    assert logits.dtype is torch.float32
    F.cross_entropy(logits, torch.arange(6)).backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert torch.isfinite(parameter.grad).all(), parameter_name
    assert all(parameter.grad.abs().sum() > 0 for n, parameter in model.named_parameters() if "weight" in n)


@pytest.mark.parametrize(("name", "shape", "args"), NETWORKS)
def test_double_precision_agrees_with_single(name, shape, args):
    model = build_model(name, num_classes=7, input_shape=shape, args=args).eval()
    x = torch.randn(4, *shape, dtype=torch.float64)
    single = model(x.float())
    torch.testing.assert_close(model.double()(x), single.double(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("name", "shape", "args"), NETWORKS[2:])
def test_channels_last_and_bf16_autocast_train(name, shape, args):
    model = build_model(name, num_classes=7, input_shape=shape, args=args)
    x = torch.randn(8, *shape)
    plain = model.eval()(x)
    model.to(memory_format=torch.channels_last)
    x = x.contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(model(x), plain, rtol=1e-4, atol=1e-4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model.train()(x)
    assert logits.dtype is torch.bfloat16
    F.cross_entropy(logits.float(), torch.arange(8) % 7).backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())


def test_convolutions_start_with_he_variance_and_norms_as_the_identity():
    model = PreActResNet(20, 10, width=32)
    weight = model.stages[2][1].conv1.weight
    assert weight.std().item() == pytest.approx((2 / (9 * 128)) ** 0.5, rel=0.02)
    assert torch.equal(model.bn.weight, torch.ones(128))
    assert torch.equal(model.fc.bias, torch.zeros(10))
    hidden = mlp(400, 10, hidden=(300,))[1]
    assert hidden.weight.std().item() == pytest.approx((2 / 400) ** 0.5, rel=0.02)


def test_the_signal_keeps_its_size_at_the_start():
    torch.manual_seed(0)
    deep = PreActResNet(56, 10).train()
    assert 0.1 < deep(torch.randn(16, 3, 16, 16)).std() < 10


def test_the_same_seed_gives_the_same_network():
    def build():
        torch.manual_seed(3)
        return build_model("preact_resnet20", num_classes=10, input_shape=(3, 32, 32)).state_dict()

    first, second = build(), build()
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_heads_flatten_images_and_have_the_layers_asked_for():
    assert linear(12, 3)(torch.randn(2, 3, 2, 2)).shape == (2, 3)
    kinds = [type(layer) for layer in mlp(12, 3, hidden=(8, 4), batch_norm=True, dropout=0.5)]
    block = [nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Dropout]
    assert kinds == [nn.Flatten, *block, *block, nn.Linear]
    assert [type(layer) for layer in mlp(12, 3, hidden=())] == [nn.Flatten, nn.Linear]


@pytest.mark.parametrize("side", [8, 28, 32, 64])
def test_small_cnn_takes_any_size(side):
    assert SmallCNN(4, in_channels=1)(torch.randn(2, 1, side, side)).shape == (2, 4)
