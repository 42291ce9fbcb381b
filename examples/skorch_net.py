"""PENCIL in skorch: its classifier with two arguments more.

    python examples/skorch_net.py

Trains on the points of plain_loop.py, 40 % of whose labels are wrong, and prints how many are right before and after.
"""

from __future__ import annotations

import torch
from plain_loop import noisy_clusters
from torch import nn

from pencil import Pencil, three_phases
from pencil.integrations.skorch import LabelNet


def main() -> tuple[float, float]:
    """Train; the share of right labels before and after."""
    torch.manual_seed(0)
    points, noisy, true = noisy_clusters()
    net = LabelNet(
        nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 10)),
        Pencil(),
        three_phases(2, 15, 5, learning_rate=0.05, finetune_rate=0.01),
        optimizer__momentum=0.9,
        batch_size=64,
        iterator_train__shuffle=True,
        verbose=0,
    )
    net.fit(points, noisy)

    suggested = net.learner_.labels().suggested
    before, after = (float((labels == true).float().mean()) for labels in (noisy, suggested))
    print(f"right labels: {before:.1%} before, {after:.1%} after; accuracy {net.score(points, true):.1%}")
    return before, after


if __name__ == "__main__":
    main()
