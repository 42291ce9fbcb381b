"""What a training leaves behind, and what a kill at any moment leaves of it."""

import shutil

import torch

from pencil.engine import Checkpoints, checkpoint, read_json_lines


class AtOnce(Checkpoints):
    """Saves while training waits, so that a test knows when."""

    def begin(self, *parts):
        self.save(*parts)


def end_state(training):
    """Everything that training leaves behind."""
    momentum = {
        f"optimizer/{name}/{key}": value
        for name, parameter in training.model.named_parameters()
        for key, value in training.optimizer.state[parameter].items()
    }
    random = {"random": torch.get_rng_state()}
    return {**training.model.state_dict(), **training.learner.store.state(), **momentum, **random}


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert torch.equal(other[name], value), name


class Disk:
    """Copies a run's folder whenever something was or is about to be written: what a kill at that moment leaves."""

    def __init__(self, folder, copies):
        self.folder, self.copies, self.count, self.found = folder, copies, 0, None

    def handle(self, event):
        self.copy()

    def close(self):
        pass

    def copy(self):
        found = sorted((str(path), path.stat().st_size) for path in self.folder.rglob("*") if path.is_file())
        if found != self.found:
            self.found = found
            shutil.copytree(self.folder, self.copies / f"{self.count:03d}")
            self.count += 1

    def around(self, act):
        def watched(*args, **options):
            self.copy()
            act(*args, **options)
            self.copy()

        return watched

    def watch(self, patch):
        """Copy around every write of a checkpoint, for as long as the patch lasts."""
        patch.setattr(checkpoint, "publish", self.around(checkpoint.publish))
        patch.setattr(checkpoint.shutil, "rmtree", self.around(checkpoint.shutil.rmtree))


def without_times(folder):
    return [
        {key: value for key, value in line.items() if key != "seconds"}
        for line in read_json_lines(folder / "metrics.jsonl")
    ]
