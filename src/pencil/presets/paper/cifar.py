"""CIFAR-10 (Table 1's settings, results in Tables 3 and 4) and CIFAR-100 (Sec. 4.2, results in Table 2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pencil.algorithm import LinearSchedule, Pencil, PiecewiseSchedule, Schedule, three_phases
from pencil.config import RunConfig
from pencil.config.schema import Model, Optimizer, Train
from pencil.data import Augment
from pencil.kinds import CifarData, Noise, RateNoise
from pencil.presets.experiment import Experiment
from pencil.presets.paper import choices

BATCH = 128


@dataclass(frozen=True)
class Row:
    """One row of Table 1."""

    learning_rate: float
    alpha: float
    beta: float
    lambda_: Schedule


SYMMETRIC = {
    10: Row(0.02, 0.1, 0.8, 200.0),
    30: Row(0.03, 0.1, 0.8, 300.0),
    50: Row(0.04, 0.1, 0.8, 400.0),
    70: Row(0.08, 0.1, 0.8, 800.0),
    90: Row(0.12, 0.1, 0.4, 1200.0),
}
ASYMMETRIC = {
    10: Row(0.06, 0.1, 0.4, 600.0),
    20: Row(0.06, 0.1, 0.4, 600.0),
    30: Row(0.06, 0.1, 0.4, 600.0),
    40: Row(0.03, 0.0, 0.4, LinearSchedule(3000.0, 0.0)),
    50: Row(0.03, 0.0, 0.4, LinearSchedule(4000.0, 0.0)),
}
ONE_FOR_ALL = Row(0.35, 0.1, 0.4, 10_000.0)
"""Sec. 4.2: CIFAR-100's, the same for every noise."""


def cifar(path: str, *, data: Any, model: str, row: Row, noise: Noise, num_classes: int) -> RunConfig:
    """Sec. 4.2: 70 + 130 + 120 epochs; SGD 0.9, weight decay 1e-4, batches of 128; 32 × 32 crops of 40 × 40, flips."""
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
            finetune_rate=PiecewiseSchedule((0.2, 0.02, 0.002), (40, 80)),
        ),
        optimizer=Optimizer(momentum=0.9, weight_decay=1e-4),
        train=Train(batch_size=BATCH, precision="bf16", channels_last=True),
    )


def _cifar10(kind: str, rate: int, row: Row) -> Experiment:
    table = 3 if kind == "symmetric" else 4
    noise = RateNoise(kind="symmetric" if kind == "symmetric" else "cifar10", rate=rate / 100)
    return Experiment(
        title=f"Table {table}, PENCIL at {kind} {rate} %: CIFAR-10, PreAct ResNet-32, settings of Table 1.",
        choices=(
            choices.REFERENCE if row.alpha else choices.NO_PULL,
            *((choices.LAMBDA_FALLS,) if isinstance(row.lambda_, LinearSchedule) else ()),
            *_choices(kind),
        ),
        make=partial(cifar, data="cifar10", model="preact_resnet32", row=row, noise=noise, num_classes=10),
    )


def _cifar100(kind: str, rate: int) -> Experiment:
    noise = RateNoise(kind="symmetric" if kind == "symmetric" else "circular", rate=rate / 100)
    return Experiment(
        title=f"Table 2, PENCIL at {kind} {rate} %: CIFAR-100, ResNet-34, settings of Sec. 4.2.",
        choices=(
            choices.REFERENCE,
            choices.STRONG_PULL.format(pull=100 * ONE_FOR_ALL.alpha),
            "ResNet-34 has CIFAR's 3 × 3 first layer without pooling; the paper only names the network.",
            *_choices(kind),
        ),
        make=partial(
            cifar, data="cifar100", model="resnet34_cifar", row=ONE_FOR_ALL, noise=noise, num_classes=100
        ),
    )


def _choices(kind: str) -> tuple[str, ...]:
    return (
        choices.ONE_OVER_C,
        choices.LAST_PHASE,
        choices.MEAN,
        choices.NOISY_VALIDATION,
        *((choices.SYMMETRIC,) if kind == "symmetric" else ()),
        choices.WHOLE_BATCHES,
        choices.PRECISION,
    )


CIFAR10: Mapping[str, Experiment] = {
    f"paper:cifar10-{kind}-{rate}": _cifar10(kind, rate, row)
    for kind, rows in (("symmetric", SYMMETRIC), ("asymmetric", ASYMMETRIC))
    for rate, row in rows.items()
}
CIFAR100: Mapping[str, Experiment] = {
    f"paper:cifar100-{kind}-{rate}": _cifar100(kind, rate)
    for kind, rates in (("symmetric", (20, 40, 60, 80)), ("asymmetric", (10, 20, 30, 40)))
    for rate in rates
}
