#!/usr/bin/env python3
"""Shows what the tests covered: lines and branches of the package, and the files with the most that was not run.

The table goes to the screen and, as Markdown, to ``coverage.md``. The exit code is 1 below the floor that
``pyproject.toml`` sets.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from coverage import Coverage

SHOWN = 15


def main() -> int:
    """Read the data of the last run, show it, and compare it with the floor."""
    coverage = Coverage()
    coverage.load()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        percent = coverage.json_report(outfile=file.name)
        found = json.loads(Path(file.name).read_text(encoding="utf-8"))
    text = table(found)
    Path("coverage.md").write_text(text, encoding="utf-8")
    print(text)
    floor = float(str(coverage.get_option("report:fail_under")))
    print(f"{percent:.2f} % of lines and branches together; the floor is {floor:g} %")
    return int(percent < floor)


def table(found: dict[str, Any]) -> str:
    """Totals, and the files with the most lines and branches that were not run, as Markdown."""
    totals = found["totals"]
    lines = _share(totals["covered_lines"], totals["num_statements"])
    branches = _share(totals["covered_branches"], totals["num_branches"])
    out = io.StringIO()
    out.write(f"Coverage: {lines} of lines, {branches} of branches\n\n")
    out.write("| file | lines not run | branches not taken |\n|---|---|---|\n")
    summaries = ((name, entry["summary"]) for name, entry in found["files"].items())
    for name, summary in sorted(summaries, key=_missing, reverse=True)[:SHOWN]:
        out.write(f"| {name} | {summary['missing_lines']} | {summary['missing_branches']} |\n")
    return out.getvalue()


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} % ({part} of {whole})"


def _missing(file: tuple[str, dict[str, int]]) -> int:
    return file[1]["missing_lines"] + file[1]["missing_branches"]


if __name__ == "__main__":
    sys.exit(main())
