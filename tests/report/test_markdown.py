"""The summary in Markdown, and the charts as files."""

import re
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from pencil.errors import ConfigError
from pencil.report import gather, write_figures, write_markdown
from pencil.report.markdown import code, escaped, markdown
from pencil.report.words import headline
from pencil.run import RunDirectory

CHARTS = ["verdicts", "by_class", "transition", "p_wrong", "changes", "accuracy"]


@pytest.fixture(scope="module")
def report(hostile_run):
    return gather(RunDirectory.open(hostile_run))


def test_hostile_text_stays_text(report):
    text = markdown(report)
    assert "<script" not in re.sub(r"\\<", "", text)
    assert r"\<img src=x" in text
    assert escaped("a_b*c|d`e[f](g)<h>") == r"a\_b\*c\|d\`e\[f\](g)\<h\>"
    assert code("plain") == "`plain`"
    assert code("a``b") == "``` a``b ```"


def test_every_line_of_a_table_has_as_many_cells(report):
    lines = [line for line in markdown(report).splitlines() if line.startswith("|")]
    tables = re.findall(r"(?:^\|.*\n)+", markdown(report), flags=re.MULTILINE)
    assert len(tables) == 6
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1
    assert len(lines) > 20


def test_the_summary_is_written_whole(report, tmp_path):
    file = tmp_path / "more" / "summary.md"
    assert write_markdown(report, file) == file.stat().st_size
    assert file.read_text(encoding="utf-8").startswith(f"# {headline(report)}\n")
    with pytest.raises(ConfigError, match=r"--markdown .*summary\.txt: the ending must be \.md"):
        write_markdown(report, tmp_path / "summary.txt")


@pytest.mark.slow
def test_charts_are_written_as_svg_and_png(report, tmp_path):
    pytest.importorskip("matplotlib")
    files, missing = write_figures(report, tmp_path / "charts")
    assert missing is None
    assert [file.name for file in files] == [
        *(f"{name}.svg" for name in CHARTS),
        *(f"{name}.png" for name in CHARTS if name != "verdicts"),
    ]
    for file in files[: len(CHARTS)]:
        root = ElementTree.parse(file).getroot()
        assert "fill: #1d2733" in root[0].text
        assert "var(" not in root[0].text
        assert root[2].tag.endswith("title")
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in files[len(CHARTS) :])


def test_without_matplotlib_there_are_svg_files_and_a_word_about_it(report, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    files, missing = write_figures(report, tmp_path)
    assert [file.name for file in files] == [f"{name}.svg" for name in CHARTS]
    assert "pip install 'pencil-labels[plots]'" in missing


def test_a_folder_that_cannot_be_is_refused(report, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"--figures .*choose another place"):
        write_figures(report, tmp_path / "file" / "charts")
