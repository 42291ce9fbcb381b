"""What a reader returns: examples with numbered rows, given labels and ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from torch import Tensor

from pencil.data.inputs import Inputs, subset_inputs
from pencil.errors import DataError
from pencil.stores import GivenLabels


@dataclass(frozen=True)
class RowNumbers(Sequence[str]):
    """Names for rows that have none of their own: "0", "1", ... without holding a list."""

    num_rows: int
    are_generated: ClassVar[bool] = True

    def __len__(self) -> int:
        return self.num_rows

    def __getitem__(self, index: Any) -> Any:
        found = range(self.num_rows)[index]
        return str(found) if isinstance(found, int) else [str(row) for row in found]


@dataclass(frozen=True)
class SubsetNames(Sequence[str]):
    """Names of some rows, looked up when needed; some of some refer to all."""

    base: Sequence[str]
    indices: Tensor

    def __post_init__(self) -> None:
        if isinstance(self.base, SubsetNames):
            object.__setattr__(self, "indices", self.base.indices[self.indices])
            object.__setattr__(self, "base", self.base.base)

    def __len__(self) -> int:
        return self.indices.shape[0]

    def __getitem__(self, index: Any) -> Any:
        found = self.indices[index]
        return self.base[int(found)] if found.dim() == 0 else [self.base[row] for row in found.tolist()]


@dataclass(frozen=True)
class Examples:
    """One split of a data set.

    Attributes:
        inputs: The network's inputs by row.
        labels: ŷ by row, as given (or as a noise generator made them).
        class_names: One name per class.
        ids: What identifies each row: a file name, or its number in the source.
        reference: (N,) true labels where they are known. For measuring only; no method sees them.
    """

    inputs: Inputs
    labels: GivenLabels
    class_names: tuple[str, ...]
    ids: Sequence[str]
    reference: Tensor | None = None

    def __post_init__(self) -> None:
        sizes = {"inputs": len(self.inputs), "labels": len(self.labels), "ids": len(self.ids)}
        if len(set(sizes.values())) != 1:
            raise DataError(f"inputs, labels and ids differ in length: {sizes}")
        if len(set(self.class_names)) != len(self.class_names):
            twice = next(name for name, count in Counter(self.class_names).items() if count > 1)
            raise DataError(f"two classes have the name {twice!r}; rename one")
        broken = next((name for name in self.class_names if not _is_utf8(name)), None)
        if broken is not None:
            raise DataError(
                f"the class name {broken!r} is not UTF-8; rename its folder, or its entry in the file"
            )
        if self.reference is not None and len(self.reference) != len(self.labels):
            raise DataError(f"{len(self.reference)} reference labels for {len(self.labels)} rows")
        if len(self.class_names) != self.labels.num_classes:
            raise DataError(f"{len(self.class_names)} class names for {self.labels.num_classes} classes")

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def num_classes(self) -> int:
        """C."""
        return self.labels.num_classes

    def subset(self, indices: Tensor) -> Examples:
        """Some rows, renumbered from 0; their ids stay."""
        return Examples(
            inputs=subset_inputs(self.inputs, indices),
            labels=self.labels.subset(indices),
            class_names=self.class_names,
            ids=SubsetNames(self.ids, indices),
            reference=None if self.reference is None else self.reference[indices],
        )

    def with_labels(self, labels: GivenLabels) -> Examples:
        """The same examples with other given labels; the old ones become the reference where none is known."""
        reference = self.labels.hard if self.reference is None else self.reference
        return replace(self, labels=labels, reference=reference)


@dataclass(frozen=True)
class Unlabelled:
    """Rows without labels, to predict: inputs and ids.

    Attributes:
        inputs: The network's inputs by row.
        ids: What identifies each row.
        skipped_rows: Rows that cannot be read, with the reason, where they may be skipped.
    """

    inputs: Inputs
    ids: Sequence[str]
    skipped_rows: Mapping[str, str] = field(default_factory=dict, kw_only=True)

    def __len__(self) -> int:
        return len(self.inputs)

    def subset(self, indices: Tensor) -> Unlabelled:
        """Some rows, renumbered from 0; their ids stay."""
        inputs, ids = subset_inputs(self.inputs, indices), SubsetNames(self.ids, indices)
        return replace(self, inputs=inputs, ids=ids)


@dataclass(frozen=True)
class Splits:
    """What a data source offers: examples to train on and, where it has them, examples to test on.

    Attributes:
        train: Examples to train on.
        test: Examples to test on.
        validation: Examples that the source itself holds out.
        skipped: Missing parts of the source with their numbers of rows, where they may be skipped.
        skipped_rows: Rows that cannot be read, with the reason, where they may be skipped.
    """

    train: Examples
    test: Examples | None = None
    validation: Examples | None = field(default=None, kw_only=True)
    skipped: Mapping[str, int] = field(default_factory=dict, kw_only=True)
    skipped_rows: Mapping[str, str] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        for name, other in (("test", self.test), ("validation", self.validation)):
            if other is not None and other.class_names != self.train.class_names:
                raise DataError(
                    f"{name}: its {other.num_classes} classes are not the {self.train.num_classes} of the training "
                    "examples; give both the same class_names, in the same order"
                )
            if other is not None and not len(other):
                raise DataError(f"{name}: it has no example; leave it out, or give it some")


def _is_utf8(name: str) -> bool:
    """Whether a name can be written to the files of a run; the name of a folder may be any bytes."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
