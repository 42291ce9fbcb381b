"""What the adapters for Lightning, Transformers and skorch share: a ``LabelLearner`` in another trainer's loop.

The trainer owns network, data and optimiser. An adapter does four things for the learner: it calls its loss, sets its
clock before a step, calls its ``step`` after one, and stores its state.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from pencil.algorithm import moment_at, total_epochs
from pencil.durable import replacing
from pencil.engine import LabelLearner
from pencil.engine.finite import is_finite
from pencil.engine.learner_checks import refuse_calibrated
from pencil.errors import ConfigError, DataError, NotFiniteError, RunError

LABELS_FILE = "pencil_labels.safetensors"
Batches = Iterable[tuple[Any, Tensor]]
"""(inputs, indices (B,)): every row once, as the network receives it in evaluation."""


def require_fit(learner: LabelLearner, survey: Batches | None, *, epochs: int | None, processes: int) -> None:
    """Refuse what would silently give wrong labels; warn if trainer and phases differ in their number of epochs.

    Args:
        learner: The labels.
        survey: Batches for methods that look at all rows together.
        epochs: How many the trainer will run; None if unknown.
        processes: How many processes train.
    """
    refuse_calibrated(learner.phases)
    name = learner.method.name
    if processes > 1:
        raise ConfigError(
            f"{processes} processes would each learn their own labels; use one, or torchrun -m pencil train"
        )
    if learner.method.mixing() is not None:
        raise ConfigError(
            f"method {name!r} mixes examples, which requires pencil's own loop; use pencil train"
        )
    if survey is None and _surveys_predictions(learner):
        raise ConfigError(
            f"method {name!r} looks at all rows before some epochs; give survey= batches of (inputs, indices)"
        )
    planned = total_epochs(learner.phases)
    if epochs is not None and epochs != planned:
        warnings.warn(
            f"Trainer runs {epochs} epochs but the phases add up to {planned}; make them equal", stacklevel=3
        )


def _surveys_predictions(learner: LabelLearner) -> bool:
    epochs = range(total_epochs(learner.phases))
    return learner.method.surveys_predictions and any(
        learner.method.survey_due(moment_at(learner.phases, epoch)) for epoch in epochs
    )


def set_clock(learner: LabelLearner, epoch: int, done: int = 0, steps: int = 1) -> None:
    """Set the learner's clock before an optimiser step, after ``done`` of the epoch's ``steps``."""
    learner.epoch = epoch + done / steps


def set_rates(optimizers: Iterable[Optimizer], rate: float) -> None:
    """Set the learning rate of every group of parameters."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate


def survey_rows(
    learner: LabelLearner,
    network: nn.Module,
    forward: Callable[[Any], Tensor],
    batches: Callable[[], Batches],
) -> None:
    """Run the method's survey of all rows, if one is due before this epoch.

    Args:
        learner: The labels; its clock is at the start of an epoch.
        network: The network, which is in evaluation mode during the survey.
        forward: Inputs to logits (B, C).
        batches: Returns all rows each time it is called.
    """

    def look() -> Iterator[tuple[Tensor, Tensor]]:
        seen = 0
        with _evaluating(network):
            for inputs, indices in batches():
                with torch.no_grad():
                    logits = forward(inputs)
                seen += len(indices)
                probs = logits.float().softmax(dim=-1).cpu()
                if not is_finite(probs):
                    raise NotFiniteError(
                        "survey: the network's predictions are not finite; lower the learning rate"
                    )
                yield indices.cpu(), probs
        if seen != len(learner.given):
            raise DataError(
                f"survey: got {seen} of {len(learner.given)} rows; give a loader of all rows, not an iterator"
            )

    learner.survey(look)


@contextlib.contextmanager
def _evaluating(network: nn.Module) -> Iterator[None]:
    """Evaluation mode; afterwards every module returns to its former mode."""
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def label_state(learner: LabelLearner) -> dict[str, Tensor]:
    """The learner's state as tensors, not copied, without its clock: the trainer has its own."""
    rows = {f"rows/{name}": value for name, value in learner.store.state().items()}
    return rows | {f"shared/{name}": value for name, value in learner.shared.items()}


def load_label_state(learner: LabelLearner, state: Mapping[str, Tensor]) -> None:
    """Restore a state into a learner of the same labels, method and store."""
    now = label_state(learner)
    found, wanted = ({name: tuple(value.shape) for name, value in each.items()} for each in (state, now))
    if found != wanted:
        raise RunError(
            f"the checkpoint has labels {found}, the learner {wanted}; resume with the same data and method"
        )
    for name, value in learner.store.state().items():
        value.copy_(state[f"rows/{name}"])
    learner.shared = {name: state[f"shared/{name}"].cpu().clone() for name in learner.shared}


def save_label_file(learner: LabelLearner, path: Path) -> None:
    """Save the state as safetensors."""
    with replacing(path) as partial:
        save_file({name: value.contiguous() for name, value in label_state(learner).items()}, partial)


def load_label_file(learner: LabelLearner, path: Path) -> None:
    """Load the state from safetensors."""
    if not path.exists():
        raise RunError(f"{path} is missing; resume from a checkpoint that was saved with labels")
    load_label_state(learner, load_file(path))
