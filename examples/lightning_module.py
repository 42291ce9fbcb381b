"""PENCIL beside a Lightning module: the three marked lines.

    python examples/lightning_module.py

Trains on the points of plain_loop.py, 40 % of whose labels are wrong, and prints how many are right before and after.
"""

from __future__ import annotations

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from plain_loop import noisy_clusters
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from pencil import LabelLearner, Pencil, three_phases
from pencil.integrations.lightning import LabelCallback


class Net(LightningModule):  # type: ignore[misc]  # mypy skips Lightning
    """Logits from points, as any module; only its loss is the learner's."""

    def __init__(self, learner: LabelLearner) -> None:
        super().__init__()
        self.learner = learner
        self.layers = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, points: Tensor) -> Tensor:
        """Logits (B, C)."""
        logits: Tensor = self.layers(points)
        return logits

    def training_step(self, batch: tuple[Tensor, Tensor], index: int) -> Tensor:
        """The loss of a batch of points and their row numbers."""
        points, indices = batch
        return self.learner.loss(self(points), indices)  # 2: in place of the criterion

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """The phases set its learning rate."""
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


def main() -> tuple[float, float]:
    """Train; the share of right labels before and after."""
    seed_everything(0)
    points, noisy, true = noisy_clusters()
    phases = three_phases(2, 15, 5, learning_rate=0.05, finetune_rate=0.01)
    learner = LabelLearner(Pencil(), noisy, phases)  # 1: the method, the labels, the plan
    loader = DataLoader(TensorDataset(points, torch.arange(len(points))), batch_size=64, shuffle=True)
    trainer = Trainer(
        max_epochs=22,
        callbacks=[LabelCallback(learner)],  # 3: time, label updates, checkpoints
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(Net(learner), loader)

    suggested = learner.labels().suggested
    before, after = (float((labels == true).float().mean()) for labels in (noisy, suggested))
    print(f"right labels: {before:.1%} before, {after:.1%} after")
    return before, after


if __name__ == "__main__":
    main()
