"""Damaged copies of files, drawn by seed: blindly byte by byte, and by what a format is made of.

A blind change is mostly refused by the first check of a reader. Where a format has lengths or checksums, changes are
also made inside and the rest is put right again, so that they get past it.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence
from typing import Any

NUMBERS = (0, 1, -1, 2, 7, 255, 256, 65535, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, -(2**63), 10**30)
TEXTS = (
    "",
    "0",
    "-1",
    "nan",
    "inf",
    "1e309",
    "null",
    "\x00",
    "\x1b[2J",
    "é",
    "\ud800",
    "../x",
    "=1+1",
    "a" * 300,
)
WORDS = (
    b"",
    b"\0",
    b"\xff" * 8,
    b"\n",
    b",",
    b'"',
    b"{",
    b"[" * 2000,
    b"9" * 5000,
    b"a." * 40,
    b"nan",
    b"-1",
    b"1e999",
)
LEAVES: tuple[Any, ...] = (
    None,
    True,
    0.5,
    float("nan"),
    float("inf"),
    *NUMBERS,
    *TEXTS,
    [],
    {},
    [[]],
    [0] * 50,
)
Draw = random.Random
Change = Callable[[bytes, Draw], bytes]


def flipped(content: bytes, draw: Draw) -> bytes:
    """Some bits turned."""
    changed = bytearray(content or b"\0")
    for _ in range(draw.choice((1, 1, 2, 4, 16))):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def cut(content: bytes, draw: Draw) -> bytes:
    """The beginning alone, or a part left out."""
    begin = draw.randrange(len(content) + 1)
    return (
        content[:begin]
        if draw.random() < 0.5
        else content[:begin] + content[draw.randint(begin, len(content)) :]
    )


def spliced(content: bytes, draw: Draw) -> bytes:
    """A part copied over or into another place."""
    begin, place = draw.randrange(len(content) + 1), draw.randrange(len(content) + 1)
    part = content[begin : begin + draw.choice((1, 4, 16, 64, 512))]
    return (
        content[:place] + part * draw.choice((1, 1, 2, 20)) + content[place + draw.choice((0, len(part))) :]
    )


def inserted(content: bytes, draw: Draw) -> bytes:
    """A number or a word that readers trip over, put in or over what was there."""
    place = draw.randrange(len(content) + 1)
    if draw.random() < 0.5:
        word = draw.choice(WORDS)
    else:
        form = draw.choice(("<H", ">H", "<I", ">I", "<Q", ">Q"))
        word = struct.pack(form, draw.choice(NUMBERS) % (1 << 8 * struct.calcsize(form)))
    return content[:place] + word + content[place + draw.choice((0, len(word))) :]


BLIND: tuple[Change, ...] = (flipped, cut, spliced, inserted)


def blind(content: bytes, draw: Draw) -> bytes:
    """One of the changes that know nothing of a format, or several."""
    for _ in range(draw.choice((1, 1, 1, 2, 5))):
        content = draw.choice(BLIND)(content, draw)
    return content


def tree(value: Any, draw: Draw, depth: int = 0) -> Any:
    """A JSON value with something in it replaced, left out, renamed, doubled or buried."""
    inside = isinstance(value, dict | list) and value and depth < 8
    if inside and draw.random() < 0.8:
        changed: Any = dict(value) if isinstance(value, dict) else list(value)
        place = draw.choice(list(changed)) if isinstance(changed, dict) else draw.randrange(len(changed))
        match draw.randrange(8):
            case 0:
                del changed[place]
            case 1 if isinstance(changed, dict):
                changed[draw.choice(TEXTS)] = changed.pop(place)
            case 1:
                changed.append(changed[place])
            case _:
                changed[place] = tree(changed[place], draw, depth + 1)
        return changed
    return _buried(value, draw) if draw.random() < 0.1 else draw.choice(LEAVES)


def _buried(value: Any, draw: Draw) -> Any:
    for _ in range(draw.choice((1, 5, 150))):
        value = [value] if draw.random() < 0.5 else {"a": value}
    return value


def json_text(content: bytes, draw: Draw) -> bytes:
    """A change inside a JSON text; now and then one that only text can have."""
    if draw.random() < 0.05:
        return draw.choice(
            (b"[" * 100_000, b'{"a":' * 50_000, b"9" * 5000, b'{"a":1,"a":[]}', b"\xef\xbb\xbf" + content)
        )
    return json.dumps(tree(json.loads(content), draw), ensure_ascii=draw.random() < 0.5).encode(
        "utf-8", "surrogatepass"
    )


def json_lines(content: bytes, draw: Draw) -> bytes:
    """A change inside one of the lines."""
    lines = content.splitlines()
    lines[draw.randrange(len(lines))] = json_text(draw.choice(lines), draw)
    return b"\n".join(lines) + draw.choice((b"\n", b"\n", b""))


def table_text(content: bytes, draw: Draw) -> bytes:
    """A change in the cells, rows, separators or ends of lines of a table."""
    rows = [line.split(b",") for line in content.split(b"\n")]
    row = draw.choice(rows)
    match draw.randrange(7):
        case 0:
            row.append(draw.choice(WORDS))
        case 1:
            rows.insert(draw.randrange(len(rows)), list(row))
        case 2 if len(row) > 1:
            row.pop(draw.randrange(len(row)))
        case 3:
            separator, end = (
                draw.choice((b";", b"\t", b" ", b",,")),
                draw.choice((b"\r", b"\r\n", b"\n\n", b"\0")),
            )
            return end.join(separator.join(cells) for cells in rows)
        case _:
            row[draw.randrange(len(row))] = draw.choice(
                (*WORDS, *(text.encode("utf-8", "replace") for text in TEXTS))
            )
    return b"\n".join(b",".join(cells) for cells in rows)


_TOKEN = re.compile(rb'"[^"\n]*"|[\w.+-]+|[\[\]{}=,]')
_TOKENS = (
    *WORDS,
    b"true",
    b"[]",
    b"{}",
    b"[[x]]",
    b"1979-05-27T07:32:00Z",
    b"0x7f",
    b'"""',
    b"nan",
    b"-inf",
    b"9" * 30,
)


