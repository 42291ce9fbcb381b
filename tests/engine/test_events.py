"""Metrics survive a crash, every listener hears everything, and time left is steps left at the pace so far."""

import json
import os
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pencil.engine import Clock, Event, Events, JsonLines, TensorBoard, read_json_lines


class Notes:
    def __init__(self):
        self.events, self.closed = [], False

    def handle(self, event):
        self.events.append(event)

    def close(self):
        self.closed = True


def write_epochs(path, steps, **options):
    lines = JsonLines(path, **options)
    for step in steps:
        lines.handle(Event("epoch", step, {"loss": step / 3}))
    lines.close()


def test_every_listener_hears_every_event_in_order_and_is_closed():
    listeners = [Notes(), Notes()]
    events = Events(listeners)
    events.emit("begin", 0)
    events.emit("epoch", 5, loss=0.5)
    events.close()
    for notes in listeners:
        assert notes.events == [Event("begin", 0), Event("epoch", 5, {"loss": 0.5})]
        assert notes.closed


def test_epochs_become_lines_at_once_and_other_events_none(tmp_path):
    lines = JsonLines(tmp_path / "metrics.jsonl")
    lines.handle(Event("begin", 0))
    lines.handle(Event("step", 1, {"seconds_left": None}))
    lines.handle(Event("epoch", 2, {"loss": 1 / 3, "phase": "backbone"}))
    expected = [{"step": 2, "loss": 1 / 3, "phase": "backbone"}]
    assert read_json_lines(tmp_path / "metrics.jsonl") == expected  # before anything is closed
    lines.close()
    assert read_json_lines(tmp_path / "metrics.jsonl") == expected


def test_a_restored_checkpoint_becomes_a_line_too(tmp_path):
    lines = JsonLines(tmp_path / "metrics.jsonl")
    lines.handle(Event("epoch", 4, {"epoch": 2}))
    lines.handle(Event("restored", 4, {"epoch": 1, "restored": "best"}))
    lines.close()
    JsonLines(tmp_path / "metrics.jsonl", resume_at=4).close()
    expected = [{"step": 4, "epoch": 2}, {"step": 4, "epoch": 1, "restored": "best"}]
    assert read_json_lines(tmp_path / "metrics.jsonl") == expected


