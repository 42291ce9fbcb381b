"""PENCIL as a pure function: logits and label rows in, a loss and new label rows out.

The method owns no table and no clock. Its caller (the engine, or a loop of your own through ``LabelLearner``) gathers
the rows of a batch, calls ``step``, and writes the rows that it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypedDict, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

from pencil.algorithm.certificates import flip_certificates
from pencil.algorithm.checks import require_amounts, require_positive
from pencil.algorithm.interface import Method, Rows, Step
from pencil.algorithm.losses import Direction, Form, Shares, balance_loss, cross_entropy, network_loss
from pencil.algorithm.phases import Moment, Phase
from pencil.algorithm.schedule import Schedule, require_rate, scaled
from pencil.algorithm.top_rows import TopRows, start_top_rows, top_network_loss, updated_top_rows
from pencil.algorithm.update import start_label_logits, updated_label_logits


class Knobs(TypedDict):
    """The settings of the label update at one moment."""

    label_rate: float
    pull: float
    form: Form
    direction: Direction


@dataclass(frozen=True, kw_only=True)
class Pencil(Method):
    """Probabilistic end-to-end noise correction (Yi & Wu, CVPR 2019), in knobs without units.

    Every number is finite and at most ``checks.LARGEST``.

    Attributes:
        label_rate: η = λ / (B c), the label step per visit during the correction phase. May be a schedule.
        pull: κ = c α, how strongly labels are held to the given ones.
        entropy_weight: β, the weight of L_e during the correction phase.
        form: The compatibility loss, ``printed`` in the paper or as in the authors' ``reference`` program.
            With the printed form and κ >= 1 no label can flip at small η (see ``certificates``).
        direction: KL(f || y^d) (Eq. 4, ``prediction_label``) or KL(y^d || f) (Eq. 2, ``label_prediction``).
        initial_gap: K of Eq. 8, the label logit of the given class at the start.
        balance: The weight of ``balance_loss`` in the correction phase: predictions keep to the classes' shares, among
            the examples that pass the network together. Helps where classes are many and rows for each few; not in
            the paper, so 0.
        shares: Which shares: those of the ``given`` labels, or ``uniform`` where the classes are known to be alike.
        divide_by_classes: Keep Eq. 9's factor 1/c on the network's loss. The paper's learning rates assume
            it; without it a learning rate means the same for every class count.
    """

    learns_labels: ClassVar[bool] = True
    rows_are_beliefs: ClassVar[bool] = True
    label_rate: Schedule = 1.0
    pull: float = 1.0
    entropy_weight: float = 0.8
    form: Form = "reference"
    direction: Direction = "prediction_label"
    initial_gap: float = 10.0
    balance: float = 0.0
    shares: Shares = "given"
    divide_by_classes: bool = False
    name: Literal["pencil"] = "pencil"

    def __post_init__(self) -> None:
        for name, known in (("form", Form), ("direction", Direction), ("shares", Shares)):
            if getattr(self, name) not in get_args(known):
                words = ", ".join(get_args(known))
                raise ValueError(f"{name}: {getattr(self, name)!r} is unknown; use one of {words}")
        require_positive(self, "initial_gap")
        require_amounts(self, "pull", "entropy_weight", "balance")
        require_rate("label_rate", self.label_rate)

    @classmethod
    def from_paper(
        cls, *, lambda_: Schedule, alpha: float, beta: float, batch_size: int, num_classes: int, form: Form
    ) -> Pencil:
        """The method in the paper's terms: η = λ / (B c), κ = c α, and Eq. 9's 1/c kept.

        ``form`` has no default: the paper prints one compatibility loss and its program runs another.
        """
        return cls(
            label_rate=scaled(lambda_, 1 / (batch_size * num_classes)),
            pull=num_classes * alpha,
            entropy_weight=beta,
            form=form,
            divide_by_classes=True,
        )

    def warnings(self, phases: Sequence[Phase], *, hard: bool) -> Sequence[str]:
        """Why no label can flip; the proofs are for hard labels."""
        return flip_certificates(self, phases) if hard else ()

    def cut(self, k: int) -> TopPencil:
        """PENCIL on rows cut to their ``k`` largest entries."""
        return TopPencil(self, k)

    def row_width(self, num_classes: int) -> int:
        """A row is ỹ: one logit per class."""
        return num_classes

    def start_rows(self, given: Tensor, num_classes: int) -> Tensor:
        """Eq. 8: the rows (B, C) as training begins."""
        return start_label_logits(given, num_classes, self.initial_gap)

    def label_distribution(self, rows: Tensor, given: Tensor, num_classes: int) -> Tensor:
        """Eq. 7: y^d (B, C), the belief about the true labels that these rows hold."""
        return rows.softmax(dim=1)

    def step(self, logits: Tensor, rows: Tensor, given: Tensor, moment: Moment) -> Step:
        """The loss of a batch and its new rows, by the phase's rule (Sec. 3.6)."""
        return self._by_phase(
            logits,
            given,
            moment,
            loss=lambda weight: network_loss(logits, rows, weight, self.direction),
            moved=lambda: updated_label_logits(rows, _probs(logits, rows), given, **self._knobs(moment)),
        )

    def _by_phase(
        self,
        logits: Tensor,
        given: Tensor,
        moment: Moment,
        *,
        loss: Callable[[float], Tensor],
        moved: Callable[[], Rows],
    ) -> Step:
        """backbone: cross entropy with the given labels. correction: L_c + β L_e (+ balance), and the labels move.

        finetune: L_c alone, labels fixed. ``loss`` takes β; ``moved`` makes one closed-form label update.
        """
        if moment.phase.name == "backbone":
            return Step(cross_entropy(logits, given))
        scale = 1 / logits.shape[1] if self.divide_by_classes else 1.0
        if moment.phase.name == "finetune":
            return Step(scale * loss(0.0))
        balance = self.balance * balance_loss(logits, given, self.shares) if self.balance else 0.0
        return Step(scale * (loss(self.entropy_weight) + balance), moved())

    def _knobs(self, moment: Moment) -> Knobs:
        """The settings of the label update, at this moment's label rate."""
        return {
            "label_rate": moment.value(self.label_rate),
            "pull": self.pull,
            "form": self.form,
            "direction": self.direction,
        }


