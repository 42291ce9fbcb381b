"""PENCIL itself, and the interface of all methods (``interface``): losses, label update, phases, certificates.

Needs torch and nothing else.
"""

from pencil.algorithm.certificates import flip_certificates
from pencil.algorithm.interface import Guess, Method, Mixing, Rows, Step, Survey
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
from pencil.algorithm.method import Pencil, TopPencil
from pencil.algorithm.phases import Moment, Phase, backbone_epochs, moment_at, three_phases, total_epochs
from pencil.algorithm.schedule import (
    CosineSchedule,
    LinearSchedule,
    PiecewiseSchedule,
    Schedule,
    scaled,
    value_at,
)
from pencil.algorithm.top_rows import TopRows, cut
from pencil.algorithm.update import as_distribution, normalized_or, start_label_logits, updated_label_logits

__all__ = [
    "CosineSchedule",
    "Direction",
    "Form",
    "Guess",
    "LinearSchedule",
    "Method",
    "Mixing",
    "Moment",
    "Pencil",
    "Phase",
    "PiecewiseSchedule",
    "Rows",
    "Schedule",
    "Shares",
    "Step",
    "Survey",
    "TopPencil",
    "TopRows",
    "as_distribution",
    "backbone_epochs",
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
    "normalized_or",
    "scaled",
    "start_label_logits",
    "three_phases",
    "total_epochs",
    "updated_label_logits",
    "value_at",
]
