"""Pictures of every kind, damaged ones, and files that only claim to be pictures."""

from __future__ import annotations

import functools
import io
import os
import socket
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from faults.bad_input import Case, Expected

SETTINGS = ("size=8", "augment.crop=8")
Put = Callable[[Path], object]
"""Makes the picture in question at a path."""


def cases() -> Iterator[Case]:
    """All cases of images: a folder of good ones, and one that is special."""
    for source in (_modes, _kinds, _turns, _names, _truncated, _strangers, _bombs, _odd_files):
        yield from source()


def _case(name: str, put: Put, expected: Expected, file: str = "bad.png", tells: str | None = None) -> Case:
    def write(folder: Path) -> Path:
        for kind, shade in (("a", 40), ("b", 200)):
            (folder / kind).mkdir()
            for number in range(2):
                Image.new("RGB", (9, 7), (shade, number, 0)).save(folder / kind / f"{number}.png")
        put(folder / "b" / file)
        return folder

    return Case(f"image {name}", write, expected, f"b/{file}" if tells is None else tells, settings=SETTINGS)


def _encoded(image: Any, form: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def _noise(mode: str = "RGB") -> Any:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)
    return Image.fromarray(pixels).convert(mode)


def _putting(content: bytes) -> Put:
    return lambda path: path.write_bytes(content)


SUFFIX = {
    "BMP": "bmp",
    "GIF": "gif",
    "JPEG": "jpg",
    "PNG": "png",
    "PPM": "ppm",
    "TIFF": "tif",
    "WEBP": "webp",
}
MODES = {
    "BMP": ("1", "L", "P", "RGB", "RGBA"),
    "GIF": ("L", "P", "RGB"),
    "JPEG": ("L", "RGB", "CMYK"),
    "PNG": ("1", "L", "LA", "P", "RGB", "RGBA"),
    "PPM": ("1", "L", "RGB"),
    "TIFF": ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "LAB"),
    "WEBP": ("L", "RGB", "RGBA"),
}


def _modes() -> Iterator[Case]:
    for form, modes in MODES.items():
        for mode in modes:
            content = _encoded(_noise(mode), form)
            yield _case(f"{form} {mode}", _putting(content), "works", f"x.{SUFFIX[form]}")
    frames = [_noise(), _noise("L").convert("RGB")]
    for form in ("GIF", "PNG", "TIFF", "WEBP"):
        content = _encoded(frames[0], form, save_all=True, append_images=frames[1:])
        yield _case(f"{form} of several pictures", _putting(content), "works", f"x.{SUFFIX[form]}")
    grey = Image.fromarray(np.arange(64, dtype=np.uint16).reshape(8, 8) * 1000)
    for form in ("PNG", "TIFF", "PPM"):
        yield _case(f"{form} 16 bits", _putting(_encoded(grey, form)), "works", f"x.{SUFFIX[form]}")
    for mode in ("F", "I"):
        content = _encoded(Image.new(mode, (8, 8), 1), "TIFF")
        yield _case(f"TIFF {mode} 32 bits", _putting(content), "error", "bad.tif")


def _kinds() -> Iterator[Case]:
    transparent = _encoded(_noise("P"), "PNG", transparency=3)
    yield _case("PNG transparent palette", _putting(transparent), "works")
    for name, colour in (("RGB", 2), ("RGBA", 6), ("LA", 4)):
        width = {2: 6, 6: 8, 4: 4}[colour]
        lines = (b"\0" + bytes(range(width * 4))) * 4
        yield _case(f"PNG {name} 16 bits", _putting(png(4, 4, 16, colour, lines)), "works")
    for form, options in (("JPEG", {"progressive": True}), ("TIFF", {"compression": "tiff_lzw"})):
        yield _case(
            f"{form} {next(iter(options))}",
            _putting(_encoded(_noise(), form, **options)),
            "works",
            f"x.{SUFFIX[form]}",
        )
    for size in ((1, 1), (1, 5000), (5000, 1)):
        yield _case(f"of {size[0]} x {size[1]}", _putting(_encoded(Image.new("RGB", size), "PNG")), "works")
    yield _case("JPEG named png", _putting(_encoded(_noise(), "JPEG")), "works")


