"""Every case of bad or hostile data by the readers: it works, or one error names file, row and remedy, in bounds."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
try:
    from faults import inputs
finally:
    sys.path.pop(0)

CASES = {case.name: case for case in inputs.cases()}


@pytest.mark.parametrize("name", CASES)
def test_it_works_or_says_why_not(name):
    assert inputs.fault_of(CASES[name]) is None