def toml_text(content: bytes, draw: Draw) -> bytes:
    """A change of a token or a line of a TOML text."""
    if draw.random() < 0.3:
        lines = content.split(b"\n")
        place = draw.randrange(len(lines))
        lines[place : place + 1] = draw.choice(
            ([], [lines[place]] * 2, [draw.choice(lines)], [draw.choice(_TOKENS)])
        )
        return b"\n".join(lines)
    tokens = list(_TOKEN.finditer(content))
    if not tokens:
        return blind(content, draw)
    chosen = draw.choice(tokens)
    other = draw.choice((*_TOKENS, *(str(number).encode() for number in NUMBERS), draw.choice(tokens)[0]))
    return content[: chosen.start()] + other + content[chosen.end() :]


def npy(content: bytes, draw: Draw) -> bytes:
    """A change in the header of an array, its length put right."""
    size = struct.unpack_from("<H", content, 8)[0]
    header, data = content[10 : 10 + size], content[10 + size :]
    header = draw.choice((toml_text, _header, _header))(header, draw)
    return content[:8] + struct.pack("<H", len(header) % 65536) + header + data


def _header(header: bytes, draw: Draw) -> bytes:
    kinds = (
        b"'|O'",
        b"'<f4'",
        b"'>f8'",
        b"'<U9'",
        b"'|V0'",
        b"'<M8[s]'",
        b"[('a', '<f4')]",
        b"'<f4,'",
        b"'|b1'",
        b"'<i8'",
    )
    shapes = (
        b"()",
        b"(0,)",
        b"(-1,)",
        b"(9223372036854775807, 9)",
        b"(3, 2)",
        b"(True,)",
        b"(1e3,)",
        b"(" * 90,
        b"(2, 0, 3)",
    )
    header = (
        re.sub(rb"'descr': [^,]*,", b"'descr': " + draw.choice(kinds) + b",", header)
        if draw.random() < 0.5
        else header
    )
    return (
        re.sub(rb"'shape': \([^)]*\)", b"'shape': " + draw.choice(shapes), header)
        if draw.random() < 0.6
        else header
    )