@dataclass(frozen=True)
class TopPencil(Method):
    """PENCIL on rows cut to their k largest entries (``top_rows``), for many classes and many examples."""

    learns_labels: ClassVar[bool] = True
    rows_are_beliefs: ClassVar[bool] = True
    pencil: Pencil
    k: int

    @property
    def name(self) -> str:
        """That of PENCIL on whole rows."""
        return self.pencil.name

    def row_width(self, num_classes: int) -> int:
        """One logit per class, of which the store keeps k."""
        return num_classes

    def start_rows(self, given: Tensor, num_classes: int) -> TopRows:
        """Eq. 8, cut."""
        return start_top_rows(given, num_classes, self.k, self.pencil.initial_gap)

    def label_distribution(self, rows: TopRows, given: Tensor, num_classes: int) -> TopRows:
        """Eq. 7: y^d, cut."""
        return rows.softmax()

    def step(self, logits: Tensor, rows: TopRows, given: Tensor, moment: Moment) -> Step:
        """As ``Pencil.step``; with many classes f is costly, so loss and update share it."""
        pencil = self.pencil
        log_probs = F.log_softmax(logits, dim=1)
        probs = log_probs.exp()
        return pencil._by_phase(
            logits,
            given,
            moment,
            loss=lambda weight: top_network_loss(log_probs, probs, rows, weight, pencil.direction),
            moved=lambda: self.moved_rows(probs.detach(), rows, given, moment),
        )

    def moved_rows(self, probs: Tensor, rows: TopRows, given: Tensor, moment: Moment) -> TopRows:
        """One closed-form label update from f (B, C), at this moment's label rate."""
        return updated_top_rows(rows, probs, given, **self.pencil._knobs(moment))


def _probs(logits: Tensor, like: Tensor) -> Tensor:
    """F (B, C), in no less precision than the rows have."""
    return logits.detach().to(torch.promote_types(logits.dtype, like.dtype)).softmax(dim=1)
