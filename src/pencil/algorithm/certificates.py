"""Before training: can a label flip at all with these settings?

Both certificates are proofs, for hard given labels and KL(f || y^d), whatever the network predicts at each visit. They
are cheap to compute and worth a warning: a run that fails one trains a robust network at best, but corrects nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Protocol

from pencil.algorithm.losses import Direction, Form
from pencil.algorithm.phases import Phase
from pencil.algorithm.schedule import PiecewiseSchedule, Schedule, value_at


class Update(Protocol):
    """The settings of a label update, which the proofs are about; ``Pencil`` has them."""

    @property
    def label_rate(self) -> Schedule:
        """η."""

    @property
    def pull(self) -> float:
        """κ."""

    @property
    def form(self) -> Form:
        """The compatibility loss."""

    @property
    def direction(self) -> Direction:
        """The direction of KL."""

    @property
    def initial_gap(self) -> float:
        """K of Eq. 8."""


def flip_certificates(method: Update, phases: Sequence[Phase]) -> list[str]:
    """Why no hard label can flip, one sentence for each proof that applies; empty where labels may flip."""
    correction = [phase for phase in phases if phase.name == "correction" and phase.epochs > 0]
    if not correction:
        return ["no label can flip: there is no correction phase; add one to phases, or use cross_entropy"]
    found = (pull_certificate(method, correction), budget_certificate(method, correction))
    return [sentence for sentence in found if sentence]


def pull_certificate(method: Update, correction: Sequence[Phase]) -> str | None:
    """Printed form, and a pull that no prediction can overcome: ``pull_margin`` is not negative.

    The margin is concave in η and 0 at η = 0, so the largest rate decides for all smaller ones.
    """
    if method.direction != "prediction_label":
        return None  # the gradient of KL(y^d || f) is not bounded, and the proof does not hold
    rate = max(value for phase in correction for value in visit_rates(method.label_rate, phase))
    if method.form != "printed" or method.pull < 1 or pull_margin(rate, method.pull) < 0:
        return None
    return (
        f"no label can flip: with the printed compatibility loss, pull κ = {method.pull:g} holds every label to "
        f"the given one at label rates up to η = {rate:g}; use pull < 1 (0.3 is a good start) or form = 'reference'"
    )


def pull_margin(label_rate: float, pull: float) -> float:
    """The smallest gap that can be left between the given label's logit and another's after one visit.

    With d >= 0 that gap before the visit, y_a - y_b <= tanh(d/2) and f_a - f_b >= -1, so after it

        d' >= d - η (1 + κ) tanh(d/2) + η (κ - 1),

    whose minimum over d >= 0 is at tanh²(d/2) = 1 - 2/A, where A = η (1 + κ) > 2, and at d = 0 below that.
    """
    total = label_rate * (1 + pull)
    if total <= 2:
        return label_rate * (pull - 1)
    lowest = math.sqrt(1 - 2 / total)
    return 2 * math.atanh(lowest) - total * lowest + label_rate * (pull - 1)


def budget_certificate(method: Update, correction: Sequence[Phase]) -> str | None:
    """A visit closes the gap between two label logits by at most 2 η, and the gap starts at K."""
    if method.direction != "prediction_label":
        return None  # as above
    budget = sum(2 * value for phase in correction for value in visit_rates(method.label_rate, phase))
    if budget >= method.initial_gap:
        return None
    epochs = sum(phase.epochs for phase in correction)
    constant = isinstance(method.label_rate, int | float) and method.label_rate > 0
    needed = (
        f"train at least {math.ceil(epochs * method.initial_gap / budget)} correction epochs or "
        if constant
        else ""
    )
    return (
        f"no label can flip: {epochs} epoch{'s' * (epochs > 1)} of correction move the gap between two label logits by "
        f"at most {budget:.3g}, and it starts at initial_gap = {method.initial_gap:g}; {needed}raise label_rate"
    )


def visit_rates(rate: Schedule, phase: Phase) -> Iterator[float]:
    """The largest label rate a row can meet at its one visit in each epoch of the phase."""
    jumps = rate.boundaries if isinstance(rate, PiecewiseSchedule) else ()
    for epoch in range(phase.epochs):
        inside = (jump for jump in jumps if epoch < jump < epoch + 1)
        yield max(value_at(rate, instant, phase.epochs) for instant in (epoch, *inside, epoch + 1))
