"""A method as a user would write it, as the text of a module that notes when it is imported."""

FILE = "toy.py"
MODULE = '''
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from pencil.algorithm import as_distribution, cross_entropy
from pencil.methods import Method, Step

with Path(__file__).with_name("trace").open("a") as trace:
    trace.write("imported\\n")


@dataclass(frozen=True)
class Toy(Method):
    """Labels drift to the predictions. Where TOY_KILL is set, it kills its process at that epoch of correction."""

    drift: float = 0.3
    learns_labels = True

    def row_width(self, num_classes):
        return num_classes

    def start_rows(self, given, num_classes):
        return as_distribution(given, num_classes)

    def label_distribution(self, rows, given, num_classes):
        return rows

    def step(self, logits, rows, given, moment):
        if moment.phase.name == "backbone":
            return Step(cross_entropy(logits, given))
        if "TOY_KILL" in os.environ and moment.elapsed >= float(os.environ["TOY_KILL"]):
            os.kill(os.getpid(), signal.SIGKILL)
        moved = (1 - self.drift) * rows + self.drift * logits.detach().softmax(dim=1)
        return Step(cross_entropy(logits, rows), moved)


@dataclass(frozen=True)
class Weighted(Method):
    weight: float = 2.0

    def step(self, logits, rows, given, moment):
        return Step(self.weight * cross_entropy(logits, given))


@dataclass(frozen=True)
class Mean(Method):
    def step(self, logits, rows, given, moment):
        return Step(cross_entropy(logits, given).mean())


@dataclass(frozen=True)
class Failing(Method):
    def __post_init__(self):
        {}["x"]
'''
