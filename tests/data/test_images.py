"""Pictures of every kind, and files that only claim to be pictures."""

import io
import os
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from pencil.data.images import MAX_PIXELS, ImageDecoder
from pencil.errors import DataError, ExampleError


def decode(path, **decoder):
    chosen = ImageDecoder(**decoder)
    return chosen.decode(path, path, chosen.extent(path, path), path)


def saved(path, image, *words, **options):
    image.save(path, *words, **options)
    return path


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png_of(width, height, depth=8, colour=0, data=b""):
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(data))
        + chunk(b"IEND", b"")
    )


GREY16 = np.array([[0, 255, 256, 32768, 65535]], np.uint16)


@pytest.mark.parametrize("suffix", [".png", ".tif", ".pgm"])
def test_grey_of_sixteen_bits_keeps_its_shades(tmp_path, suffix):
    path = saved(tmp_path / f"a{suffix}", Image.fromarray(GREY16))
    assert decode(path, channels=1)[0, 0].tolist() == [0, 0, 1, 128, 255]
    assert decode(path)[:, 0, 3].tolist() == [128, 128, 128]


@pytest.mark.parametrize("mode", ["F", "I"])
def test_numbers_of_32_bits_have_no_white(tmp_path, mode):
    path = saved(tmp_path / "a.tif", Image.new(mode, (3, 3), 1))
    with pytest.raises(ExampleError, match=r"a.tif: cannot be decoded .*32-bit numbers.* 8 or 16 bits"):
        decode(path)


@pytest.mark.parametrize(
    ("turn", "corner"), [(1, (0, 0)), (3, (1, 2)), (6, (0, 1)), (8, (2, 0)), (5, (0, 0))]
)
@pytest.mark.parametrize("suffix", [".png", ".webp", ".tif"])
def test_a_picture_is_looked_at_as_its_camera_was_held(tmp_path, suffix, turn, corner):
    image = Image.new("RGB", (3, 2))
    image.putpixel((0, 0), (255, 255, 255))
    notes = Image.Exif()
    notes[0x0112] = turn
    path = saved(
        tmp_path / f"a{suffix}", image, exif=notes, **({"lossless": True} if suffix == ".webp" else {})
    )
    seen = decode(path)
    assert seen.shape == ((3, 2, 3) if turn < 5 else (3, 3, 2))
    assert tuple((seen[0] > 200).nonzero()[0].tolist()) == corner


def test_damaged_notes_beside_a_picture_say_nothing(tmp_path):
    path = saved(tmp_path / "a.jpg", Image.new("RGB", (4, 4)), exif=b"Exif\0\0II*\0\xff\xff\xff\xff\1\2\3")
    assert decode(path).shape == (3, 4, 4)


@pytest.mark.parametrize("suffix", [".gif", ".webp", ".png", ".tif"])
def test_of_moving_pictures_the_first_counts(tmp_path, suffix):
    first, second = (Image.new("RGB", (4, 4), colour) for colour in ((250, 0, 0), (0, 0, 250)))
    path = saved(tmp_path / f"a{suffix}", first, save_all=True, append_images=[second])
    assert decode(path)[0].min() > 200


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.gif"])
@pytest.mark.parametrize(
    "content",
    [
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n",
        b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>",
        b"%PDF-1.4\n",
        b"8BPS\0\1" + bytes(20),
        b"",
    ],
    ids=["eps", "svg", "pdf", "psd", "empty"],
)
def test_other_formats_are_not_tried_whatever_their_name(tmp_path, monkeypatch, name, content):
    (tmp_path / name).write_bytes(content)
    monkeypatch.setattr("subprocess.Popen", lambda *_, **__: pytest.fail("it started a program"))
    with pytest.raises(
        ExampleError, match=rf"{name}: cannot be decoded as an image of BMP, .*save it as PNG"
    ):
        decode(tmp_path / name)


@pytest.mark.parametrize(
    ("width", "height"), [(13000, 13000), (100_000, 100_000), (2**31 - 1, 2**31 - 1), (MAX_PIXELS + 1, 1)]
)
def test_too_many_pixels_are_refused_before_they_are_decoded(tmp_path, monkeypatch, width, height):
    (tmp_path / "bomb.png").write_bytes(png_of(width, height))
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", lambda *_: pytest.fail("it was decoded"))
    with pytest.raises(ExampleError, match=r"bomb.png: has .*the most is 100,000,000; scale it down"):
        decode(tmp_path / "bomb.png", size=8)


def test_a_file_larger_than_any_picture_is_not_read(tmp_path):
    path = tmp_path / "a.webp"
    with path.open("wb") as file:
        file.write(b"RIFF\xff\xff\xff\x7fWEBP")
        file.truncate(1 << 31)
    with pytest.raises(ExampleError, match=r"a.webp: is larger than 1,024 MB"):
        decode(path)


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "nothing"])
def test_only_plain_files_are_opened(tmp_path, kind):
    path = tmp_path / "a.png"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    with pytest.raises(ExampleError, match=r"a.png: (is not a plain file|cannot be read)"):
        decode(path)


def test_a_picture_of_no_size_is_none(tmp_path):
    (tmp_path / "a.png").write_bytes(png_of(0, 4))
    with pytest.raises(ExampleError, match=r"a.png: cannot be decoded"):
        decode(tmp_path / "a.png")


def test_pictures_of_another_size_are_a_mistake_of_the_settings_not_of_the_picture(tmp_path):
    path = saved(tmp_path / "a.png", Image.new("RGB", (4, 4)))
    with pytest.raises(DataError, match="set size to resize") as told:
        ImageDecoder().decode(path, path, (5, 5), "first")
    assert not isinstance(told.value, ExampleError)


def test_from_memory_as_from_a_file(tmp_path):
    path = saved(tmp_path / "a.png", Image.new("RGB", (4, 4), (1, 2, 3)))
    buffer = io.BytesIO(path.read_bytes())
    assert ImageDecoder.original(buffer, "a")[:, 0, 0].tolist() == [1, 2, 3]
