"""``pencil example``."""

import csv


def test_the_command_tells_what_is_next(tmp_path, main_program):
    code, _, told = main_program("example", "table", "--out", tmp_path / "a b", "--rows", "60")
    assert code == 0
    assert f"next: pencil train '{tmp_path}/a b/table.csv' --out '{tmp_path}/a b/run'" in told
    with (tmp_path / "a b" / "truth.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 60
