"""Progress: a live bar on a terminal, lines elsewhere."""

import io
import re

import pytest
from rich.console import Console

from pencil.cli import progress as module
from pencil.cli.progress import Bar, Lines, describe_epoch, progress, time_left
from pencil.engine import Event

EPOCH = {
    "epoch": 134,
    "phase": "correction",
    "loss": 0.0512,
    "labels_changed": 1234,
    "validation_accuracy": 0.5,
    "test_accuracy": 0.875,
    "labels_correct": 1.0,
}


def step(number, kind="step", total=10, left=5.0, phase="correction"):
    return Event(kind, number, {"total_steps": total, "phase": phase, "seconds_left": left})


def epoch(number, **values):
    return Event("epoch", number, {**EPOCH, **values})


@pytest.mark.parametrize(("terminal", "kind"), [(True, Bar), (False, Lines)])
def test_where_stderr_goes_decides(monkeypatch, terminal, kind):
    monkeypatch.setattr(module, "is_terminal", lambda: terminal)
    assert isinstance(progress(), kind)


def test_an_epoch_in_a_few_words():
    words = "epoch 134  validation 50.0 %  test 87.5 %  labels right 100.0 %  changed 1,234  loss 0.051"
    assert describe_epoch(epoch(1)) == words
    few = {name: EPOCH[name] for name in ("epoch", "loss", "labels_changed")}
    assert describe_epoch(Event("epoch", 1, few)) == "epoch 134  changed 1,234  loss 0.051"


def test_a_restored_checkpoint_is_named_and_the_bar_takes_the_new_plan(monkeypatch, capsys):
    restored = Event("restored", 5, {**EPOCH, "restored": "best"})
    assert describe_epoch(restored).startswith("restored best  epoch 134  validation")
    text = drawn(monkeypatch, 140, [step(0, "begin", left=None), step(5), restored, step(5, total=20)])
    last = text.rstrip().splitlines()[-1].split("\r")[-1]
    assert "25 %" in last
    assert "restored best" in last
    lines = Lines()
    lines.handle(epoch(5))
    lines.handle(restored)
    lines.handle(step(5))
    assert "restored best" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "?"), (0.2, "0:00"), (65, "1:05"), (3599.6, "1:00:00"), (7384, "2:03:04")]
)
def test_time_left(seconds, text):
    assert time_left(step(1, left=seconds)) == text


# lines


def test_a_line_waits_for_the_step_that_tells_the_time_left(capsys):
    lines = Lines()
    lines.handle(step(0, "begin"))
    lines.handle(step(1))
    lines.handle(epoch(2))
    assert capsys.readouterr().err == ""
    lines.handle(step(2))
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"correction  {describe_epoch(epoch(2))}  0:05 left\n"
    lines.close()


def test_quick_epochs_are_thinned_but_the_last_is_always_told(capsys, monkeypatch):
    now = iter([100.0, 100.1, 100.2, 101.5, 101.6])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(now))
    lines = Lines()
    for number in (2, 4, 6, 8, 10):
        lines.handle(epoch(number, epoch=number))
        lines.handle(step(number))
    told = re.findall(r"epoch (\d+)", capsys.readouterr().err)
    assert told == ["2", "8", "10"]


# bar


def drawn(monkeypatch, width, events):
    file = io.StringIO()
    monkeypatch.setattr(
        module, "Console", lambda **_: Console(file=file, width=width, force_terminal=True, color_system=None)
    )
    bar = Bar()
    for event in events:
        bar.handle(event)
    bar.close()
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.getvalue())


@pytest.mark.parametrize("width", [60, 80, 140])
def test_phase_bar_share_and_time_fit_on_one_line_of_any_terminal(monkeypatch, width):
    text = drawn(monkeypatch, width, [step(0, "begin", left=None), epoch(5), step(5), epoch(10), step(10)])
    last = text.rstrip().splitlines()[-1].split("\r")[-1]
    assert len(last) <= width
    assert re.match(r"correction +━+ 100 %    0:05 left epoch 134 ", last)
    assert ("loss 0.051" in last) == (width == 140)


def test_a_bar_that_heard_nothing_is_closed_quietly(monkeypatch):
    assert drawn(monkeypatch, 80, []).strip() == ""
