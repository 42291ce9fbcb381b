"""The summary of what the tests covered."""

import pytest
from coverage import CoverageData

MODULE = """
def sign(number):
    if number < 0:
        return -1
    return 1
"""


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """A folder with the data of a run that took one of two branches: lines 2, 3 and 5."""
    (tmp_path / "halfway.py").write_text(MODULE)
    (tmp_path / ".coveragerc").write_text("[run]\nbranch = true\nsource = .\n[report]\nfail_under = 60\n")
    monkeypatch.chdir(tmp_path)
    data = CoverageData()
    module, sign = [(-1, 2), (2, -1)], [(-2, 3), (3, 5), (5, -2)]
    data.add_arcs({str(tmp_path / "halfway.py"): [*module, *sign]})
    data.write()
    return tmp_path


def test_lines_and_branches_are_shown_and_compared_with_the_floor(program, measured, capsys):
    covered = program("covered")
    assert covered.main() == 0
    told = capsys.readouterr().out
    assert "75.0 % (3 of 4) of lines, 50.0 % (1 of 2) of branches" in told
    assert "| halfway.py | 1 | 1 |" in (measured / "coverage.md").read_text()
    config = (measured / ".coveragerc").read_text()
    (measured / ".coveragerc").write_text(config.replace("60", "70"))
    assert covered.main() == 1
