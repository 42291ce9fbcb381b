"""Augmentation: crops and flips against a naive loop, purity, statistics."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pencil.data.inputs import SubsetInputs, TensorInputs
from pencil.data.prepare import Augment, Normalize, center_crop, channel_statistics
from pencil.errors import ConfigError, DataError


def reference_splitmix(seed, epoch, row, draws):
    """The same numbers in Python integers, as the reference generator writes them down."""
    mask = 2**64 - 1

    def output(state):
        state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & mask
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB & mask
        return state ^ (state >> 31)

    gamma = 0x9E3779B97F4A7C15
    key = output((output((seed + gamma) & mask) + epoch + gamma) & mask)
    state = output((key + row) & mask)
    return [(output((state + (draw + 1) * gamma) & mask) >> 40) / 2**24 for draw in range(draws)]


def naive_augment(images, rows, augment, seed, epoch):
    """One image after another, in numpy."""
    out = []
    for image, row in zip(images.numpy(), rows.tolist(), strict=True):
        u_top, u_left, u_flip = reference_splitmix(seed, epoch, row, 3)
        padded = np.pad(image, ((0, 0), (augment.pad, augment.pad), (augment.pad, augment.pad)))
        height, width = (augment.crop, augment.crop) if augment.crop else image.shape[1:]
        top = int(u_top * (padded.shape[1] - height + 1))
        left = int(u_left * (padded.shape[2] - width + 1))
        window = padded[:, top : top + height, left : left + width]
        out.append(window[:, :, ::-1] if augment.flip and u_flip < 0.5 else window)
    return torch.from_numpy(np.stack(out))


def test_nothing_touches_the_global_generator():
    state = torch.get_rng_state()
    Augment(pad=2, flip=True)(
        torch.randn(4, 3, 8, 8, generator=torch.Generator()), torch.arange(4), seed=0, epoch=0
    )
    assert torch.equal(state, torch.get_rng_state())


@settings(deadline=None, max_examples=60)
@given(
    augment=st.builds(Augment, pad=st.integers(0, 3), crop=st.none() | st.integers(1, 5), flip=st.booleans()),
    height=st.integers(5, 9),
    width=st.integers(5, 9),
    channels=st.integers(1, 4),
    dtype=st.sampled_from([torch.uint8, torch.float32, torch.float64]),
    channels_last=st.booleans(),
    epoch=st.integers(0, 400),
)
def test_augment_is_the_naive_loop(augment, height, width, channels, dtype, channels_last, epoch):
    generator = torch.Generator().manual_seed(epoch)
    images = torch.randint(256, (6, channels, height, width), generator=generator).to(dtype)
    if channels_last:
        images = images.contiguous(memory_format=torch.channels_last)
    rows = torch.randint(10**9, (6,), generator=generator)
    before = images.clone()
    out = augment(images, rows, seed=11, epoch=epoch)
    assert torch.equal(out, naive_augment(images, rows, augment, 11, epoch))
    assert out.dtype is dtype
    assert tuple(out.shape[2:]) == augment.output_size(height, width)
    assert torch.equal(images, before)


def test_augment_crops_imagenet_sizes():
    images = torch.randn(4, 3, 256, 256, generator=torch.Generator().manual_seed(0))
    augment = Augment(crop=224, flip=True)
    out = augment(images, torch.arange(4), seed=0, epoch=1)
    assert out.shape == (4, 3, 224, 224)
    assert torch.equal(out, naive_augment(images, torch.arange(4), augment, 0, 1))


def test_augment_keeps_channels_last():
    images = torch.randn(4, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    out = Augment(pad=2, flip=True)(images, torch.arange(4), seed=0, epoch=0)
    assert out.is_contiguous(memory_format=torch.channels_last)
    assert Augment(pad=2)(images.contiguous(), torch.arange(4), seed=0, epoch=0).is_contiguous()


def test_augment_depends_on_the_row_not_on_the_batch():
    generator = torch.Generator().manual_seed(1)
    images, rows = (
        torch.randn(20, 3, 8, 8, generator=generator),
        torch.randperm(10_000, generator=generator)[:20],
    )
    augment = Augment(pad=3, flip=True)
    whole = augment(images, rows, seed=5, epoch=2)
    order = torch.randperm(20, generator=generator)
    assert torch.equal(augment(images[order], rows[order], seed=5, epoch=2), whole[order])
    halves = [augment(images[part], rows[part], seed=5, epoch=2) for part in (slice(0, 7), slice(7, 20))]
    assert torch.equal(torch.cat(halves), whole)
    assert not torch.equal(augment(images, rows, seed=5, epoch=3), whole)
    assert not torch.equal(augment(images, rows, seed=6, epoch=2), whole)


def test_half_are_flipped_and_every_offset_occurs_equally_often():
    pad, count = 4, 20_000
    images = torch.arange(1, 10, dtype=torch.float32).view(1, 1, 3, 3).expand(count, -1, -1, -1)
    out = Augment(pad=pad, crop=3, flip=True)(images, torch.arange(count), seed=0, epoch=0)
    shifted = Augment(pad=pad, crop=3)(images, torch.arange(count), seed=0, epoch=0)
    assert torch.equal(
        (out != shifted).flatten(1).any(1) & (out != shifted.flip(3)).flatten(1).any(1),
        torch.zeros(count).bool(),
    )
    flips = Augment(flip=True)(images, torch.arange(count), seed=0, epoch=0)[:, 0, 0, 0] == 3
    assert abs(flips.float().mean().item() - 0.5) < 4 * 0.5 / count**0.5
    # The image cut from rows and columns that tell their number gives the offset away.
    ramp = torch.arange(11.0).view(1, 1, 11, 1) * 11 + torch.arange(11.0)
    corner = Augment(crop=3)(ramp.expand(count, -1, -1, -1), torch.arange(count), seed=0, epoch=0)[:, 0, 0, 0]
    counts = torch.bincount((corner // 11 * 9 + corner % 11).long(), minlength=81)
    assert len(counts) == 81
    assert ((counts - count / 81).abs() < 5 * (count / 81) ** 0.5).all()


def test_leaving_the_flip_out_moves_no_crop():
    images = torch.randn(50, 1, 6, 6)
    flipped = Augment(pad=2, flip=True)(images, torch.arange(50), seed=0, epoch=0)
    plain = Augment(pad=2)(images, torch.arange(50), seed=0, epoch=0)
    same = (flipped == plain).flatten(1).all(1) | (flipped == plain.flip(3)).flatten(1).all(1)
    assert same.all()


def test_without_settings_images_stay_as_they_are():
    images = torch.randn(3, 2, 5, 4)
    assert torch.equal(Augment()(images, torch.arange(3), seed=0, epoch=0), images)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Augment(pad=-1), "pad: -1 must be 0 or more pixels"),
        (lambda: Augment(crop=0), "crop: 0 must be 1 or more pixels; leave it out"),
        (lambda: Normalize((0.0, 1.0), (1.0,)), "mean: 2 values, but std has 1"),
        (lambda: Normalize((0.0,), (0.0,)), r"std: \(0\.0,\) must be above 0"),
        (lambda: Normalize((0.0,), (float("nan"),)), r"std: \(nan,\) must be above 0"),
    ],
)
def test_settings_without_meaning_are_refused_by_name(wrong, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        wrong()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Augment(crop=9)(torch.zeros(1, 1, 8, 8), torch.arange(1), seed=0, epoch=0),
        lambda: center_crop(torch.zeros(1, 1, 8, 8), 9),
    ],
)
def test_a_crop_larger_than_the_images_is_a_config_error(wrong):
    with pytest.raises(ConfigError, match="crop = 9 is larger"):
        wrong()


def test_features_are_not_cropped():
    with pytest.raises(DataError, match=r"take images .*\(4, 7\)"):
        Augment(flip=True)(torch.zeros(4, 7), torch.arange(4), seed=0, epoch=0)


@pytest.mark.parametrize(("side", "size", "top"), [(256, 224, 16), (8, 8, 0), (7, 4, 1), (8, 5, 1)])
def test_center_crop_takes_the_middle(side, size, top):
    images = torch.randn(2, 3, side, side)
    assert torch.equal(center_crop(images, size), images[:, :, top : top + size, top : top + size])


def test_normalize_scales_uint8_to_one_first():
    images = torch.tensor([0, 51, 255], dtype=torch.uint8).view(1, 3, 1, 1).expand(2, 3, 2, 2)
    out = Normalize((0.5, 0.1, 0.0), (1.0, 0.1, 2.0))(images)
    assert out.dtype is torch.float32
    torch.testing.assert_close(out[0, :, 0, 0], torch.tensor([-0.5, 1.0, 0.5]))


def test_normalize_takes_floats_as_they_are_and_changes_nothing_in_place():
    features = torch.tensor([[1.0, 10.0], [3.0, 30.0]])
    out = Normalize((1.0, 10.0), (2.0, 20.0))(features)
    assert torch.equal(out, torch.tensor([[0.0, 0.0], [1.0, 1.0]]))
    assert features[1, 1] == 30.0
    assert Normalize((0.0,), (1.0,))(features.double()).dtype is torch.float32
    with pytest.raises(DataError, match="mean and std have 3 values"):
        Normalize((0.0,) * 3, (1.0,) * 3)(features)


def test_padding_after_normalisation_is_the_mean_colour():
    images = torch.full((1, 1, 4, 4), 51, dtype=torch.uint8)
    out = Augment(pad=2, crop=8)(Normalize((0.4,), (1.0,))(images), torch.arange(1), seed=0, epoch=0)
    assert out[0, 0, 0, 0] == 0.0
    torch.testing.assert_close(out[0, 0, 4, 4], torch.tensor(-0.2))


@pytest.mark.parametrize("batch", [1, 7, 64, 1024])
def test_channel_statistics_of_images(batch):
    images = torch.randint(256, (100, 3, 5, 6), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    mean, std = channel_statistics(TensorInputs(images), batch=batch)
    scaled = images.double() / 255
    assert mean == pytest.approx(scaled.mean((0, 2, 3)).tolist(), rel=1e-12)
    assert std == pytest.approx(scaled.std((0, 2, 3), correction=0).tolist(), rel=1e-12)
    normal = Normalize(mean, std)(images)
    torch.testing.assert_close(normal.mean((0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(normal.std((0, 2, 3), correction=0), torch.ones(3), atol=1e-5, rtol=0)


def test_channel_statistics_of_some_rows_of_features_far_from_zero():
    features = 1e6 + torch.randn(200, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    features[:, 2] = 0.1
    rows = torch.arange(0, 200, 3)
    mean, std = channel_statistics(TensorInputs(features), rows, batch=10)
    assert mean == pytest.approx(features[rows].mean(0).tolist(), rel=1e-12)
    expected = features[rows].std(0, correction=0)
    expected[2] = 1.0
    assert std == pytest.approx(expected.tolist(), rel=1e-6)
    assert channel_statistics(SubsetInputs(TensorInputs(features), rows), batch=10) == (mean, std)


def test_channel_statistics_refuse_nothing_and_nonsense():
    with pytest.raises(DataError, match="no rows"):
        channel_statistics(TensorInputs(torch.zeros(0, 3)))
    features = torch.zeros(5, 3)
    features[4, 1] = float("nan")
    with pytest.raises(DataError, match="feature 1 of the inputs"):
        channel_statistics(TensorInputs(features))
