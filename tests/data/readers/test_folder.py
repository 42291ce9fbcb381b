import os
import pickle

import numpy as np
import pytest
import torch

from pencil import imports
from pencil.data.readers.folder import ImageFiles, read_image_folder, read_images_alone
from pencil.errors import DataError, MissingExtraError

Image = pytest.importorskip("PIL.Image")

RED = (255, 0, 0)


def paint(path, color=RED, size=(8, 6), mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, color).save(path)
    return path


def test_train_and_test_folders(tmp_path):
    for name in ("train/dog/b.png", "train/dog/a.JPG", "train/cat/z.png", "test/dog/t.png"):
        paint(tmp_path / name)
    (tmp_path / "train" / "dog" / "notes.txt").write_text("not an image")
    (tmp_path / "train" / "dog" / "._a.jpg").write_text("hidden")
    (tmp_path / "train" / ".cache").mkdir()
    splits = read_image_folder(tmp_path, size=4)
    assert splits.train.class_names == ("cat", "dog")
    assert list(splits.train.ids) == ["train/cat/z.png", "train/dog/a.JPG", "train/dog/b.png"]
    assert splits.train.labels.values.tolist() == [0, 1, 1]
    assert list(splits.test.ids) == ["test/dog/t.png"]
    assert splits.test.labels.values.tolist() == [1]


def test_val_is_tested_on_where_there_is_no_test_and_a_choice_is_obeyed(tmp_path):
    for split in ("train", "val"):
        paint(tmp_path / split / "cat" / "a.png")
    assert list(read_image_folder(tmp_path).test.ids) == ["val/cat/a.png"]
    paint(tmp_path / "test" / "cat" / "b.png")
    told = r"1 rows of val are left out, since the split to test on is test; to learn from them put them into train"
    with pytest.warns(UserWarning, match=told):
        assert list(read_image_folder(tmp_path).test.ids) == ["test/cat/b.png"]
    assert list(read_image_folder(tmp_path, test_split="val").test.ids) == ["val/cat/a.png"]
    with pytest.raises(DataError, match="test_split='dev': no such folder"):
        read_image_folder(tmp_path, test_split="dev")


def test_classes_directly_under_root_are_all_for_training(tmp_path):
    for name in ("boat/1.png", "train/1.png"):  # a vehicle, not a split
        paint(tmp_path / name)
    splits = read_image_folder(tmp_path)
    assert splits.train.class_names == ("boat", "train")
    assert splits.test is None
    with pytest.raises(DataError, match="has no train/<class> folders"):
        read_image_folder(tmp_path, test_split="test")


def test_order_does_not_depend_on_the_file_system(tmp_path, monkeypatch):
    for name in ("c/2.png", "a/1.png", "b/3.png", "c/1.png"):
        paint(tmp_path / name)
    expected = list(read_image_folder(tmp_path).train.ids)
    scandir = os.scandir

    class Backwards:
        def __init__(self, path):
            self.entries = sorted(scandir(path), key=lambda entry: entry.name, reverse=True)

        def __enter__(self):
            return self.entries

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(os, "scandir", Backwards)
    assert (
        list(read_image_folder(tmp_path).train.ids)
        == expected
        == ["a/1.png", "b/3.png", "c/1.png", "c/2.png"]
    )


def test_fetch_resizes_and_converts(tmp_path):
    paths = [paint(tmp_path / "red.png"), paint(tmp_path / "grey.png", 128, mode="L")]
    paths.append(paint(tmp_path / "clear.png", (0, 0, 255, 10), mode="RGBA"))
    images = ImageFiles(paths, size=5).fetch(torch.tensor([1, 0, 2, 0]))
    assert (images.dtype, images.shape) == (torch.uint8, (4, 3, 5, 5))
    assert images[:, :, 2, 2].tolist() == [[128] * 3, [255, 0, 0], [0, 0, 255], [255, 0, 0]]


def test_fetch_in_grey(tmp_path):
    images = ImageFiles([paint(tmp_path / "red.png")], size=None, channels=1).fetch(torch.tensor([0]))
    assert images.shape == (1, 1, 6, 8)
    assert images.unique().tolist() == [76]


