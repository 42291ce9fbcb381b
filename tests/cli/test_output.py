"""Results on stdout, everything else on stderr."""

import json
import sys
import warnings

from pencil.cli.output import is_terminal, percent, print_json, print_pairs, say, show_warnings_plainly


def test_json_is_one_line_whatever_it_holds(capsys):
    value = {"name": 'żółć, "x"\nnew line', "share": 0.1 + 0.2}
    print_json(value)
    out, err = capsys.readouterr()
    assert out.count("\n") == 1
    assert "żółć" in out
    assert json.loads(out) == value
    assert err == ""


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
