"""The data people have, by the commands that people type: image files, text, a table, photos of all sizes, new rows.

    python benchmarks/real_data.py --json            about twenty-five minutes on two cores
    python benchmarks/real_data.py --json --quick    about two minutes: fewer rows, nothing kept
    python benchmarks/real_data.py --only text       one part; may be repeated
    python benchmarks/real_data.py --write           the kept figures into docs/real-data.md

Needs PENCIL_DATA and ``pip install 'pencil-labels[embed]'``. Each part writes files as a user has them, runs ``pencil``
as a user would, and compares labels and predictions with the truth, which no command sees. Results are kept in
benchmarks/results/real_data.json. The parts are in ``real_data_parts``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from common import between_marks, data_folder, finish
from duplicates import FILE, figures
from real_data_parts import Commands, features, finetuning, folder, photos, table, text

RESULTS = Path(__file__).parent / "results" / "real_data.json"
PAGE = Path(__file__).parents[1] / "docs" / "real-data.md"
PARTS = ("folder", "features", "finetune", "text", "table", "photos", "duplicates")


def main() -> None:
    """Measure the parts that are asked for, then print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer rows; nothing is kept")
    parser.add_argument("--json", action="store_true", help="print the figures as one line of JSON")
    parser.add_argument("--only", action="append", choices=PARTS, help="may be repeated; all by default")
    parser.add_argument("--write", action="store_true", help=f"write the kept figures into docs/{PAGE.name}")
    arguments = parser.parse_args()
    if arguments.write:
        told = "\n".join(tables(json.loads(RESULTS.read_text())))
        PAGE.write_text(between_marks(PAGE.read_text(encoding="utf-8"), told), encoding="utf-8")
        return
    data_folder()
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() and not arguments.quick else {}
    for part in arguments.only or PARTS:
        found = measured(part, quick=arguments.quick)
        print(json.dumps({part: found}), file=sys.stderr, flush=True)
        kept |= found
        if not arguments.quick:
            RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    finish(kept, as_json=arguments.json)


def tables(kept: dict[str, float]) -> list[str]:
    """The figures as Markdown."""
    rows = (
        ("images as files, pretrained network", "folder", ""),
        ("the same from scratch", "folder_scratch", "folder"),
        ("questions, pretrained encoder", "text", ""),
        ("questions, hashed n-grams", "text_ngrams", ""),
        ("a table", "table", ""),
    )
    lines = ["| data | right labels, %: given → suggested | test accuracy, % |", "|---|---|---|"]
    for words, name, given in rows:
        before, after = kept[f"{given or name}_labels_before"], kept[f"{name}_labels_after"]
        lines.append(f"| {words} | {before} → {after} | {kept[f'{name}_test']} |")
    return [
        *lines,
        "",
        "| figure | |",
        "|---|---|",
        *(f"| `{name}` | {value} |" for name, value in kept.items()),
    ]


def measured(part: str, *, quick: bool) -> dict[str, float]:
    """The figures of one part, with a cache of features of its own."""
    if part == "duplicates":
        return figures(data_folder() / FILE, quick=quick)
    with tempfile.TemporaryDirectory(prefix="real-data-") as place:
        os.environ["PENCIL_CACHE"] = str(Path(place) / "cache")
        commands = Commands(Path(place))
        parts = {
            "folder": folder,
            "features": features,
            "finetune": finetuning,
            "text": text,
            "table": table,
            "photos": photos,
        }
        return parts[part](commands, quick=quick)


if __name__ == "__main__":
    main()