def test_fetch_keeps_pixels_where_sizes_agree(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    images = ImageFiles(["a.png"], root=tmp_path).fetch(torch.tensor([0]))
    assert np.array_equal(images[0].permute(1, 2, 0), pixels)


def test_fetch_resizes_bilinearly(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    image = Image.fromarray(pixels)
    image.save(tmp_path / "a.png")
    fetched = ImageFiles([tmp_path / "a.png"], size=12).fetch(torch.tensor([0]))
    expected = np.asarray(image.resize((12, 12), Image.Resampling.BILINEAR))
    assert np.array_equal(fetched[0].permute(1, 2, 0), expected)


def test_a_transparent_palette_does_not_warn(tmp_path):
    image = Image.new("P", (4, 4), 1)
    image.putpalette([0, 0, 0, 255, 0, 0])
    image.save(tmp_path / "p.png", transparency=b"\x00\xff")
    images = ImageFiles([tmp_path / "p.png"]).fetch(torch.tensor([0]))
    assert images[0, :, 0, 0].tolist() == [255, 0, 0]


def test_small_images_are_decoded_once_in_each_process(tmp_path):
    files, rows = (
        ImageFiles([paint(tmp_path / "a.png"), paint(tmp_path / "b.png")], size=4),
        torch.tensor([1, 0, 1]),
    )
    first = files.fetch(rows)
    for name in ("a.png", "b.png"):
        (tmp_path / name).unlink()
    assert torch.equal(files.fetch(rows.flip(0)), first.flip(0))
    with pytest.raises(DataError, match=r"b\.png"):
        pickle.loads(pickle.dumps(files)).fetch(rows)


def test_images_that_would_fill_the_memory_are_decoded_each_time(tmp_path, monkeypatch):
    monkeypatch.setattr("pencil.data.readers.folder.KEPT_BYTES", 4 * 4 * 3 - 1)
    files = ImageFiles([paint(tmp_path / "a.png")], size=4)
    files.fetch(torch.tensor([0]))
    (tmp_path / "a.png").unlink()
    with pytest.raises(DataError, match=r"a\.png"):
        files.fetch(torch.tensor([0]))


def test_no_rows_give_an_empty_batch(tmp_path):
    files = ImageFiles([paint(tmp_path / "a.png")])
    assert files.fetch(torch.tensor([], dtype=torch.int64)).shape == (0, 3, 6, 8)


def test_inputs_travel_to_worker_processes(tmp_path):
    files = ImageFiles([paint(tmp_path / "a.png")])
    before = files.fetch(torch.tensor([0]))
    assert torch.equal(pickle.loads(pickle.dumps(files)).fetch(torch.tensor([0])), before)


def test_sizes_that_differ_need_a_size(tmp_path):
    paths = [paint(tmp_path / "a.png"), paint(tmp_path / "b.png", size=(9, 6))]
    with pytest.raises(DataError, match=r"b.png: 9 x 6 pixels, but .*a.png has 8 x 6; set size"):
        ImageFiles(paths).fetch(torch.tensor([1]))


@pytest.mark.parametrize("size", [None, 4])
@pytest.mark.parametrize(
    "damage", [lambda data: b"", lambda data: b"junk", lambda data: data[: len(data) // 2]]
)
@pytest.mark.parametrize("suffix", [".png", ".jpg"])
def test_a_broken_image_is_named(tmp_path, size, damage, suffix):
    path = tmp_path / f"broken{suffix}"
    Image.effect_noise((64, 64), 50).save(path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=f"broken{suffix}: cannot be decoded"):
        ImageFiles([path], size).fetch(torch.tensor([0]))


def test_empty_and_stray_folders_are_named(tmp_path):
    with pytest.raises(DataError, match="not a folder"):
        read_image_folder(tmp_path / "nowhere")
    with pytest.raises(DataError, match="no class folders"):
        read_image_folder(tmp_path)
    paint(tmp_path / "train" / "cat" / "a.png")
    (tmp_path / "train" / "dog").mkdir()
    with pytest.raises(DataError, match="dog: no images"):
        read_image_folder(tmp_path)
    paint(tmp_path / "train" / "dog" / "puppies" / "a.png")
    with pytest.raises(DataError, match="dog: contains the folder puppies"):
        read_image_folder(tmp_path)


def test_test_classes_must_be_train_classes(tmp_path):
    paint(tmp_path / "train" / "cat" / "a.png")
    (tmp_path / "test").mkdir()
    with pytest.raises(DataError, match="test: no images"):
        read_image_folder(tmp_path)
    paint(tmp_path / "test" / "dog" / "a.png")
    with pytest.raises(DataError, match="class folders that train does not have: dog"):
        read_image_folder(tmp_path)


def test_settings_are_checked():
    with pytest.raises(DataError, match="channels=4"):
        ImageFiles([], channels=4)
    with pytest.raises(DataError, match="size=0"):
        ImageFiles([], size=0)


def test_without_pillow_the_command_to_install_it_is_told(monkeypatch):
    def fail(name):
        raise ImportError(name)

    monkeypatch.setattr(imports.importlib, "import_module", fail)
    with pytest.raises(MissingExtraError, match=r"PIL is needed to decode images; .*\[images\]"):
        ImageFiles([])


def test_images_in_one_folder_have_no_labels_and_folders_name_classes(tmp_path):
    for name in ("b.png", "a.png", ".hidden.png"):
        paint(tmp_path / "flat" / name)
    (tmp_path / "flat" / "notes.txt").write_text("no image")
    found = read_images_alone(tmp_path / "flat", size=4)
    assert list(found.ids) == ["a.png", "b.png"]
    assert found.inputs.fetch(torch.arange(len(found))).shape == (2, 3, 4, 4)
    assert read_images_alone(tmp_path) is None
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="empty: no images and no class folders"):
        read_images_alone(tmp_path / "empty")


def test_files_that_are_left_out_are_counted(tmp_path):
    for name in ("cat/a.png", "cat/b.JFIF", "dog/a.png"):
        paint(tmp_path / name)
    for name in ("cat/.DS_Store", "cat/Thumbs.db", "dog/a.json", "dog/notes.txt", "README", "labels.csv"):
        (tmp_path / name).write_text("no image")
    assert list(read_image_folder(tmp_path).train.ids) == ["cat/a.png", "cat/b.JFIF", "dog/a.png"]
    for name in ("cat/c.HEIC", "dog/d.avif", "dog/e", "lost.png"):
        (tmp_path / name).write_text("perhaps an image")
    told = (
        r"4 files are left out \(.avif, .heic, .png, no ending\), first lost.png; images end with one of .bmp"
    )
    with pytest.warns(UserWarning, match=told):
        assert len(read_image_folder(tmp_path).train) == 3


def test_files_that_are_left_out_of_a_split_or_of_images_without_labels_are_counted(tmp_path):
    for name in ("train/cat/a.png", "test/cat/b.png", "train/lost.png"):
        paint(tmp_path / name)
    (tmp_path / "test/cat/c.heic").write_text("perhaps an image")
    with pytest.warns(UserWarning, match=r"2 files are left out \(.heic, .png\), first train/lost.png"):
        read_image_folder(tmp_path)
    with pytest.warns(UserWarning, match=r"1 files are left out \(.heic\), first c.heic"):
        assert list(read_images_alone(tmp_path / "test/cat").ids) == ["b.png"]
