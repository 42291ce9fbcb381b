"""The paper's own experiments (Sec. 4.2 and Table 1), in the library's knobs.

What the paper leaves open, and what is chosen here: the compatibility loss follows the authors' program
(``reference``), because with the printed one no label can flip at these values; inputs lose their mean only, as the
paper says; the 10 % validation rows are noisy too, as Sec. 4.1 says of CIFAR-100.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from pencil.algorithm import Linear, Pencil, Piecewise, Schedule, three_phases
from pencil.config import RunConfig
from pencil.config.schema import CifarData, Model, Noise, Optimizer, RateNoise, Train
from pencil.data import Augment

BATCH = 128


@dataclass(frozen=True)
class TableOne:
    """One row of Table 1."""

    learning_rate: float
    alpha: float
    beta: float
    lambda_: Schedule


SYMMETRIC = {
    10: TableOne(0.02, 0.1, 0.8, 200.0),
    30: TableOne(0.03, 0.1, 0.8, 300.0),
    50: TableOne(0.04, 0.1, 0.8, 400.0),
    70: TableOne(0.08, 0.1, 0.8, 800.0),
    90: TableOne(0.12, 0.1, 0.4, 1200.0),
}
ASYMMETRIC = {
    10: TableOne(0.06, 0.1, 0.4, 600.0),
    20: TableOne(0.06, 0.1, 0.4, 600.0),
    30: TableOne(0.06, 0.1, 0.4, 600.0),
    40: TableOne(0.03, 0.0, 0.4, Linear(3000.0, 0.0)),
    50: TableOne(0.03, 0.0, 0.4, Linear(4000.0, 0.0)),
}
CIFAR100 = TableOne(0.35, 0.1, 0.4, 10_000.0)


def cifar10(path: str, *, kind: str, rate: int) -> RunConfig:
    """Table 1: CIFAR-10 with PreAct ResNet-32."""
    row = (SYMMETRIC if kind == "symmetric" else ASYMMETRIC)[rate]
    noise = RateNoise(kind="symmetric" if kind == "symmetric" else "cifar10", rate=rate / 100)
    return _cifar(path, "cifar10", "preact_resnet32", row, noise, num_classes=10)


def cifar100(path: str, *, kind: str, rate: int) -> RunConfig:
    """Sec. 4.2: CIFAR-100 with ResNet-34, one setting for every noise."""
    noise = RateNoise(kind="symmetric" if kind == "symmetric" else "circular", rate=rate / 100)
    return _cifar(path, "cifar100", "resnet34_cifar", CIFAR100, noise, num_classes=100)


def _cifar(path: str, data: Any, model: str, row: TableOne, noise: Noise, *, num_classes: int) -> RunConfig:
    return RunConfig(
        data=CifarData(
            kind=data,
            path=path,
            noise=noise,
            validation=0.1,
            normalize="mean",
            augment=Augment(pad=4, crop=32, flip=True),
        ),
        model=Model(name=model),
        method=Pencil.from_paper(
            lambda_=row.lambda_,
            alpha=row.alpha,
            beta=row.beta,
            batch_size=BATCH,
            num_classes=num_classes,
            form="reference",
        ),
        phases=three_phases(
            70,
            130,
            120,
            learning_rate=row.learning_rate,
            finetune_rate=Piecewise((0.2, 0.02, 0.002), (40, 80)),
        ),
        optimizer=Optimizer(momentum=0.9, weight_decay=1e-4),
        train=Train(batch_size=BATCH, precision="bf16", channels_last=True),
    )


PRESETS = {
    **{
        f"paper-cifar10-symmetric-{rate}": partial(cifar10, kind="symmetric", rate=rate) for rate in SYMMETRIC
    },
    **{
        f"paper-cifar10-asymmetric-{rate}": partial(cifar10, kind="asymmetric", rate=rate)
        for rate in ASYMMETRIC
    },
    **{
        f"paper-cifar100-symmetric-{rate}": partial(cifar100, kind="symmetric", rate=rate)
        for rate in (20, 40, 60, 80)
    },
    **{
        f"paper-cifar100-asymmetric-{rate}": partial(cifar100, kind="asymmetric", rate=rate)
        for rate in (10, 20, 30, 40)
    },
}