@pytest.mark.parametrize(
    ("resume_at", "kept"), [(0, []), (1, []), (10, [10]), (19, [10]), (20, [10, 20]), (99, [10, 20, 30])]
)
def test_a_resumed_run_drops_the_lines_it_will_say_again(tmp_path, resume_at, kept):
    path = tmp_path / "metrics.jsonl"
    write_epochs(path, [10, 20, 30])
    write_epochs(path, [40], resume_at=resume_at)
    assert [line["step"] for line in read_json_lines(path)] == [*kept, 40]


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_file_cut_at_any_byte_gives_its_whole_lines_and_goes_on_after_them(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("cut") / "metrics.jsonl"
    write_epochs(path, [10, 20, 30])
    content = path.read_bytes()
    cut = data.draw(st.integers(0, len(content)))
    path.write_bytes(content[:cut])
    whole = content[:cut].count(b"\n")
    assert [line["step"] for line in read_json_lines(path)] == [10, 20, 30][:whole]
    write_epochs(path, [40], resume_at=30)
    assert [line["step"] for line in read_json_lines(path)] == [*[10, 20, 30][:whole], 40]


def test_a_crash_while_resuming_loses_no_line(tmp_path, monkeypatch):
    path = tmp_path / "metrics.jsonl"
    write_epochs(path, [10, 20])
    before = path.read_bytes()
    monkeypatch.setattr("pencil.engine.events.Path.replace", crash)
    with pytest.raises(KeyboardInterrupt):
        JsonLines(path, resume_at=20)
    assert path.read_bytes() == before


def crash(*_):
    raise KeyboardInterrupt


def test_epochs_are_synced_once_before_a_checkpoint_that_relies_on_them(tmp_path, monkeypatch):
    sizes = []
    path = tmp_path / "metrics.jsonl"
    lines = JsonLines(path)
    monkeypatch.setattr(os, "fsync", lambda handle: sizes.append(os.fstat(handle).st_size))
    for kind, step in (("epoch", 1), ("epoch", 2), ("checkpoint", 2), ("checkpoint", 3), ("epoch", 4)):
        lines.handle(Event(kind, step))
    lines.close()
    assert sizes == [len(b'{"step": 1}\n{"step": 2}\n')]


def test_floats_survive_exactly(tmp_path):
    value = 0.1 + 0.2
    lines = JsonLines(tmp_path / "metrics.jsonl")
    lines.handle(Event("epoch", 1, {"loss": value, "bad": float("inf")}))
    lines.close()
    assert read_json_lines(tmp_path / "metrics.jsonl") == [{"step": 1, "loss": value, "bad": float("inf")}]
    assert json.loads((tmp_path / "metrics.jsonl").read_text())["loss"] == value


def test_no_file_holds_no_lines(tmp_path):
    assert read_json_lines(tmp_path / "none.jsonl") == []


def scalars(folder, name):
    """(step, value) as TensorBoard shows them."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(folder))
    events.Reload()
    return [(event.step, event.value) for event in events.Scalars(name)]


def board_epochs(folder, steps, **options):
    board = TensorBoard(folder, **options)
    for step in steps:
        board.handle(Event("epoch", step, {"loss": step / 4, "phase": "backbone"}))
    board.handle(Event("step", 99, {"loss": 7.0}))
    board.close()


def test_tensorboard_shows_the_numbers_of_epochs(tmp_path):
    pytest.importorskip("tensorboard", reason="needs the extra tensorboard")
    board_epochs(tmp_path / "board", [10, 20])
    assert list((tmp_path / "board").glob("events.out.tfevents.*"))
    assert scalars(tmp_path / "board", "loss") == [(10, 2.5), (20, 5.0)]


@pytest.mark.parametrize(("resume_at", "kept"), [(0, []), (10, [10]), (15, [10]), (20, [10, 20])])
def test_tensorboard_keeps_what_a_resumed_run_does_not_say_again(tmp_path, monkeypatch, resume_at, kept):
    pytest.importorskip("tensorboard", reason="needs the extra tensorboard")
    board_epochs(tmp_path, [10, 20, 30])
    # Files are read in the order of their names, which begin with the second they were made in.
    later = time.time() + 5
    monkeypatch.setattr("time.time", lambda: later)
    board_epochs(tmp_path, [40], resume_at=resume_at)
    assert [step for step, _ in scalars(tmp_path, "loss")] == [*kept, 40]


def at_times(monkeypatch, *seconds):
    now = iter(seconds)
    monkeypatch.setattr("pencil.engine.events.time.monotonic", lambda: next(now))
    return Clock()


def test_time_left_is_the_steps_left_at_the_pace_since_this_process_began(monkeypatch):
    clock = at_times(monkeypatch, 100.0, 104.0, 110.0, 120.0)
    assert clock.seconds_left(50, 100) is None  # resumed at step 50: no pace yet
    assert clock.seconds_left(52, 100) == pytest.approx(4 / 2 * 48)
    assert clock.seconds_left(60, 100) == pytest.approx(10 / 10 * 40)
    assert clock.seconds_left(100, 100) == 0


def test_time_left_forgets_a_pause_within_an_eighth_of_the_run(monkeypatch):
    steps = range(0, 161)
    paused = 5_000.0  # while step 20 was taken; every other step takes a second
    clock = at_times(monkeypatch, *(step + (paused if step >= 20 else 0.0) for step in steps))
    left = [clock.seconds_left(step, 160) for step in steps]
    assert left[19] == pytest.approx(141)
    assert left[20] > 1_000
    assert left[40:] == pytest.approx([160 - step for step in steps[40:]])


def test_time_left_begins_anew_when_steps_are_undone(monkeypatch):
    clock = at_times(monkeypatch, 0.0, 10.0, 50.0, 53.0)
    assert clock.seconds_left(0, 20) is None
    assert clock.seconds_left(10, 20) == pytest.approx(10)
    assert clock.seconds_left(5, 20) is None
    assert clock.seconds_left(6, 20) == pytest.approx(3 * 14)