def zipped(inner: Change) -> Change:
    """A change inside one member of a zip file, which is written anew."""

    def change(content: bytes, draw: Draw) -> bytes:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        name = draw.choice(list(members))
        if draw.random() < 0.2:
            members[draw.choice(("x.npy", "../x.npy", "", name + "\0"))] = members.pop(name)
        else:
            members[name] = inner(members[name], draw)
        target = io.BytesIO()
        with zipfile.ZipFile(target, "w", draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
            for each, value in members.items():
                archive.writestr(zipfile.ZipInfo(each or "_"), value)
        return target.getvalue()

    return change


def gzipped(content: bytes, draw: Draw) -> bytes:
    """A change inside what is packed, or zeros without end in its place."""
    if draw.random() < 0.02:
        return gzip.compress(gzip.decompress(content) + bytes(1 << 24), 1)
    return gzip.compress(blind(gzip.decompress(content), draw), 1, mtime=0)


def png(content: bytes, draw: Draw) -> bytes:
    """A change inside a chunk of a PNG, its length and checksum put right."""
    chunks, place = [], 8
    while place + 12 <= len(content):
        size = struct.unpack_from(">I", content, place)[0]
        chunks.append((content[place + 4 : place + 8], content[place + 8 : place + 8 + size]))
        place += 12 + size
    if not chunks:
        return blind(content, draw)
    index = draw.randrange(len(chunks))
    kind, data = chunks[index]
    kind = draw.choice((kind, kind, kind, b"tRNS", b"iCCP", b"acTL", b"eXIf", b"PLTE", b"zTXt"))
    chunks[index] = (kind, _packed(data, draw) if kind == b"IDAT" else blind(data, draw))
    return content[:8] + b"".join(_chunk(kind, data) for kind, data in chunks)


def _packed(data: bytes, draw: Draw) -> bytes:
    return zlib.compress(blind(zlib.decompress(data), draw), 1) if draw.random() < 0.5 else blind(data, draw)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


_FIELDS = ((0, 100), (100, 8), (124, 12), (136, 12), (156, 1), (157, 100), (257, 8), (345, 155))


def tar(content: bytes, draw: Draw) -> bytes:
    """A change in a field of a tar header, its checksum put right."""
    blocks = [
        place for place in range(0, len(content) - 511, 512) if content[place + 257 : place + 262] == b"ustar"
    ]
    if not blocks:
        return blind(content, draw)
    begin = draw.choice(blocks)
    start, size = draw.choice(_FIELDS)
    types = (b"0", b"1", b"2", b"3", b"5", b"6", b"L", b"K", b"S", b"x", b"g", b"\0", b"Z")
    values = (
        types
        if size == 1
        else (b"", b"7" * size, b"../../x", b"/x", b"a.cls", b"\x80" + b"\xff" * size, b"-1", b"\xff" * 9)
    )
    header = bytearray(content[begin : begin + 512])
    header[start : start + size] = draw.choice(values)[:size].ljust(size, b"\0")
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return content[:begin] + bytes(header) + content[begin + 512 :]


def safetensors(content: bytes, draw: Draw) -> bytes:
    """A change in the header of a safetensors file, its length put right."""
    size = struct.unpack_from("<Q", content)[0]
    header = json.loads(content[8 : 8 + size])
    name = draw.choice(list(header))
    match draw.randrange(4):
        case 0:
            header[name] = dict(
                header[name], dtype=draw.choice(("F32", "I64", "BOOL", "U8", "F16", "BF16", "I16", "F8_E4M3"))
            )
        case 1:
            header[draw.choice(("row", "given", "ids", "rows/values", "x"))] = header.pop(name)
        case 2:
            other = header[draw.choice(list(header))]
            header[name] = dict(header[name], shape=other["shape"], data_offsets=other["data_offsets"])
        case _:
            header = tree(header, draw)
    text = json.dumps(header).encode()
    data = blind(content[8 + size :], draw) if draw.random() < 0.2 else content[8 + size :]
    return struct.pack("<Q", len(text)) + text + data


_SAVED = re.compile(rb"K[\x00-\xff]|X[\x00-\xff]{4}|[}\])(t.eusRqh]")


def pickled(content: bytes, draw: Draw) -> bytes:
    """An opcode of a pickle replaced by another."""
    found = list(_SAVED.finditer(content))
    if not found:
        return blind(content, draw)
    chosen = draw.choice(found)
    codes = (
        b"N",
        b"}",
        b"]",
        b")",
        b"0",
        b"2",
        b"K\xff",
        b"\x8a\x01\xff",
        b"R",
        b"b",
        b"s",
        b"u",
        b"e",
        b"a",
        b"\x93",
        b"G" + b"\x7f" * 8,
    )
    return content[: chosen.start()] + draw.choice(codes) + content[chosen.end() :]


def mutated(seeds: Sequence[bytes], changes: Sequence[Change], draw: Draw) -> bytes:
    """A damaged copy of one of the seeds: by what it is made of, or blindly, or both."""
    content = draw.choice(seeds)
    if changes and draw.random() < 0.75:
        try:
            content = draw.choice(changes)(content, draw)
        except (ValueError, LookupError, TypeError, RecursionError, struct.error, zlib.error, AttributeError):
            return blind(content, draw)  # a seed of another kind
        if draw.random() < 0.8:
            return content
    return blind(content, draw)