def _turns() -> Iterator[Case]:
    for form in ("JPEG", "PNG", "WEBP"):
        for turn in (*range(1, 9), 0, 99):
            notes = Image.Exif()
            notes[0x0112] = turn
            content = _encoded(_noise(), form, exif=notes)
            yield _case(f"{form} turned {turn}", _putting(content), "works", f"x.{SUFFIX[form]}")
    for name, content in (
        ("cut", b"Exif\0\0II*\0"),
        ("wild", b"Exif\0\0MM\0*\xff\xff\xff\xff" + bytes(range(99))),
    ):
        yield _case(
            f"JPEG notes {name}", _putting(_encoded(_noise(), "JPEG", exif=content)), "works", "x.jpg"
        )


def _names() -> Iterator[Case]:
    names = {
        "letters": "ä ö 猫.png",
        "escapes": "\x1b[2J\x1b]0;x\x07.png",
        "a formula": "=1+2.png",
        "a command": "=cmd|' '!A0.png",
        "a line": "one\ntwo.png",
        "a dash": "-rf.png",
        "dots": "a..b...png",
        "no text": os.fsdecode(b"\xff\xfe.png"),
        "markup": "<script>alert(1)<script>.png",
        "capitals": "X.PNG",
    }
    for name, file in names.items():
        yield _case(f"named by {name}", _putting(_encoded(_noise(), "PNG")), "works", file)


