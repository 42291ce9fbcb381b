"""Results on stdout, everything else on stderr."""

import json
import sys
import warnings

from pencil.cli.output import (
    is_terminal,
    percent,
    print_json,
    print_pairs,
    print_text,
    say,
    show_warnings_plainly,
)


def test_json_is_one_line_whatever_it_holds(capsys):
    value = {"name": 'żółć, "x"\nnew line', "share": 0.1 + 0.2}
    print_json(value)
    out, err = capsys.readouterr()
    assert out.count("\n") == 1
    assert "żółć" in out
    assert json.loads(out) == value
    assert err == ""


HOSTILE = "a\x1b]0;title\x07\x1b[2J\r\x9b31m\u202egpj.\ud800-\udcff\tb"
SHOWN = r"a\u001b]0;title\u0007\u001b[2J\u000d\u009b31m\u202egpj.\ud800-\udcff\u0009b"


def test_names_that_attack_the_terminal_are_escaped_everywhere(capsys, monkeypatch):
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    show_warnings_plainly()
    print_pairs({HOSTILE: HOSTILE})
    print_text(HOSTILE)
    say(f"{HOSTILE}\n  second line")
    warnings.showwarning(UserWarning(HOSTILE), UserWarning, "file.py", 3)
    out, err = capsys.readouterr()
    assert out == f"{SHOWN}  {SHOWN}\n{SHOWN}\n"
    assert err == f"{SHOWN}\n  second line\nwarning: {SHOWN}\n"


def test_json_with_such_names_is_escaped_and_reads_as_it_was(capsys):
    print_json({"name": HOSTILE})
    out = capsys.readouterr().out
    assert json.loads(out) == {"name": HOSTILE}
    assert out.strip().isprintable()


def test_pairs_are_aligned(capsys):
    print_pairs({"a": 1, "long name": "x"})
    assert capsys.readouterr().out == "a          1\nlong name  x\n"
    print_pairs({})
    assert capsys.readouterr().out == ""


def test_remarks_go_to_stderr(capsys):
    say("listen")
    assert capsys.readouterr() == ("", "listen\n")


def test_warnings_are_one_plain_line(capsys, monkeypatch):
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    show_warnings_plainly()
    warnings.showwarning(UserWarning("take care"), UserWarning, "file.py", 3)
    assert capsys.readouterr() == ("", "warning: take care\n")


def test_percent():
    assert percent(0.6644) == "66.4 %"


def test_a_pipe_is_no_terminal(monkeypatch):
    assert not is_terminal()
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert is_terminal()
