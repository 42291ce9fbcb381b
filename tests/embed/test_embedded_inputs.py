"""Features in place of inputs: each content is encoded once, ranks divide the rows, originals stay visible."""

from dataclasses import dataclass, field

import pytest
import torch

from pencil.data import Image, TensorInputs
from pencil.embed import Ranks, embedded
from pencil.errors import DataError


@dataclass
class Means:
    """Encodes an image by the mean of each channel."""

    name: str = "means"
    takes: str = "images"
    mark: str = "m1"
    size: int = 3
    seen: list = field(default_factory=list)

    def encode(self, rows):
        self.seen += rows
        return torch.stack([row.pixels.float().mean(dim=(1, 2)) for row in rows])


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("PENCIL_CACHE", str(tmp_path / "cache"))


def images(rows, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (rows, 3, 4, 4), dtype=torch.uint8, generator=generator)


def test_features_replace_inputs_and_originals_stay_visible():
    pixels = images(70)
    found = embedded(TensorInputs(pixels), Means())
    assert torch.equal(found.fetch(torch.tensor([3, 69])), pixels[[3, 69]].float().mean(dim=(2, 3)))
    assert torch.equal(found.shown(5).pixels, pixels[5])


def test_each_content_is_encoded_once():
    pixels = images(40)
    first, again, more = Means(), Means(), Means()
    embedded(TensorInputs(torch.cat([pixels, pixels[:10]])), first)
    assert len(first.seen) == 40
    embedded(TensorInputs(pixels.flip(0)), again)
    assert not again.seen
    found = embedded(TensorInputs(torch.cat([images(5, seed=1), pixels])), more)
    assert len(more.seen) == 5
    assert torch.equal(found.values[5:], pixels.float().mean(dim=(2, 3)))


def test_another_mark_has_features_of_its_own():
    embedded(TensorInputs(images(8)), Means())
    other = Means(mark="m2")
    embedded(TensorInputs(images(8)), other)
    assert len(other.seen) == 8


def test_an_encoder_that_is_not_cached_leaves_nothing_and_its_features_are_the_content(tmp_path):
    pixels, found = images(8), []
    for brightness in (0, 0, 1):

        class Lit(Means):
            cached = False

            def encode(self, rows, brightness=brightness):
                return super().encode(rows) + brightness

        encoder = Lit()
        found.append(embedded(TensorInputs(pixels), encoder))
        assert len(encoder.seen) == 8
    assert torch.equal(found[2].values, pixels.float().mean(dim=(2, 3)) + 1)
    assert torch.equal(found[0].keys, found[1].keys)
    assert not (found[0].keys == found[2].keys).any()
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("shared", [True, False])
def test_ranks_divide_the_rows_and_encode_what_they_do_not_share(monkeypatch, tmp_path, shared):
    pixels, encoders, found = images(41), [Means() for _ in range(3)], []

    def others():
        """What the other ranks do while this one waits."""
        for rank in (1, 2) if shared else ():
            embedded(TensorInputs(pixels), encoders[rank], ranks=Ranks(rank, 3))

    found = embedded(TensorInputs(pixels), encoders[0], ranks=Ranks(0, 3, others))
    assert torch.equal(found.values, pixels.float().mean(dim=(2, 3)))
    assert len(encoders[0].seen) == (14 if shared else 41)


def test_a_killed_run_continues_after_the_parts_that_were_written(monkeypatch):
    pixels = images(100)
    monkeypatch.setattr("pencil.embed.features.PART_SECONDS", 0.0)

    class Dies(Means):
        def encode(self, rows):
            if len(self.seen) >= 64:
                raise KeyboardInterrupt
            return super().encode(rows)

    with pytest.raises(KeyboardInterrupt):
        embedded(TensorInputs(pixels), Dies())
    rest = Means()
    embedded(TensorInputs(pixels), rest)
    assert len(rest.seen) == 36


def test_progress_ends_with_all_rows(monkeypatch):
    told = []
    embedded(TensorInputs(images(90)), Means(), progress=lambda *done: told.append(done))
    assert told[-1] == (90, 90)


def test_plain_numbers_are_refused():
    with pytest.raises(DataError, match=r"features already: leave data\.embed out"):
        embedded(TensorInputs(torch.randn(4, 7)), Means())


def test_values_that_are_not_finite_are_refused():
    class Broken(Means):
        def encode(self, rows):
            features = super().encode(rows)
            features[2, 1] = float("nan")
            return features

    with pytest.raises(DataError, match="not finite for row 2"):
        embedded(TensorInputs(images(4)), Broken())


def test_an_image_as_it_is_stored_is_encoded():
    assert isinstance(embedded(TensorInputs(images(2)), Means()).shown(0), Image)
