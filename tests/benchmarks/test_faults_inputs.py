"""Every case of bad or hostile data by the readers: it works, or one error names file, row and remedy, in bounds."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
try:
    from faults import inputs
finally:
    sys.path.pop(0)

CASES = {case.name: case for case in inputs.cases()}


@pytest.mark.parametrize("name", CASES)
def test_it_works_or_says_why_not(name):
    assert inputs.fault_of(CASES[name]) is None


@pytest.mark.parametrize(
    ("name", "change", "fault"),
    [
        ("image EPS as bad.png", {"expected": "works"}, "should work: .*bad.png"),
        ("image PNG RGB", {"expected": "error"}, "was read, but should be refused"),
        ("image EPS as bad.png", {"tells": "row 7"}, "does not tell 'row 7'"),
        ("image PNG RGB", {"write": lambda folder: 1 / 0}, None),
    ],
)
def test_a_case_that_ends_otherwise_is_a_fault(name, change, fault):
    case = replace(CASES[name], **change)
    if fault is None:
        with pytest.raises(ZeroDivisionError):  # a mistake of the case is not one of the package
            inputs.fault_of(case)
    else:
        assert re.match(fault, inputs.fault_of(case))


@pytest.mark.parametrize(
    ("limit", "fault"), [("SECONDS", r"took \d+\.\d s"), ("MEMORY", r"took \d+ MB"), ("read", "KeyError: 5")]
)
def test_time_memory_and_other_exceptions_are_faults(monkeypatch, limit, fault):
    case = replace(CASES["image PNG RGB"], name="any")

    def fail(*_):
        raise KeyError(5)

    monkeypatch.setattr(inputs, limit, fail if limit == "read" else -1)
    assert re.match(fault, inputs.fault_of(case))


def test_the_command_is_judged_by_its_one_line():
    case = CASES["image EPS as bad.png"]
    assert inputs._judge_output(case, 2, "error: b/bad.png: no; fix it\n") is None
    assert "ended with 1" in inputs._judge_output(case, 1, "Traceback (most recent call last)\n")
    assert "ended with 2" in inputs._judge_output(case, 2, "error: b/bad.png: no; x\nerror: again\n")
    assert "should be refused" in inputs._judge_output(case, 0, "")


def test_there_are_enough_cases_and_their_names_are_stable():
    assert len(CASES) >= 700
    assert not [name for name in CASES if "0x" in name or "/tmp" in name]
