"""Images as people see them."""

import io
from dataclasses import replace

import pytest
import torch

from pencil.data import Beside, Examples, Record, RowNumbers, TensorInputs, Text, read_image_folder, shown
from pencil.data.pixels import encode_png
from pencil.errors import DataError
from pencil.review.pictures import Pictures, open_pictures, shrunk
from pencil.run import RunDirectory
from pencil.stores import GivenLabels

GENERATOR = torch.Generator().manual_seed(0)


def decoded(png):
    image = pytest.importorskip("PIL.Image").open(io.BytesIO(png))
    image.load()
    return image


def examples(values):
    labels = GivenLabels.of(torch.arange(len(values)) % 2, 2)
    return Examples(TensorInputs(values), labels, ("a", "b"), RowNumbers(len(values)))


def test_other_shapes_are_no_images():
    for shape in [(16,), (2, 4, 4), (3, 0, 4), (1, 2, 3, 4)]:
        assert shown(TensorInputs(torch.zeros(1, *shape)), 0) is None


def test_large_images_are_made_small_and_keep_their_shape():
    small = shrunk(torch.full((3, 400, 100), 7, dtype=torch.uint8), longest=50)
    assert small.shape == (3, 50, 12)
    assert small.unique().tolist() == [7]
    assert shrunk(small, longest=50) is small


def test_a_row_is_shown_by_its_number_if_it_is_still_the_same_row():
    pixels = torch.randint(256, (4, 1, 6, 6), generator=GENERATOR, dtype=torch.uint8)
    part = Pictures(examples(pixels).subset(torch.tensor([3, 1])))
    assert part.are_images
    assert decoded(part.png(0, "3")).tobytes() == pixels[3].numpy().tobytes()
    with pytest.raises(DataError, match=r"row 1 is '1' in the data now, but was '2'; restore"):
        part.png(1, "2")
    with pytest.raises(DataError, match="row 2 is None"):
        part.png(2, "2")


def test_features_are_no_images():
    pictures = Pictures(examples(torch.zeros(3, 7)))
    assert not pictures.are_images
    assert not pictures.are_texts
    assert pictures.png(0, "0") is None
    assert pictures.text(0, "0") is None


class Notes(TensorInputs):
    """Numbers made of texts, or of records."""

    def shown(self, index):
        return Text(f"<b>note {index}</b>") if index % 2 else Record({"number": index, "place": "shelf"})


def test_texts_and_records_are_shown_in_words():
    whole = examples(torch.zeros(4, 7))
    notes = Pictures(replace(whole, inputs=Notes(whole.inputs.values)).subset(torch.tensor([2, 1])))
    assert (notes.are_images, notes.are_texts) == (False, True)
    assert notes.text(0, "2") == "number: 2\nplace: shelf"
    assert notes.text(1, "1") == "<b>note 1</b>"
    assert notes.png(1, "1") is None
    with pytest.raises(DataError, match=r"row 1 is '1' in the data now"):
        notes.text(1, "2")


def test_long_texts_are_cut():
    whole = examples(torch.zeros(2, 7))
    long = Notes(whole.inputs.values)
    object.__setattr__(long, "shown", lambda index: Text("x" * 100_000))
    assert len(Pictures(replace(whole, inputs=long)).text(0, "0")) == 20_000


def test_image_files_are_shown_as_they_are_stored_not_as_the_network_sees_them(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for name, size in (("cat", (40, 30)), ("owl", (9, 17))):
        (tmp_path / name).mkdir()
        image.new("RGB", size, (200, 10, 30)).save(tmp_path / name / "0.png")
    train = read_image_folder(tmp_path, size=4).train
    assert train.inputs.fetch(torch.tensor([0])).shape == (1, 3, 4, 4)
    assert shown(train.subset(torch.tensor([1])).inputs, 0).pixels.shape == (3, 17, 9)
    assert decoded(Pictures(train).png(0, "cat/0.png")).size == (40, 30)


def test_rows_of_features_are_shown_as_the_images_or_texts_beside_them(make_run, tmp_path):
    run = RunDirectory.open(make_run(tmp_path, rows=20, images=False))
    (tmp_path / "texts.csv").write_text("id,text\n" + "".join(f"row {row},note {row}\n" for row in range(19)))
    for row in range(20):
        pixels = torch.full((3, 4, 4), row, dtype=torch.uint8)
        (tmp_path / f"row {row}.png").write_bytes(encode_png(pixels))
    images, trouble = open_pictures(run, changed_data=False, beside=Beside("images", tmp_path))
    assert (images.are_images, trouble) == (True, None)
    assert images.matched.endswith("20 of 20 rows match by path without ending")
    assert decoded(images.png(7, "row 7")).getpixel((0, 0)) == (7, 7, 7)
    texts, trouble = open_pictures(run, changed_data=False, beside=Beside("texts", tmp_path / "texts.csv"))
    assert (texts.are_texts, trouble) == (True, "1 rows have no text")
    assert (texts.text(7, "row 7"), texts.text(19, "row 19")) == ("note 7", None)
    with pytest.raises(DataError, match="cannot be read"):
        open_pictures(run, changed_data=False, beside=Beside("texts", tmp_path / "nowhere.csv"))
