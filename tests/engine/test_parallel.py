"""Which modules become blocks of their own under FSDP; what cannot be sharded is said in a sentence."""

import pytest
import torch
from torch import nn

from pencil.engine import parallel
from pencil.engine.parallel import backbone, blocks, is_parallel, whole_weights
from pencil.errors import ConfigError
from pencil.models import build_model


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        self.layers[1].weight = self.layers[0].weight


def test_elements_of_sequences_with_enough_parameters_are_blocks_inner_ones_first():
    inner = nn.Sequential(nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 2))  # 110 and 22
    model = nn.Sequential(nn.Linear(2, 2), nn.ModuleList([inner, nn.Linear(20, 20)]))
    assert blocks(model, 100) == [inner[0], model[1][1]]
    assert blocks(model, 130) == [inner, model[1][1]]
    assert blocks(model, 22) == [inner[0], inner[2], model[1][1]]
    assert blocks(model, 1000) == []


def test_what_is_no_element_of_a_sequence_may_be_used_without_being_called():
    attention = nn.MultiheadAttention(8, 2)  # asks its out_proj for the weight alone
    assert blocks(nn.Sequential(attention), 10) == [attention]


def test_shared_parameters_keep_a_network_in_one_block():
    assert blocks(Tied(), 1) == []


def test_the_blocks_of_a_residual_network_hold_most_of_it():
    model = build_model("resnet34_cifar", num_classes=10, input_shape=(3, 32, 32))
    held = [sum(weight.numel() for weight in block.parameters()) for block in blocks(model, parallel.ENOUGH)]
    assert len(held) > 5
    assert sum(held) > 0.8 * sum(weight.numel() for weight in model.parameters())


def test_one_process_has_the_backbone_itself():
    model = nn.Linear(2, 2)
    assert backbone(model) is model
    assert not is_parallel(model)
    assert torch.equal(whole_weights(model)["weight"], model.weight)


def test_a_network_that_cannot_be_sharded_is_refused_with_the_remedy(monkeypatch):
    def refuse(*_, **__):
        raise ValueError("scalar parameters")

    monkeypatch.setattr("torch.distributed.device_mesh.init_device_mesh", lambda *_: None)
    monkeypatch.setattr("torch.distributed.fsdp.fully_shard", refuse)
    monkeypatch.setattr(parallel.dist, "broadcast", lambda *_, **__: None)
    with pytest.raises(ConfigError, match=r"train\.parallel = 'fsdp'.*scalar parameters; use 'ddp'"):
        parallel.shard(nn.Linear(2, 2), torch.device("cpu"), 2)
