"""The results file: appended, cut, put in order."""

import json

import pytest

from pencil.bench import read_results, write_parquet
from pencil.bench.results import ResultsFile, key_of
from pencil.errors import RunError


def line(method="pencil", seed=0, **values):
    return {"data": "d", "noise": "n", "method": method, "variant": "default", "seed": seed, **values}


def test_a_cut_last_line_is_left_out_and_cut_off_before_the_next(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text(json.dumps(line(seed=0)) + "\n" + '{"data": "d", "noi')
    assert read_results(path) == [line(seed=0)]
    ResultsFile(path).append(line(seed=1))
    assert read_results(tmp_path) == [line(seed=0), line(seed=1)]
    path.write_text('{"da')
    ResultsFile(path).append(line(seed=1))
    assert path.read_text() == json.dumps(line(seed=1)) + "\n"


def test_of_two_lines_for_a_cell_the_last_counts_and_lines_end_in_the_order_of_the_grid(tmp_path):
    results = ResultsFile(tmp_path / "results.jsonl")
    for each in (line("other"), line(seed=1, x=1), line(seed=0), line(seed=1, x=2)):
        results.append(each)
    ordered = results.put_in_order([key_of(line(seed=0)), key_of(line(seed=1))])
    assert ordered == [line(seed=0), line(seed=1, x=2), line("other")] == read_results(tmp_path)


def test_lines_of_other_settings_are_set_aside_and_used_again_with_their_settings(tmp_path):
    results = ResultsFile(tmp_path / "results.jsonl")
    old = [line(seed=seed, config_hash="old") for seed in range(3)]
    other = line("other", config_hash="any")  # of a cell that the grid does not have
    for each in (*old, line(seed=0, config_hash="new"), other):
        results.append(each)
    cells = [key_of(each) for each in old]
    assert results.set_aside(dict.fromkeys(cells, "new")) == 3
    assert read_results(tmp_path) == [line(seed=0, config_hash="new"), other]
    assert read_results(tmp_path / "outdated.jsonl") == old
    assert results.set_aside(dict.fromkeys(cells, "new")) == 0
    assert results.set_aside(dict.fromkeys(cells, "old")) == 1
    assert read_results(tmp_path) == [*old, other]
    assert results.set_aside(dict.fromkeys(cells, "newest")) == 3
    assert len((tmp_path / "outdated.jsonl").read_text().splitlines()) == 4  # each once


@pytest.mark.parametrize("text", ["1\n", "{}\n", "{\n", '{"data": 1}\n'])
def test_a_file_of_something_else_is_refused(tmp_path, text):
    (tmp_path / "some.jsonl").write_text(text)
    with pytest.raises(RunError, match="does not hold results of pencil bench"):
        read_results(tmp_path / "some.jsonl")
    with pytest.raises(RunError, match="no results there; give the folder that pencil bench wrote"):
        read_results(tmp_path)


def test_parquet_holds_the_same(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    lines = [line(seed=0, f1=None, environment={"cores": 2}), line(seed=1, f1=0.5, environment={})]
    write_parquet(tmp_path / "results.parquet", lines)
    found = parquet.read_table(tmp_path / "results.parquet").to_pylist()
    assert [{**each, "environment": json.loads(each["environment"])} for each in found] == lines


@pytest.mark.parametrize(
    "change",
    [{"noise": 1}, {"data": None}, {"seed": "0"}, {"method": ["a"]}, {"test_last": "high"}, {"seconds": [1]}],
)
def test_a_line_of_another_form_is_refused(tmp_path, change):
    line = {"data": "a", "noise": "n", "method": "m", "variant": "default", "seed": 0, "test_last": 0.5}
    (tmp_path / "results.jsonl").write_text(json.dumps(line | change) + "\n")
    with pytest.raises(RunError, match="does not hold results of pencil bench"):
        read_results(tmp_path)
