"""Settings of data: what every kind shares, label noise, and verified labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from pencil.algorithm.checks import require
from pencil.algorithm.transition import Matrix, wrong_row
from pencil.data.prepare import Augment

INTEGERS = 2**63  # settings are stored as TOML, whose integers have 64 bits
Seed = Annotated[int, Field(ge=-INTEGERS, lt=INTEGERS)]


class Section(BaseModel):
    """A part of the configuration: frozen, and refusing fields it does not know and numbers that are not finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class RateNoise(Section):
    """Seeded noise of one rate: ``symmetric`` and ``circular`` for any classes, ``cifar10``'s map, ``instance``."""

    kind: Literal["symmetric", "circular", "cifar10", "instance"]
    rate: float = Field(ge=0, le=1, description="the share of labels that become wrong")
    seed: Seed | None = Field(default=None, description="default: the run's seed")


class MatrixNoise(Section):
    """Noise by a transition matrix: row i holds the probabilities of each label where i is true."""

    kind: Literal["matrix"]
    matrix: Matrix = Field(description="rows that sum to 1, one for each class")
    seed: Seed | None = Field(default=None, description="default: the run's seed")

    @field_validator("matrix")
    @classmethod
    def _distributions(cls, matrix: Matrix) -> Matrix:
        if (number := wrong_row(matrix)) is not None:
            demand = f"must be {len(matrix)} numbers that are not negative and sum to 1"
            require(False, f"row {number}", matrix[number], demand)
        return matrix


class LabelFile(Section):
    """Labels from a file in place of the data set's own, such as CIFAR-N's."""

    kind: Literal["file"]
    path: str = Field(description="a .npy, .npz, .csv, .txt or .pt with a label for each training row")
    key: str | None = Field(default=None, description="which array of the file, if it has several")


Noise = Annotated[RateNoise | MatrixNoise | LabelFile, Field(discriminator="kind")]


class TrustedLabels(Section):
    """Verified labels: they replace the given ones and stay fixed; dropped rows are left out."""

    path: str = Field(description="a reviewed run, or a .csv with the columns id and label")
    entry: int | None = Field(
        default=None,
        ge=0,
        description="of a reviewed run: the last entry of its history to use; None: the newest when training begins",
    )
    run_id: str | None = Field(
        default=None, description="the id of that run; another run in its place is refused"
    )
    digest: str | None = Field(
        default=None, description="of its history up to the entry; another one is refused"
    )


class DataSection(Section):
    """Settings that all kinds of data share.

    A kind of data derives from it and adds ``kind``, annotated as a ``Literal`` of its name, and its own settings.
    """

    if TYPE_CHECKING:
        kind: str

    path: str = Field(
        description="the file or folder; for shards the folder that pencil index wrote; for python the function"
    )
    noise: Noise | None = Field(
        default=None, description="noise added to the labels that are read; files are not changed"
    )
    validation: float = Field(
        default=0.0, ge=0, lt=1, description="share of the training rows to hold out, with their given labels"
    )
    trusted: TrustedLabels | None = Field(default=None, description="verified labels, by id")
    per_class: int | None = Field(
        default=None, ge=1, description="train on this many rows of each given label, drawn by seed"
    )
    limit: int | None = Field(default=None, ge=1, description="train on this many rows, drawn by seed")
    on_error: Literal["error", "skip"] = Field(
        default="error",
        description="skip: check every row first, and leave out those that cannot be read",
    )
    embed: str | None = Field(
        default=None,
        description="replace images, texts or records by the features of this pretrained encoder, such as "
        "transformers:facebook/dinov2-small",
    )
    normalize: Literal["auto", "mean", "none"] = Field(
        default="auto", description="auto: remove mean and deviation; mean: remove the mean only"
    )
    augment: Augment | None = Field(default=None, description="random crops and flips of training images")
    ceiling: Literal["clean", "oracle"] | None = Field(
        default=None,
        description="for comparison: clean: train on the true labels; oracle: only on rows whose given label is right",
    )