def _truncated() -> Iterator[Case]:
    for form, suffix in SUFFIX.items():
        content = _encoded(_noise(), form)
        for quarter in range(4):
            cut = content[: len(content) * quarter // 4]
            yield _case(f"{form} cut to {quarter} quarters", _putting(cut), "error", f"bad.{suffix}")
        flipped = bytearray(content)
        for place in range(len(content) // 2, len(content) // 2 + 8):
            flipped[place] ^= 0xFF
        yield _case(f"{form} with flipped bytes", _putting(bytes(flipped)), "either", f"bad.{suffix}")


STRANGERS = {
    "EPS": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 99 99\n%%EndComments\n(%pipe%id) (r) file\nshowpage\n",
    "PostScript": b"%!PS-Adobe-3.0\nshowpage\n",
    "SVG": b"<svg xmlns='http://www.w3.org/2000/svg'><image href='file:///etc/hostname'/></svg>",
    "PDF": b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n",
    "PSD": b"8BPS\0\1" + bytes(40),
    "WMF": b"\xd7\xcd\xc6\x9a" + bytes(60),
    "ICO": b"\0\0\1\0\1\0" + bytes(60),
    "TGA": bytes(2) + b"\2" + bytes(15) + bytes(60),
    "FITS": b"SIMPLE  =                    T" + b" " * 50,
    "HTML": b"<!doctype html><title>404</title>",
    "JSON": b'{"error": "not found"}',
    "a pickle": b"cos\nsystem\n(S'true'\ntR.",
    "a zip": b"PK\3\4" + bytes(60),
    "zeros": bytes(5000),
    "nothing": b"",
    "a byte": b"\x89",
    "a line": b"cat\n",
}


def _strangers() -> Iterator[Case]:
    for name, content in STRANGERS.items():
        for file in ("bad.png", "bad.jpg", "bad.tif"):
            yield _case(f"{name} as {file}", _putting(content), "error", file)


def png(width: int, height: int, depth: int, colour: int, lines: bytes, *more: tuple[bytes, bytes]) -> bytes:
    """A PNG file that says what it is told to say."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return _png_of((b"IHDR", header), *more, (b"IDAT", zlib.compress(lines)), (b"IEND", b""))


def _png_of(*parts: tuple[bytes, bytes]) -> bytes:
    chunks = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


@functools.cache
def packed_zeros(megabytes: int) -> bytes:
    """Zeros, packed by a thousand."""
    packer, block = zlib.compressobj(1), bytes(1 << 20)
    return b"".join(packer.compress(block) for _ in range(megabytes)) + packer.flush()


def _tiff(width: int, height: int) -> bytes:
    """A TIFF header of grey pixels in one strip that is not there."""
    fields = (
        *((256, 4, width), (257, 4, height), (258, 3, 8), (259, 3, 1), (262, 3, 1)),
        *((273, 4, 8), (277, 3, 1), (278, 4, height), (279, 4, 9)),
    )
    entries = b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in fields)
    return b"II*\0" + struct.pack("<IH", 8, len(fields)) + entries + bytes(4)


GREY = b"\0\1\2\3\4" * 4
_BMP = "<IIIIiiHHIIiiII"
_HEADER = (b"IHDR", struct.pack(">IIBBBBB", 13_000, 13_000, 8, 0, 0, 0, 0))
BOMBS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "PNG of 169 megapixels": ("png", lambda: _png_of(_HEADER, (b"IDAT", packed_zeros(162)), (b"IEND", b""))),
    "PNG of 10 gigapixels": ("png", lambda: png(100_000, 100_000, 8, 2, b"")),
    "PNG of all pixels": ("png", lambda: png(2**31 - 1, 2**31 - 1, 16, 6, b"")),
    "GIF of 65535 x 65535": (
        "gif",
        lambda: (
            b"GIF89a"
            + struct.pack("<HHBBB", 65535, 65535, 0xF0, 0, 0)
            + bytes(6)
            + b","
            + struct.pack("<HHHHBB", 0, 0, 65535, 65535, 0, 2)
            + b"\2L\1\0;"
        ),
    ),
    "BMP of 60000 x 60000": (
        "bmp",
        lambda: b"BM" + struct.pack(_BMP, 99, 0, 54, 40, 60000, 60000, 1, 24, 0, 0, 0, 0, 0, 0),
    ),
    "TIFF of 99999 x 99999": ("tif", lambda: _tiff(99_999, 99_999)),
    "TIFF of 12000 x 12000": ("tif", lambda: _tiff(12_000, 12_000)),
    "PPM of 99999 x 99999": ("ppm", lambda: b"P6 99999 99999 255\n"),
    "PPM of many digits": ("ppm", lambda: b"P6 " + b"9" * 5000 + b" 9 255\n"),
    "JPEG of 65535 x 65535": (
        "jpg",
        lambda: b"\xff\xd8\xff\xc0\0\x0b\x08\xff\xff\xff\xff\1\1\x11\0\xff\xda\0\x08\1\1\0\0?\0",
    ),
}
PACKED: dict[str, Callable[[], bytes]] = {
    "text": lambda: png(4, 4, 8, 0, GREY, (b"zTXt", b"a\0\0" + packed_zeros(162))),
    "a profile": lambda: png(4, 4, 8, 0, GREY, (b"iCCP", b"a\0\0" + packed_zeros(162))),
    "lines without end": lambda: _png_of(
        (b"IHDR", struct.pack(">IIBBBBB", 4, 4, 8, 0, 0, 0, 0)), (b"IDAT", packed_zeros(162)), (b"IEND", b"")
    ),
}


def _bombs() -> Iterator[Case]:
    for name, (suffix, content) in BOMBS.items():
        yield _case(f"bomb: {name}", _making(content), "error", f"bad.{suffix}")
    for name, content in PACKED.items():
        yield _case(f"bomb: PNG of {name}", _making(content), "either")
    nothing = {
        "png": png(0, 9, 8, 0, b""),
        "bmp": b"BM" + struct.pack(_BMP, 54, 0, 54, 40, 0, 0, 1, 24, 0, 0, 0, 0, 0, 0),
        "ppm": b"P6 0 0 255\n",
        "tif": _tiff(0, 0),
    }
    for suffix, data in nothing.items():
        yield _case(f"{suffix} of no size", _putting(data), "error", f"bad.{suffix}")


def _making(content: Callable[[], bytes]) -> Put:
    return lambda path: path.write_bytes(content())


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b"RIFF\xff\xff\xff\x7fWEBPVP8 ")
        file.truncate(3 << 30)


def _odd_files() -> Iterator[Case]:
    def outside(path: Path) -> None:
        far = path.parents[2] / "outside.png"
        far.write_bytes(_encoded(_noise(), "PNG"))
        path.symlink_to(far)

    def listening(path: Path) -> None:
        with socket.socket(socket.AF_UNIX) as server:
            here = Path.cwd()
            os.chdir(path.parent)  # names of sockets are short
            try:
                server.bind(path.name)
            finally:
                os.chdir(here)

    yield _case("a pipe", os.mkfifo, "error")
    yield _case("a device", lambda path: path.symlink_to("/dev/zero"), "error")
    yield _case("a random device", lambda path: path.symlink_to("/dev/urandom"), "error")
    yield _case("a socket", listening, "error")
    yield _case("a folder", Path.mkdir, "error", tells=r"b: contains the folder bad.png")
    yield _case("a link out of the tree", outside, "works")
    yield _case("a link to nothing", lambda path: path.symlink_to("gone.png"), "error")
    yield _case("a link to itself", lambda path: path.symlink_to(path.name), "error")
    yield _case("a file of 3 GB", _sparse, "error", "bad.webp")
