"""CUB-200 images: Sec. 4.2's settings, the six (λ, α) of Table 5."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from pencil.algorithm import Pencil, PiecewiseSchedule, three_phases
from pencil.config import RunConfig
from pencil.config.schema import Model, Optimizer, Train
from pencil.data import Augment
from pencil.kinds import ImagesData
from pencil.presets.experiment import Experiment
from pencil.presets.paper import choices

BATCH, CLASSES = 16, 200


def cub200(path: str, *, lambda_: int, alpha: float) -> RunConfig:
    """Sec. 4.2: 35 + 65 + 60 epochs; SGD 0.9, weight decay 1e-4, batches of 16; 224 × 224 crops of 256 × 256, flips."""
    return RunConfig(
        data=ImagesData(
            kind="cub200", path=path, size=256, normalize="mean", augment=Augment(crop=224, flip=True)
        ),
        model=Model(name="torchvision:resnet50", args={"weights": "IMAGENET1K_V1"}),
        method=Pencil.from_paper(
            lambda_=float(lambda_),
            alpha=alpha,
            beta=0.8,
            batch_size=BATCH,
            num_classes=CLASSES,
            form="reference",
        ),
        phases=three_phases(
            35, 65, 60, learning_rate=2e-3, finetune_rate=PiecewiseSchedule((1e-3, 1e-4, 1e-5), (20, 40))
        ),
        optimizer=Optimizer(momentum=0.9, weight_decay=1e-4),
        train=Train(batch_size=BATCH, precision="bf16", channels_last=True, workers=8),
    )


def _experiment(lambda_: int, alpha: float) -> Experiment:
    form = (
        (choices.REFERENCE, choices.STRONG_PULL.format(pull=CLASSES * alpha)) if alpha else (choices.NO_PULL,)
    )
    return Experiment(
        title=f"Table 5, PENCIL with λ = {lambda_}, α = {alpha:g}: CUB-200 images, ResNet-50 from ImageNet.",
        choices=(
            *form,
            "No rows are held out: the paper names no validation set for CUB-200; the figure is the last epoch's.",
            choices.ONE_OVER_C,
            choices.PRETRAINED,
            choices.MEAN,
            choices.TEST_CROP,
            choices.WHOLE_BATCHES,
            choices.PRECISION,
            choices.WORKERS,
        ),
        make=partial(cub200, lambda_=lambda_, alpha=alpha),
    )


PRESETS: Mapping[str, Experiment] = {
    f"paper:cub200-lambda{lambda_}-alpha{alpha:g}": _experiment(lambda_, alpha)
    for alpha in (0.0, 0.1)
    for lambda_ in (1000, 2000, 3000)
}
