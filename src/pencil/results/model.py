"""The trained model on disk: its weights, and a card that describes how to build and feed it.

Inference does not require this package: ``model.safetensors`` is the module's ``state_dict``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from pencil.errors import RunError
from pencil.identity import run_id
from pencil.results.files import damaged, read_record, read_tensors, write_record, write_tensors

WEIGHTS = "model.safetensors"
CARD = "model.json"
EXPERT = "expert.safetensors"
MOST_VALUES = 1 << 28  # of one input, such as an image of 9,000 by 9,000 pixels
MOST_CLASSES = 1 << 24


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """How to build and feed a saved model.

    Attributes:
        name: The model's name, as in the config.
        args: The model's other arguments.
        input_shape: The shape of one input.
        class_names: The classes, in the order of the logits.
        mean: Per-channel mean to subtract after scaling to [0, 1]; None for inputs without normalization.
        std: Per-channel standard deviation to divide by.
        crop: Side of the square center crop of an image; None for whole images.
    """

    name: str
    args: dict[str, Any]
    input_shape: tuple[int, ...]
    class_names: tuple[str, ...]
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    crop: int | None = None


def save_model(folder: Path, state: Mapping[str, Any], card: ModelCard) -> None:
    """Write the weights of a ``state_dict`` and the card."""
    # Cloned, because safetensors rejects weights that share memory (tied layers).
    weights = {
        name: value.cpu().contiguous().clone() for name, value in state.items() if isinstance(value, Tensor)
    }
    write_tensors(folder / WEIGHTS, weights, run_id(folder))
    write_record(folder / CARD, asdict(card), indent=2, ensure_ascii=False)


def read_card(folder: Path) -> ModelCard:
    """Read the card of a saved model."""
    file = folder / CARD
    if not file.is_file():
        raise RunError(
            f"{folder} has no trained model ({CARD} is missing); finish it with: pencil resume {folder}"
        )
    card: ModelCard = read_record(file, ModelCard)
    problem = _problem(card)
    if problem is not None:
        raise damaged(file, problem)
    return card


def _problem(card: ModelCard) -> str | None:
    """Describe what is invalid in a card; None if the card is valid."""
    shape, values = card.input_shape, math.prod(card.input_shape)
    if not 1 <= len(shape) <= 4 or min(shape) < 1 or values > MOST_VALUES:
        return f"input_shape: {list(shape[:9])} is not the shape of an input"
    if not 1 <= len(card.class_names) <= MOST_CLASSES:
        return f"class_names: {len(card.class_names):,} classes"
    if (card.mean is None) != (card.std is None) or (card.crop is not None and card.crop < 1):
        return "mean and std must be given together, and crop must be at least 1"
    if card.mean is not None and card.std is not None and not _normalizes(card.mean, card.std, shape[0]):
        return f"mean and std must hold {shape[0]:,} finite numbers each, and those of std must be positive"
    return None


def _normalizes(mean: tuple[float, ...], std: tuple[float, ...], channels: int) -> bool:
    return len(mean) == len(std) == channels and all(map(math.isfinite, (*mean, *std))) and min(std) > 0


def save_expert(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write the tensors of a second expert; see ``pencil.models.expert``."""
    write_tensors(folder / EXPERT, {name: value.clone() for name, value in tensors.items()}, run_id(folder))


def read_expert(folder: Path, card: ModelCard) -> dict[str, Tensor]:
    """Read the tensors of a second expert."""
    file = folder / EXPERT
    if not file.is_file():
        raise RunError(
            f"{folder} has no second expert; train it on features with: --start prototypes, or leave --expert out"
        )
    tensors = read_tensors(file)
    width = (
        len(tensors["offset"]) if tensors.get("offset") is not None and tensors["offset"].dim() == 1 else 0
    )
    shapes = {
        "weight": (*card.input_shape, width),
        "offset": (width,),
        "centre": (width,),
        "prototypes": (len(card.class_names), width),
        "sharpness": (),
    }
    for name, shape in shapes.items():
        if (
            name not in tensors
            or tuple(tensors[name].shape) != shape
            or not bool(tensors[name].isfinite().all())
        ):
            raise damaged(file, f"{name} must be finite numbers of shape {shape}")
    return tensors


def load_weights(folder: Path, model: nn.Module) -> None:
    """Load saved weights into a model."""
    weights = read_tensors(folder / WEIGHTS)
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise RunError(
            f"{folder / WEIGHTS}: the weights do not fit the network that model.name builds now ({error}); "
            "restore the code that trained this model"
        ) from error
