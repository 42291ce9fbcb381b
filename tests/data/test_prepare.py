"""What the network sees: normalised always, augmented in training only, cropped to the middle in evaluation."""

import pytest
import torch

from pencil.data.prepare import Augment, Normalize, Preparation, center_crop
from pencil.errors import ConfigError

CPU = torch.device("cpu")
NORMALIZE = Normalize((0.5, 0.4, 0.3), (0.2, 0.2, 0.1))
ROWS = torch.tensor([11, 4, 7, 2])


def images(size=8):
    generator = torch.Generator().manual_seed(0)
    return torch.randint(256, (4, 3, size, size), dtype=torch.uint8, generator=generator)


def test_training_normalises_then_augments_by_seed_epoch_and_row():
    augment = Augment(pad=2, crop=6, flip=True)
    prepared = Preparation(device=CPU, normalize=NORMALIZE, augment=augment, seed=5)
    expected = augment(NORMALIZE(images()), ROWS, seed=5, epoch=3)
    assert torch.equal(prepared.training(images(), ROWS, 3), expected)
    assert not torch.equal(prepared.training(images(), ROWS, 4), expected)
    assert not torch.equal(prepared.training(images(), ROWS + 1, 3), expected)


def test_views_of_one_example_are_augmented_in_their_own_way():
    prepared = Preparation(device=CPU, normalize=NORMALIZE, augment=Augment(pad=4, flip=True), seed=5)
    views = [prepared.training(images(), ROWS, 3, view) for view in (0, 1, 2)]
    assert torch.equal(views[0], prepared.training(images(), ROWS, 3))
    assert torch.equal(views[1], prepared.training(images(), ROWS, 3, 1))
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert not torch.equal(views[one], views[other])
    assert torch.equal(prepared.training(images()[1:2], ROWS[1:2], 3, 2), views[2][1:2])


def test_padding_is_the_mean_colour():
    """Normalised first: the zeros around an image of mean colour do not show."""
    flat = torch.full((4, 1, 8, 8), 0.4)
    prepared = Preparation(device=CPU, normalize=Normalize((0.4,), (0.1,)), augment=Augment(pad=4, crop=8))
    assert torch.equal(prepared.training(flat, ROWS, 0), torch.zeros(4, 1, 8, 8))


def test_evaluation_takes_the_middle_and_nothing_random():
    prepared = Preparation(device=CPU, normalize=NORMALIZE, augment=Augment(pad=2, crop=6, flip=True))
    once, again = prepared.evaluation(images()), prepared.evaluation(images())
    assert once.shape == (4, 3, 6, 6)
    assert torch.equal(once, again)
    assert torch.equal(once, center_crop(NORMALIZE(images()), 6))


def test_training_and_evaluation_see_the_same_shape():
    prepared = Preparation(device=CPU, normalize=NORMALIZE, augment=Augment(pad=2, crop=6, flip=True))
    assert prepared.training(images(), ROWS, 0).shape == prepared.evaluation(images()).shape


@pytest.mark.parametrize("augment", [None, Augment(pad=2, flip=True)])
def test_without_a_crop_evaluation_sees_the_whole_image(augment):
    prepared = Preparation(device=CPU, normalize=NORMALIZE, augment=augment)
    assert torch.equal(prepared.evaluation(images()), NORMALIZE(images()))


def test_without_augmentation_training_sees_what_evaluation_sees():
    prepared = Preparation(device=CPU, normalize=NORMALIZE)
    assert torch.equal(prepared.training(images(), ROWS, 0), prepared.evaluation(images()))


def test_normalisation_removes_mean_and_deviation():
    features = torch.tensor([[1.0, 10.0], [3.0, 30.0]])
    prepared = Preparation(device=CPU, normalize=Normalize((1.0, 10.0), (2.0, 20.0)))
    assert torch.equal(prepared.evaluation(features), torch.tensor([[0.0, 0.0], [1.0, 1.0]]))


def test_without_normalisation_values_stay_and_become_float32():
    prepared = Preparation(device=CPU)
    for values in (images(), torch.randn(4, 7, dtype=torch.float64), torch.ones(4, 7, dtype=torch.float16)):
        seen = prepared.evaluation(values)
        assert seen.dtype == torch.float32
        assert torch.equal(seen, values.float())


def test_channels_last_is_for_images_and_changes_no_value():
    plain = Preparation(device=CPU, normalize=NORMALIZE, augment=Augment(pad=2, crop=6, flip=True))
    last = Preparation(
        device=CPU, normalize=NORMALIZE, augment=Augment(pad=2, crop=6, flip=True), channels_last=True
    )
    for seen, expected in (
        (last.training(images(), ROWS, 1), plain.training(images(), ROWS, 1)),
        (last.evaluation(images()), plain.evaluation(images())),
    ):
        assert torch.equal(seen, expected)
        assert seen.is_contiguous(memory_format=torch.channels_last)
    assert Preparation(device=CPU, channels_last=True).evaluation(torch.ones(2, 5)).shape == (2, 5)


def test_stored_inputs_stay_as_they_are():
    stored = torch.randn(4, 3, 8, 8)
    before = stored.clone()
    prepared = Preparation(device=CPU, normalize=NORMALIZE, augment=Augment(pad=1, flip=True))
    prepared.training(stored, ROWS, 0)
    prepared.evaluation(stored)
    assert torch.equal(stored, before)


def test_a_crop_larger_than_the_image_is_a_config_error():
    prepared = Preparation(device=CPU, augment=Augment(crop=9))
    with pytest.raises(ConfigError, match="crop = 9 is larger"):
        prepared.evaluation(images())


def test_numbers_far_from_zero_keep_their_digits_if_they_come_in_float64():
    times = 1.7e9 + torch.arange(100, dtype=torch.float64)[:, None]
    normalize = Normalize((float(times.mean()),), (float(times.std()),))
    expected = (times - times.mean()) / times.std()
    found = normalize(times)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected.float(), atol=1e-6, rtol=0)
