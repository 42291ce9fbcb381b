"""Where a run stands: the steps done, and sums over the examples of the current epoch.

Each rank keeps its own sums. They are added up at the end of an epoch and in a checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, field, fields
from typing import Any

import torch
from torch import Tensor

from pencil.data.sampler import EpochSampler, Stretch
from pencil.engine.course import Course
from pencil.engine.learned import LabelChanges
from pencil.engine.runtime import Runtime
from pencil.models import mean_prediction


@dataclass
class Tally:
    """What one rank, or all of them together, have seen of the current epoch.

    Attributes:
        examples: How many.
        loss: The sum of their losses.
        agreeing: How many predictions were the given label.
        moved: How many label rows were written.
        changed: How many of those now suggest another class than the given one.
        forward: Examples sent forward through a network, surveys included; each of several networks counts.
    """

    examples: float = 0
    loss: float = 0
    agreeing: float = 0
    moved: float = 0
    changed: float = 0
    forward: float = 0

    def count(self, logits: Tensor, losses: Tensor, given: Tensor) -> None:
        """Add a batch: logits (B, C), or (B, N, C) of several networks, losses (B,), given classes (B,)."""
        self.examples += len(losses)
        self.loss += float(losses.sum())
        predicted = logits if logits.dim() == 2 else mean_prediction(logits)
        self.agreeing += int((predicted.argmax(dim=1) == given).sum())

    def count_forward(self, outputs: Tensor) -> None:
        """Add what was sent forward: outputs (B, C), or (B, N, C) of several networks."""
        self.forward += len(outputs) * (1 if outputs.dim() == 2 else outputs.shape[1])

    def count_labels(self, changes: LabelChanges) -> None:
        """Add what a step wrote."""
        self.moved += changes.moved
        self.changed += changes.changed

    def of_all_ranks(self, runtime: Runtime) -> Tally:
        """The sums over all ranks."""
        totals = runtime.total(torch.tensor(astuple(self), dtype=torch.float64)).tolist()
        return Tally(**{field.name: value for field, value in zip(fields(self), totals, strict=True)})


@dataclass
class Progress:
    """What a checkpoint holds besides tensors and label rows.

    Attributes:
        step: Optimiser steps of the plan that are done. With the plan it determines the epoch, the next rows, their
            augmentation and the value of every schedule.
        tally: This rank's sums over the current epoch.
        changed: Labels that suggest another class than the given one, after the last epoch that wrote labels.
        seconds: Time spent in the current epoch.
        earlier: Who took the earlier steps of the current epoch, where it was another number of ranks.
        course: What a policy has decided; None for a run without one.
    """

    step: int = 0
    tally: Tally = field(default_factory=Tally)
    changed: float = 0.0
    seconds: float = 0.0
    earlier: tuple[Stretch, ...] = ()
    course: Course | None = None

    @property
    def undone(self) -> int:
        """Steps that were taken and undone by restoring a checkpoint."""
        return 0 if self.course is None else self.course.undone

    @property
    def taken(self) -> int:
        """All optimiser steps taken; unlike ``step`` it never falls."""
        return self.step + self.undone

    def to_json(self, num_rows: int, runtime: Runtime) -> dict[str, Any]:
        """The same on all ranks, which must all ask."""
        return {
            "step": self.step,
            "num_rows": num_rows,
            "world_size": runtime.world_size,
            "earlier": [astuple(stretch) for stretch in self.earlier],
            "changed": self.changed,
            "tally": asdict(self.tally.of_all_ranks(runtime)),
            "seconds": self.seconds,
            **({} if self.course is None else {"course": self.course.to_json()}),
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, Any], sampler: EpochSampler) -> Progress:
        """As one of ``sampler.world_size`` ranks continues it, whoever saved it."""
        step, earlier = int(saved["step"]), tuple(Stretch(*each) for each in saved["earlier"])
        done = step % sampler.steps
        if saved["world_size"] != sampler.world_size and done:
            earlier += (Stretch(saved["world_size"], done),)
        # The sums of all ranks continue in one of them.
        tally = Tally(**saved["tally"]) if sampler.rank == 0 else Tally()
        course = Course.from_json(saved["course"]) if "course" in saved else None
        return cls(step, tally, float(saved["changed"]), float(saved["seconds"]), earlier, course)

    def end_epoch(self) -> None:
        """Start the sums of the next epoch."""
        self.tally, self.seconds, self.earlier = Tally(), 0.0, ()
