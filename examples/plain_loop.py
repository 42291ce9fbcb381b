"""PENCIL in a training loop of your own: the five marked lines, with gradient accumulation and autocast.

    python examples/plain_loop.py

Trains a small network on two thousand points in ten clusters, 40 % of whose labels are wrong, and prints how many
labels are right before and after.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pencil import LabelLearner, Pencil, three_phases

ACCUMULATE = 2


def noisy_clusters(count: int = 2000, classes: int = 10, rate: float = 0.4) -> tuple[Tensor, Tensor, Tensor]:
    """Points (N, 16) around one centre per class, their noisy and their true labels (N,)."""
    generator = torch.Generator().manual_seed(0)
    centres = 2 * torch.randn(classes, 16, generator=generator)
    true = torch.randint(classes, (count,), generator=generator)
    points = centres[true] + torch.randn(count, 16, generator=generator)
    wrong = torch.rand(count, generator=generator) < rate
    noisy = torch.where(wrong, torch.randint(classes, (count,), generator=generator), true)
    return points, noisy, true


def main() -> tuple[float, float]:
    """Train; the share of right labels before and after."""
    torch.manual_seed(0)
    points, noisy, true = noisy_clusters()
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    phases = three_phases(2, 15, 5, learning_rate=0.05, finetune_rate=0.01)
    learner = LabelLearner(Pencil(), noisy, phases)  # 1: the method, the labels, the plan
    for _ in learner.epochs():  # 2: sets the clock
        optimizer.param_groups[0]["lr"] = learner.learning_rate
        for step, indices in enumerate(torch.randperm(len(points)).split(64)):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logits = model(points[indices])
            loss = learner.loss(logits, indices)  # 3: instead of your criterion
            (loss / ACCUMULATE).backward()
            if step % ACCUMULATE == ACCUMULATE - 1:
                optimizer.step()
                optimizer.zero_grad()
                learner.step()  # 4: writes the labels
    learned = learner.labels()  # 5: given, suggested, confidence

    before, after = (float((labels == true).float().mean()) for labels in (noisy, learned.suggested))
    print(f"right labels: {before:.1%} before, {after:.1%} after")
    return before, after


if __name__ == "__main__":
    main()
