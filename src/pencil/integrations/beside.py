"""A ``LabelLearner`` beside somebody else's trainer: what the adapters for Lightning, Transformers and skorch share.

The trainer owns network, data and optimiser. It has to do four things for the learner: ask it for the loss, tell it the
time before a step and the end of a step, and keep its state.
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
from pencil.errors import ConfigError, DataError, NotFiniteError, RunError

LABELS_FILE = "pencil_labels.safetensors"
Batches = Iterable[tuple[Any, Tensor]]
"""(inputs, rows (B,)): every row once, as the network sees it in evaluation."""


def require_fit(learner: LabelLearner, survey: Batches | None, *, epochs: int | None, processes: int) -> None:
    """Refuse what would go wrong in silence; warn where the trainer's plan is not the learner's.

    Args:
        learner: The labels.
        survey: Batches for methods that look at all rows together.
        epochs: How many the trainer will train; None where it does not know.
        processes: How many it trains in.
    """
    name = learner.method.name
    if processes > 1:
        raise ConfigError(
            f"{processes} processes would each learn labels of their own; use one, or torchrun -m pencil train"
        )
    if learner.method.mixing() is not None:
        raise ConfigError(f"method {name!r} mixes examples, which pencil's own loop does; use pencil train")
    if survey is None and _surveys_predictions(learner):
        raise ConfigError(
            f"method {name!r} looks at all rows before some epochs; give survey= batches of (inputs, indices)"
        )
    planned = total_epochs(learner.phases)
    if epochs is not None and epochs != planned:
        warnings.warn(f"the trainer plans {epochs} epochs, the phases {planned}", stacklevel=3)


def _surveys_predictions(learner: LabelLearner) -> bool:
    epochs = range(total_epochs(learner.phases))
    return learner.method.surveys_predictions and any(
        learner.method.survey_due(moment_at(learner.phases, epoch)) for epoch in epochs
    )


def tell_time(learner: LabelLearner, epoch: int, done: int = 0, steps: int = 1) -> None:
    """Set the clock before an optimiser step: ``done`` of the epoch's ``steps`` are taken."""
    learner.epoch = epoch + done / steps


def set_rates(optimizers: Iterable[Optimizer], rate: float) -> None:
    """Give every group of parameters this learning rate."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate


def survey_rows(
    learner: LabelLearner,
    network: nn.Module,
    forward: Callable[[Any], Tensor],
    batches: Callable[[], Batches],
) -> None:
    """Let the learner look at all rows, where it is due before this epoch.

    Args:
        learner: The labels; its clock stands at the beginning of an epoch.
        network: Put into evaluation while it looks.
        forward: Inputs to logits (B, C).
        batches: All rows, as often as asked for.
    """

    def look() -> Iterator[tuple[Tensor, Tensor]]:
        seen = 0
        with _evaluating(network):
            for inputs, rows in batches():
                with torch.no_grad():
                    logits = forward(inputs)
                seen += len(rows)
                probs = logits.float().softmax(dim=-1).cpu()
                if not is_finite(probs):
                    raise NotFiniteError(
                        "survey: the network's predictions are not finite; lower the learning rate"
                    )
                yield rows.cpu(), probs
        if seen != len(learner.given):
            raise DataError(
                f"survey: {seen} of {len(learner.given)} rows were shown; give a loader of all rows, no iterator"
            )

    learner.survey(look)


@contextlib.contextmanager
def _evaluating(network: nn.Module) -> Iterator[None]:
    """In evaluation; afterwards every module is in the mode it was in."""
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def label_state(learner: LabelLearner) -> dict[str, Tensor]:
    """All that the learner knows, as tensors that are not copied; the trainer keeps the time."""
    rows = {f"rows/{name}": value for name, value in learner.store.state().items()}
    return rows | {f"shared/{name}": value for name, value in learner.shared.items()}


def load_label_state(learner: LabelLearner, state: Mapping[str, Tensor]) -> None:
    """Put it back, into a learner of the same labels, method and store."""
    now = label_state(learner)
    found, wanted = ({name: tuple(value.shape) for name, value in each.items()} for each in (state, now))
    if found != wanted:
        raise RunError(
            f"the checkpoint holds labels {found}, the learner {wanted}; resume with the data and method it began with"
        )
    for name, value in learner.store.state().items():
        value.copy_(state[f"rows/{name}"])
    learner.shared = {name: state[f"shared/{name}"].cpu().clone() for name in learner.shared}


def save_label_file(learner: LabelLearner, path: Path) -> None:
    """The state as safetensors."""
    with replacing(path) as partial:
        save_file({name: value.contiguous() for name, value in label_state(learner).items()}, partial)


def load_label_file(learner: LabelLearner, path: Path) -> None:
    """The state from safetensors."""
    if not path.exists():
        raise RunError(f"{path} is missing; the checkpoint was not taken with these labels")
    load_label_state(learner, load_file(path))
