"""Settings as TOML: too deep, too long, of wrong kinds, or no text at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from faults.bad_input import Case, Expected

GOOD = """
[data]
kind = "features"
path = "x.npz"
[model]
name = "linear"
[[phases]]
name = "backbone"
epochs = 1
learning_rate = 0.1
"""

TELLS = r"c\.toml|settings? (is|are) wrong:\n  [\w.]+: "
"""The error for text that is no TOML names the file, the one for a wrong value only the field."""
TEXTS: dict[str, bytes] = {
    "empty": b"",
    "of 50,000 dots": b"a" + b".a" * 50_000 + b" = 1\n",
    "of 50,000 dotted tables": b"[a" + b".a" * 50_000 + b"]\nb = 1\n",
    "of deep lists": b"a = " + b"[" * 100_000 + b"]" * 100_000,
    "of deep tables": b"a = " + b"{b=" * 100_000 + b"1" + b"}" * 100_000,
    "of an open list": b"a = " + b"[" * 100_000,
    "of 5,000 digits": b"seed = " + b"9" * 5000,
    "of a float without end": b"seed = " + b"9" * 5000 + b".0",
    "of NaN": b"seed = nan",
    "of infinity": b"seed = inf",
    "of a date": b"seed = 2020-01-01",
    "with a key twice": b"seed = 1\nseed = 2\n",
    "with an unknown key": GOOD.encode() + b"colour = 1\n",
    "cut": GOOD.encode()[:-30] + b'"',
    "no text": b"\xff\xfe\xfd",
    "in UTF-16": GOOD.encode("utf-16"),
    "in bytes": bytes(range(256)),
    "of zeros": bytes(1000),
    "JSON": b'{"seed": 1}',
    "with escapes in a key": b'"\\u001b[2J" = 1\n',
    "with escapes in a value": b'seed = "\\u001b[31m=1+2"\n',
}


def cases() -> Iterator[Case]:
    """All cases of settings."""
    yield _case("whole", GOOD.encode(), "works")
    yield _case("whole with Windows' lines", GOOD.replace("\n", "\r\n").encode(), "works")
    for name, content in TEXTS.items():
        yield _case(name, content, "error")

    def pipe(folder: Path) -> Path:
        os.mkfifo(folder / "c.toml")
        return folder / "c.toml"

    yield Case("settings a pipe", pipe, "error", "c.toml", "settings")


def _case(name: str, content: bytes, expected: Expected) -> Case:
    def write(folder: Path) -> Path:
        (folder / "c.toml").write_bytes(content)
        return folder / "c.toml"

    return Case(f"settings {name}", write, expected, TELLS, "settings")
