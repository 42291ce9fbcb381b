"""What the benchmarks share: where the data is, how they end."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"


def data_folder() -> Path:
    """The folder PENCIL_DATA names; without it the benchmark ends with a message and exit code 0."""
    folder = os.environ.get("PENCIL_DATA")
    if not folder or not Path(folder).is_dir():
        print("skipped: PENCIL_DATA does not name a folder with the data sets", file=sys.stderr)
        sys.exit(0)
    return Path(folder)


def cifar10_folder(cache: Path) -> Path:
    """CIFAR-10 in the official binary layout, unpacked into ``cache`` once."""
    if not (cache / "cifar-10-batches-bin").is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [sys.executable, str(data_folder() / "unpack.py"), str(cache)], check=True, stdout=sys.stderr
        )
    return cache


def followed(problems: Iterable[str], what: str) -> list[str]:
    """All problems, "" for none, while each is told as it comes, with how far it is."""
    found: list[str] = []
    for problem in problems:
        found.append(problem)
        told = problem or f"{found.count('')} of {len(found)} {what}"
        print(told, file=sys.stderr, flush=True)
    return found


def write_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Record these lines in place of what the file has; a kill leaves the old ones."""
    new = path.with_name(f"{path.name}.new")
    new.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    new.replace(path)


def finish(figures: Mapping[str, float], *, as_json: bool) -> None:
    """Print the figures: the last line, for machines or for people."""
    if as_json:
        print(json.dumps({"figures": figures}))
    else:
        for name, value in figures.items():
            print(f"{name:<32} {value}")


def between_marks(page: str, tables: str) -> str:
    """The page with these tables between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}"


def measure_by_command(measure: Callable[..., Mapping[str, float]], about: str | None) -> None:
    """Measure as the command line says, and print the figures."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    finish(measure(quick=arguments.quick, seed=arguments.seed), as_json=arguments.json)
