"""The fast network: whitening against a naive computation, any image size, features, gradients, identity start."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from pencil.errors import ConfigError
from pencil.models import FastNet, Pair, PatchWhitening, build_model, prepare
from pencil.models.fast import FLAT, Block, whitening_filters


def photos(count=40, channels=3, side=9):
    """Images whose neighbouring pixels and channels are correlated, of unequal variance."""
    generator = torch.Generator().manual_seed(0)
    rough = torch.randn(count, channels, side + 2, side + 2, generator=generator)
    smooth = F.avg_pool2d(rough, 3, stride=1) + rough.mean(dim=1, keepdim=True)[:, :, 1:-1, 1:-1]
    return smooth * torch.arange(1, channels + 1)[:, None, None] + 0.3


def naive_patches(images):
    """Every 2x2 patch as a row of its values, one by one."""
    height, width = images.shape[2:]
    rows = [
        image[:, top : top + 2, left : left + 2].flatten()
        for image in images
        for top in range(height - 1)
        for left in range(width - 1)
    ]
    return torch.stack(rows).double()


@pytest.mark.parametrize("channels", [1, 3])
def test_filters_are_the_scaled_directions_of_the_patches(channels):
    images = photos(channels=channels)
    values, vectors = torch.linalg.eigh(torch.cov(naive_patches(images).T, correction=0))
    filters = whitening_filters(images).double()
    wanted = vectors.T / (values + FLAT).sqrt()[:, None]
    # a direction has no sign of its own
    torch.testing.assert_close(filters.abs(), wanted.abs(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("channels", [1, 3])
def test_responses_have_variance_one_and_no_correlation(channels):
    images = photos(channels=channels)
    layer = PatchWhitening(channels)
    layer.prepare(images)
    responses = layer(images)
    assert responses.shape == (40, 8 * channels, 8, 8)
    half = responses[:, : 4 * channels].transpose(0, 1).flatten(1).double()
    found, wanted = torch.cov(half, correction=0), torch.eye(4 * channels, dtype=torch.float64)
    torch.testing.assert_close(
        found, wanted, atol=0.05, rtol=0
    )  # FLAT makes small variances a little smaller
    torch.testing.assert_close(responses[:, 4 * channels :], -responses[:, : 4 * channels])


def test_directions_without_variance_stay_finite():
    assert torch.isfinite(whitening_filters(torch.zeros(3, 3, 4, 4))).all()
    grey = photos(channels=1).expand(-1, 3, -1, -1)
    assert whitening_filters(grey).abs().max() <= FLAT**-0.5 * 1.001


def test_the_filters_are_saved_but_not_trained():
    model = FastNet(4)
    prepare(model, photos)
    assert "whitening.weight" in model.state_dict()
    assert "whitening.weight" not in dict(model.named_parameters())
    fresh = FastNet(4)
    assert not torch.equal(fresh.whitening.weight, model.whitening.weight)
    fresh.load_state_dict(model.state_dict())
    assert torch.equal(fresh.eval()(photos()), model.eval()(photos()))


def test_layers_within_other_networks_are_prepared_from_the_same_images():
    pair, calls = Pair(FastNet(4), FastNet(4)), []
    prepare(pair, lambda: calls.append("read") or photos())
    assert calls == ["read"]
    assert torch.equal(pair.first.whitening.weight, pair.second.whitening.weight)


def test_networks_that_need_no_images_read_none():
    prepare(nn.Linear(2, 2), lambda: pytest.fail("no images are needed"))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("side", [2, 3, 8, 16, 28, 32, 48, 96])
def test_any_image_size(side, channels):
    model = build_model("fast", num_classes=4, input_shape=(channels, side, side))
    assert model(torch.randn(2, channels, side, side)).shape == (2, 4)


def test_images_need_not_be_square():
    assert FastNet(4)(torch.randn(2, 3, 40, 17)).shape == (2, 4)


def test_a_block_halves_the_image_and_is_its_naive_reading():
    block = Block(4, 6).train()
    x = torch.randn(8, 4, 9, 9)
    pooled = (
        F.conv2d(x, block.conv1.weight, padding=1)[:, :, :8, :8].unflatten(2, (4, 2)).unflatten(4, (4, 2))
    )
    out = pooled.amax(dim=(3, 5))
    for conv in (None, block.conv2):
        out = out if conv is None else F.conv2d(out, conv.weight, padding=1)
        mean, deviation = (
            out.mean(dim=(0, 2, 3), keepdim=True),
            out.var(dim=(0, 2, 3), correction=0, keepdim=True),
        )
        normal = (out - mean) / (deviation + 1e-5).sqrt()
        out = normal * 0.5 * (1 + torch.erf(normal / 2**0.5))
    torch.testing.assert_close(block(x), out, rtol=1e-3, atol=1e-4)


def test_convolutions_pass_their_channels_on_at_the_start():
    conv = FastNet(4, widths=(32, 48, 16)).blocks[1].conv1
    x = torch.randn(2, 32, 5, 5)
    torch.testing.assert_close(conv(x)[:, :32], x)
    assert conv(x)[:, 32:].std() > 0.1


def test_widths_are_checked():
    with pytest.raises(ConfigError, match=r"model\.args\.widths = \[3, 3\] must have three entries"):
        FastNet(4, widths=(3, 3))
    with pytest.raises(ConfigError, match=r"model\.args\.widths = \(0, 3, 3\)"):
        FastNet(4, widths=(0, 3, 3))


def test_it_learns_a_small_problem():
    torch.manual_seed(0)
    labels = torch.arange(64) % 2
    images = torch.randn(64, 1, 16, 16)
    images[labels == 1] = F.avg_pool2d(images[labels == 1], 3, stride=1, padding=1) * 3
    model = FastNet(2, in_channels=1, widths=(8, 8, 8))
    prepare(model, lambda: images)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(20):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    assert (model(images).argmax(1) == labels).float().mean() > 0.95
