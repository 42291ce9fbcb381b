"""Networks by name: built-ins, torchvision and timm, a user's own, and every wrong name."""

import sys
from types import ModuleType

import pytest
import torch
from torch import nn

from pencil.errors import ConfigError, MissingExtraError
from pencil.models import CifarResNet, PreActResNet, build_model, model_names
from pencil.models.external import with_new_head


def build(name, classes=5, shape=(3, 8, 8), **args):
    return build_model(name, num_classes=classes, input_shape=shape, args=args)


@pytest.mark.parametrize("name", model_names())
def test_every_listed_name_builds(name):
    with torch.device("meta"):
        model = build(name)
    assert isinstance(model, nn.Module)
    assert list(model.parameters())[-1].shape == (5,)


def test_names_mean_what_they_say():
    with torch.device("meta"):
        names = ("preact_resnet8", "preact_resnet32", "preact_resnet56", "resnet34_cifar")
        networks = {name: build(name) for name in names}
    assert isinstance(networks["preact_resnet32"], PreActResNet)
    assert [len(stage) for stage in networks["preact_resnet8"].stages] == [1, 1, 1]
    assert [len(stage) for stage in networks["preact_resnet32"].stages] == [5, 5, 5]
    assert [len(stage) for stage in networks["preact_resnet56"].stages] == [9, 9, 9]
    assert isinstance(networks["resnet34_cifar"], CifarResNet)
    assert [len(stage) for stage in networks["resnet34_cifar"].stages] == [3, 4, 6, 3]


def test_args_may_be_left_out_and_are_not_changed():
    assert build_model("linear", num_classes=2, input_shape=(4,), args=None)(torch.zeros(1, 4)).shape == (
        1,
        2,
    )
    args = {"hidden": [4]}
    build_model("mlp", num_classes=2, input_shape=(4,), args=args)
    assert args == {"hidden": [4]}


@pytest.mark.parametrize(
    ("name", "shape", "args", "message"),
    [
        (
            "preact_resnet23",
            (3, 8, 8),
            {},
            r"model\.name = 'preact_resnet23' is unknown; did you mean 'preact_resnet32'",
        ),
        ("zzz", (3, 8, 8), {}, r"model\.name = 'zzz' is unknown; known: linear, .*torchvision:NAME"),
        ("small_cnn", (512,), {}, r"model\.name = 'small_cnn' takes images.*\(512,\); choose linear or mlp"),
        ("mlp", (4,), {"hiden": [3]}, r"model\.args\.hiden = \[3\].*hidden.*did you mean 'hidden'"),
        ("linear", (4,), {"bias": False}, r"model\.args\.bias = False.*it takes none"),
        ("mlp", (4,), {"num_classes": 3}, r"model\.args\.num_classes = 3: the data decides"),
        ("mlp", (4,), {"hidden": [0]}, r"model\.args\.hidden = \[0\]"),
        ("mlp", (4,), {"hidden": "64"}, r"model\.args\.hidden = '64'"),
        ("mlp", (4,), {"hidden": 64}, r"model\.args do not fit model\.name = 'mlp'"),
        ("mlp", (4,), {"dropout": 1.0}, r"model\.args\.dropout = 1\.0"),
        ("small_cnn", (1, 8, 8), {"widths": [3, 3]}, r"model\.args\.widths = \[3, 3\] must have three"),
        ("preact_resnet20", (3, 8, 8), {"width": -4}, r"model\.args\.width = \(-4,\)"),
        ("resnet18_cifar", (3, 8, 8), {"width": "a"}, r"model\.args\.width"),
    ],
)
def test_wrong_settings_name_the_field_the_value_and_the_remedy(name, shape, args, message):
    with pytest.raises(ConfigError, match=message):
        build_model(name, num_classes=5, input_shape=shape, args=args)


@pytest.fixture
def their_nets(tmp_path, monkeypatch):
    """A user's package of networks, importable for this test."""
    (tmp_path / "their_nets.py").write_text(
        """
from torch import nn
class Net(nn.Sequential):
    def __init__(self, num_classes, input_shape, width=4):
        super().__init__(nn.Flatten(), nn.LazyLinear(width), nn.Linear(width, num_classes))
        self.seen = (num_classes, input_shape, width)
def no_shape(num_classes): return nn.Linear(3, num_classes)
def anything(**kwargs): return Net(input_shape=(1,), **kwargs)
def needs_more(num_classes, teacher): return nn.Linear(3, num_classes)
def no_classes(width): return nn.Linear(3, width)
def not_a_net(num_classes): return "net"
def fails(num_classes): raise TypeError("inside")
built = nn.Linear(3, 3)
number = 3
"""
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("their_nets", None)


def test_a_users_factory_gets_what_it_takes(their_nets):
    assert build("their_nets:Net", width=6).seen == (5, (3, 8, 8), 6)
    assert build("their_nets:no_shape").out_features == 5
    # **kwargs does not ask for input_shape: it may hand everything on to a network that has no such argument
    assert build("their_nets:anything", width=2).seen == (5, (1,), 2)


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("their_nets:Nett", {}, r"model\.name = 'their_nets:Nett'.*did you mean 'Net'"),
        ("their_netz:Net", {}, r"model\.name = 'their_netz:Net': no module 'their_netz' found"),
        ("their_nets:Net", {"widht": 3}, r"model\.args\.widht = 3.*did you mean 'width'"),
        ("their_nets:needs_more", {}, r"model\.args do not fit .*teacher"),
        ("their_nets:no_classes", {"width": 3}, r"must take a parameter num_classes"),
        ("their_nets:not_a_net", {}, r"built a str; it must return a torch\.nn\.Module"),
        ("their_nets:built", {}, r"is a Linear; name a class or function"),
        ("their_nets:number", {}, r"is a int; name a class or function"),
    ],
)
def test_a_users_mistakes_are_named(their_nets, name, args, message):
    with pytest.raises(ConfigError, match=message):
        build(name, **args)


