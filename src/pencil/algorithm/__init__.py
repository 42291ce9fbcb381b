"""PENCIL itself: losses, the closed-form label update, phases, the method, certificates. Torch and nothing else."""

from pencil.algorithm.certificates import flip_certificates
from pencil.algorithm.losses import (
    Direction,
    Form,
    Shares,
    balance_loss,
    classification_loss,
    compatibility_loss,
    cross_entropy,
    entropy_loss,
    kl_divergence,
    network_loss,
)
from pencil.algorithm.method import Pencil, Rows, Step, TopPencil
from pencil.algorithm.phases import Moment, Phase, moment_at, three_phases, total_epochs
from pencil.algorithm.schedule import (
    CosineSchedule,
    LinearSchedule,
    PiecewiseSchedule,
    Schedule,
    scaled,
    value_at,
)
from pencil.algorithm.top_rows import TopRows, cut
from pencil.algorithm.update import as_distribution, start_label_logits, updated_label_logits

__all__ = [
    "CosineSchedule",
    "Direction",
    "Form",
    "LinearSchedule",
    "Moment",
    "Pencil",
    "Phase",
    "PiecewiseSchedule",
    "Rows",
    "Schedule",
    "Shares",
    "Step",
    "TopPencil",
    "TopRows",
    "as_distribution",
    "balance_loss",
    "classification_loss",
    "compatibility_loss",
    "cross_entropy",
    "cut",
    "entropy_loss",
    "flip_certificates",
    "kl_divergence",
    "moment_at",
    "network_loss",
    "scaled",
    "start_label_logits",
    "three_phases",
    "total_epochs",
    "updated_label_logits",
    "value_at",
]
