"""A training of the engine, and the same one for another trainer."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pencil import CrossEntropy, LabelLearner, LinearSchedule, Pencil
from pencil.data import EpochSampler, Examples, Splits
from pencil.engine import Loop, Training
from pencil.methods import Forward
from support.training import make_training

ROWS, BATCH = 512, 64  # a power of two: a mean is then exactly what the engine makes of a sum
EPOCHS = (1, 3, 1)


class EngineOrder:
    """The engine's batches of row numbers, a batch sampler for other people's loaders.

    Its epoch is the one after the last; ``start`` says where a resumed training begins.
    """

    def __init__(self, sampler: EpochSampler, start: int = 0):
        self.sampler = sampler
        self.epoch = start

    def __len__(self) -> int:
        return self.sampler.steps

    def __iter__(self):
        batches = list(self.sampler.batches(self.epoch))
        self.epoch += 1
        return iter([batch.tolist() for batch in batches])


@dataclass
class Parts:
    """A training of the engine's, not begun, for somebody else to train; and the engine's own result of another."""

    training: Training
    expected: Loop

    @property
    def learner(self) -> LabelLearner:
        return self.training.learner

    @property
    def network(self) -> nn.Module:
        return self.training.model

    @property
    def inputs(self) -> Tensor:
        return self.training.train.inputs.fetch(torch.arange(ROWS))

    def order(self, start: int = 0) -> EngineOrder:
        return EngineOrder(self.training.sampler, start)

    def check(self, learner: LabelLearner, network: nn.Module) -> None:
        """Bit for bit what the engine came to, and no label as it was given for want of learning."""
        engine = self.expected.training
        for name, value in engine.learner.store.state().items():
            assert torch.equal(learner.store.state()[name], value), name
        for name, value in engine.learner.shared.items():
            assert torch.equal(learner.shared[name], value), name
        for name, value in engine.model.state_dict().items():
            assert torch.equal(network.state_dict()[name], value), name
        before, after = (
            int((labels == engine.train.reference).sum())
            for labels in (learner.given.hard, learner.labels().suggested)
        )
        assert after > before or not isinstance(learner.method, Pencil)


METHODS = {
    "pencil": Pencil(label_rate=LinearSchedule(6.0, 2.0)),
    "forward": Forward(),
    "cross_entropy": CrossEntropy(),
}


class Trainings:
    """Parts by the method's name, as often as asked for; the engine trains once."""

    def __init__(self, train: Examples):
        self.train = train.subset(torch.arange(ROWS))
        self.trained: dict[str, Loop] = {}

    def make(self, method: str = "pencil") -> Parts:
        if method not in self.trained:
            self.trained[method] = Loop(self._training(method))
            assert self.trained[method].run()
        return Parts(self._training(method), self.trained[method])

    def _training(self, method: str) -> Training:
        return make_training(
            Splits(self.train, None),
            method=METHODS[method],
            epochs=EPOCHS,
            rate=LinearSchedule(0.05, 0.01),
            batch_size=BATCH,
        )
