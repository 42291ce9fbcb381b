"""Every epoch is told once."""

import pytest

from pencil.engine import Event
from pencil.engine.trackers import Tracker, flat


class Kept(Tracker):
    def __init__(self, folder):
        super().__init__(folder)
        self.lines = []
        self.name_before = self._run
        if self._run is None:
            self.note("run-1")

    def log(self, numbers, step):
        self.lines.append((step, numbers))

    def end(self):
        pass


def epoch(step, **values):
    return Event("epoch", step, {"loss": 1 / step, "phase": "backbone", **values})


def test_numbers_of_epochs_are_told(tmp_path):
    tracker = Kept(tmp_path)
    for event in (Event("begin", 0), epoch(8), Event("step", 9, {"loss": 3.0}), epoch(16, labels_changed=2)):
        tracker.handle(event)
    assert tracker.lines == [(8, {"loss": 1 / 8}), (16, {"loss": 1 / 16, "labels_changed": 2})]


def test_a_resumed_run_goes_on_under_its_name_and_says_nothing_twice(tmp_path):
    first = Kept(tmp_path)
    assert first.name_before is None
    for step in (8, 16, 24):
        first.handle(epoch(step))
    again = Kept(tmp_path)  # from a checkpoint at step 12, say
    for step in (16, 24, 32):
        again.handle(epoch(step))
    assert again.name_before == "run-1"
    assert [step for step, _ in again.lines] == [32]


def test_settings_are_flattened():
    nested = {"seed": 0, "train": {"batch_size": 128, "device": "auto"}, "phases": [{"epochs": 2}]}
    assert dict(flat(nested)) == {
        "seed": "0",
        "train.batch_size": "128",
        "train.device": "auto",
        "phases": '[{"epochs": 2}]',
    }


class Away(Kept):
    """Its server cannot be reached at first."""

    def log(self, numbers, step):
        if step < 20:
            raise ConnectionError("no route to host")
        super().log(numbers, step)

    def end(self):
        raise ConnectionError("no route to host")


def test_a_tracker_that_fails_is_a_warning_and_does_not_end_a_training(tmp_path):
    tracker = Away(tmp_path)
    with pytest.warns(UserWarning, match="Away could not send an epoch, and training goes on: no route"):
        tracker.handle(epoch(16))
    tracker.handle(epoch(24))
    assert [step for step, _ in tracker.lines] == [24]
    with pytest.warns(
        UserWarning, match="Away could not end its run, and training goes on: no route to host"
    ):
        tracker.close()