def test_errors_inside_a_users_factory_stay_their_own(their_nets):
    with pytest.raises(TypeError, match="inside"):
        build("their_nets:fails")


# torchvision's wheel does not load beside a CPU build of torch, and timm imports torchvision, so neither can
# be a dependency of the tests: modules of the same names, with the functions used here, stand in for them.


class FakeNet(nn.Module):
    def __init__(self, **asked):
        super().__init__()
        self.asked = asked
        self.body = nn.Linear(4, 8)
        self.heads = nn.Sequential(nn.Dropout(), nn.Linear(8, asked.get("num_classes", 1000), bias=False))


@pytest.fixture
def fake_torchvision(monkeypatch):
    def get_model(name, weights=None, **config):
        if "oops" in config:
            raise TypeError("unexpected keyword argument 'oops'")
        if weights and config.get("num_classes", 1000) != 1000:
            raise ValueError("expected value 1000")
        return FakeNet(name=name, weights=weights, **config)

    package, models = ModuleType("torchvision"), ModuleType("torchvision.models")
    models.get_model = get_model
    models.list_models = lambda module=None: ["resnet18", "resnet50"] + ([] if module else ["fcn_resnet50"])
    package.models = models
    monkeypatch.setitem(sys.modules, "torchvision", package)


def test_torchvision_networks_by_name(fake_torchvision):
    model = build("torchvision:resnet50", zero_init_residual=True)
    assert model.asked == {"name": "resnet50", "weights": None, "num_classes": 5, "zero_init_residual": True}


def test_torchvision_weights_keep_the_body_and_get_a_new_head(fake_torchvision):
    model = build("torchvision:resnet50", weights="DEFAULT")
    assert model.asked == {"name": "resnet50", "weights": "DEFAULT"}
    assert model.heads[1].weight.shape == (5, 8)
    assert model.heads[1].bias is None
    assert model.body.weight.shape == (8, 4)


@pytest.mark.parametrize(
    ("name", "shape", "args", "message"),
    [
        ("torchvision:resnet51", (3, 8, 8), {}, r"no network 'resnet51'; did you mean 'resnet50'"),
        ("torchvision:fcn_resnet50", (3, 8, 8), {}, r"no network 'fcn_resnet50'"),
        ("torchvision:resnet50", (1, 8, 8), {}, r"takes 3 channels.*\(1, 8, 8\)"),
        ("torchvision:resnet50", (64,), {}, r"takes images"),
        ("torchvision:resnet50", (3, 8, 8), {"oops": 1}, r"model\.args do not fit .*oops"),
    ],
)
def test_torchvision_mistakes_are_named(fake_torchvision, name, shape, args, message):
    with pytest.raises(ConfigError, match=message):
        build_model(name, num_classes=5, input_shape=shape, args=args)


def test_a_network_without_a_linear_layer_keeps_no_new_head():
    with pytest.raises(ConfigError, match="ends in no linear layer"):
        with_new_head(nn.Conv2d(1, 1, 1), 5, "torchvision:squeezenet1_0")


@pytest.fixture
def fake_timm(monkeypatch):
    package = ModuleType("timm")
    package.is_model = lambda name: name.partition(".")[0] in ("resnet50", "vit_tiny")
    package.list_models = lambda: ["resnet50", "vit_tiny"]
    package.create_model = lambda name, **config: FakeNet(name=name, **config)
    monkeypatch.setitem(sys.modules, "timm", package)


@pytest.mark.parametrize("name", ["resnet50", "resnet50.a1_in1k", "hf-hub:someone/net"])
def test_timm_networks_by_name(fake_timm, name):
    model = build(f"timm:{name}", shape=(1, 8, 8), pretrained=True)
    assert model.asked == {"name": name, "num_classes": 5, "in_chans": 1, "pretrained": True}


def test_timm_names_are_checked(fake_timm):
    with pytest.raises(ConfigError, match=r"model\.name = 'timm:vit_tinny'.*did you mean 'vit_tiny'"):
        build("timm:vit_tinny")


@pytest.mark.parametrize("package", ["torchvision", "timm"])
def test_a_missing_package_prints_the_pip_command(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'pencil-labels\[{package}\]'"):
        build(f"{package}:resnet50")


def test_a_torchvision_that_does_not_suit_torch_is_explained(monkeypatch, tmp_path):
    (tmp_path / "torchvision.py").write_text(
        "raise RuntimeError('operator torchvision::nms does not exist')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "torchvision", raising=False)
    with pytest.raises(MissingExtraError, match=r"does not load beside this torch .*belong together"):
        build("torchvision:resnet50")


@pytest.mark.parametrize("name", ["resnet50", "vit_b_16", "efficientnet_b0"])
def test_names_of_other_packages_lead_to_them(name):
    with pytest.raises(
        ConfigError, match=f"model.name = '{name}' is unknown; write torchvision:{name} or timm:{name}"
    ):
        build_model(name, num_classes=2, input_shape=(3, 8, 8))
