"""What one of several ranks finds ends all of them under a real torchrun, and is printed once."""

import os
import subprocess
import sys
import threading

import pytest

from pencil.cli import ranks
from support.ranks import meeting_points, torchrun

pytestmark = pytest.mark.ranks

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
PROGRAM = """
import os
from pencil.algorithm import Pencil, Step
from pencil.cli import main

whole = Pencil.step

def spoilt(self, logits, rows, given, moment):
    found = whole(self, logits, rows, given, moment)
    return found if found.rows is None or moment.elapsed < 0.5 else Step(found.loss, found.rows / 0)

if os.environ["RANK"] == "1":  # its label rows reach no other rank
    Pencil.step = spoilt
main()
"""


def test_label_rows_of_one_rank_that_are_not_finite_end_all_with_one_line(points, tmp_path):
    program, out = tmp_path / "program.py", tmp_path / "run"
    program.write_text(PROGRAM)
    settings = ("train.batch_size=10", "checkpoint.steps=2", "method.label_rate=4.0", "store=dense")
    words = ("train", points, "--out", out, "--epochs", "1,6,1", "--quiet")
    command = [
        sys.executable,
        *torchrun(2),
        program,
        *words,
        *(word for each in settings for word in ("--set", each)),
    ]
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, env=ENVIRONMENT, timeout=240, check=False
    )
    assert done.returncode != 0
    errors = [line for line in done.stderr.splitlines() if line.startswith("error")]
    assert len(errors) == 1, done.stderr
    assert errors[0].startswith(
        "error: training stopped after step 14 (epoch 2, correction phase): the new label row"
    )
    assert errors[0].endswith("; the last checkpoint is of step 14")
    assert sorted(path.name for path in (out / "checkpoints").iterdir())[-2:] == [
        "step-0000000012",
        "step-0000000014",
    ]
    assert not (out / "summary.json").exists()


def test_one_process_waits_for_nobody(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setattr(ranks, "_store", pytest.fail)
    ranks.exit_after_main(2)
    with ranks.printing_for_all():
        pass


def test_other_ranks_exit_with_the_code_once_the_main_one_has_printed(monkeypatch):
    happened = []

    def other():
        try:
            ranks.exit_after_main(3)
        except SystemExit as end:
            happened.append(end.code)

    with meeting_points(1) as [point]:
        for name, value in {**point, "RANK": "1", "WORLD_SIZE": "2"}.items():
            monkeypatch.setenv(name, value)
        waiting = threading.Thread(target=other)
        waiting.start()
        with ranks.printing_for_all():
            happened.append("printed")
        waiting.join()
    assert happened == ["printed", 3]
