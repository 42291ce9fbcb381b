"""What is promised about reliability and safety, tried: faults made on purpose, and how many of them were survived.

    python benchmarks/trust.py --json                   everything, about an hour on two cores
    python benchmarks/trust.py --quick                  a sample of each
    python benchmarks/trust.py --only kills --write     one part, its figures kept in benchmarks/results/trust.json

Figures come in pairs: how many were tried, and how many held (``identical``, ``whole``, ``clean``: as many as were
tried) or failed (``5xx``, ``unexpected``, ``executed``: none). The exit code is 1 where a pair misses that.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common import finish

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "trust.json"
PARTS = {  # module: what was tried, what became of it, and whether that should be all of them or none
    "plants": ("code_plants", "code_executed", False),
    "kills": ("kill_points", "kill_points_identical", True),
    "power": ("power_loss_points", "power_loss_whole", True),
    "hosts": ("host_faults", "host_faults_identical", True),
    "wrong_rows": ("mix_ups", "mix_ups_held", True),
    "inputs": ("bad_inputs", "bad_inputs_clean", True),
    "fuzz": ("fuzz_inputs", "fuzz_unexpected", False),
    "server": ("server_requests", "server_5xx", False),
}


def main() -> None:
    """Measure the parts asked for, one after another, and print their figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a sample of each part")
    parser.add_argument(
        "--only", action="append", choices=PARTS, help="this part; may be given several times"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as one line of JSON")
    parser.add_argument(
        "--write", action="store_true", help=f"keep the figures in {RESULTS.name}; not of --quick"
    )
    args = parser.parse_args()
    if args.quick and args.write:
        parser.error("--write: figures of --quick are not kept")
    figures: dict[str, int] = {}
    parts = args.only or list(PARTS)
    for part in parts:
        measured = measured_part(part, quick=args.quick)
        figures |= measured["figures"]
        if args.write:
            keep(part, measured)
    finish(figures, as_json=args.json)
    sys.exit(0 if all(holds(part, figures) for part in parts) else 1)


def measured_part(part: str, *, quick: bool) -> dict[str, Any]:
    """Figures and seconds of a part, measured in a process of its own: some limit their memory or watch imports."""
    print(f"{part} ...", file=sys.stderr, flush=True)
    program = f"import json; from faults.{part} import measure; print(json.dumps(measure(quick={quick})))"
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        cwd=HERE,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    figures: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    seconds = round(time.monotonic() - begun)
    print(f"{part}: {figures}, {seconds} s", file=sys.stderr, flush=True)
    return {"figures": figures, "seconds": seconds}


def holds(part: str, figures: Mapping[str, int]) -> bool:
    """Whether everything tried was survived, and something was tried."""
    tried, outcome, all_of_them = PARTS[part]
    return figures[tried] > 0 and figures[outcome] == (figures[tried] if all_of_them else 0)


def keep(part: str, measured: Mapping[str, Any]) -> None:
    """Put the figures of a part into the file of results, beside those of others."""
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()}"
    command = f"python benchmarks/trust.py --only {part} --write"
    kept[part] = {**measured, "command": command, "machine": machine}
    RESULTS.write_text(json.dumps({name: kept[name] for name in PARTS if name in kept}, indent=2) + "\n")


if __name__ == "__main__":
    main()
