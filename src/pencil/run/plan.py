"""Estimate memory, network traffic and checkpoint size of a run.

Bytes are exact counts. Times are based on speeds measured on one machine (see ``MEASURED``).
"""

from __future__ import annotations

from dataclasses import dataclass

from pencil.errors import ConfigError
from pencil.stores import StoreChoice, choose_store

LABEL = 8  # bytes of a given label in memory
ORDER = 24  # bytes per row while an epoch's order is drawn
WEIGHT = 4  # bytes of a float32
COPIES = 3  # of every weight: the weight, its gradient, its momentum
RESNET50 = 23_508_032  # weights before the last layer
SMALL = 10**9  # bytes of whole label rows that fit any machine


@dataclass(frozen=True)
class Speeds:
    """Speeds of one rank, per second.

    Attributes:
        row_updates: Label rows updated (gather, update, scatter) with 18,291 classes and k = 8.
        checkpoint_bytes: Bytes of rows written to a checkpoint and synced to disk.
    """

    row_updates: float
    checkpoint_bytes: float


# One rank on two virtual cores without GPU: benchmarks/label_store.py --rows 300000000 --classes 18291 --k 8
MEASURED = Speeds(row_updates=38_000, checkpoint_bytes=8e8)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The size of a run.

    Attributes:
        rows: Number of examples.
        classes: C.
        ranks: Number of processes that train together.
        k: Entries of a row to keep; None chooses by memory.
        batch_size: Examples per step, across all ranks.
        image_size: Height and width of the network's input in pixels; None for ``features``.
        features: Width of the last layer's input.
        parameters: Weights before the last layer.
        memory: Bytes of memory of one rank.
        parallel: ``ddp`` copies the network to every rank, ``fsdp`` divides it.
    """

    rows: int
    classes: int
    ranks: int = 1
    k: int | None = None
    batch_size: int = 1024
    image_size: int | None = 224
    features: int = 2048
    parameters: int = RESNET50
    memory: int = 24 * 2**30
    parallel: str = "ddp"

    def __post_init__(self) -> None:
        for name in ("rows", "classes", "ranks", "batch_size", "features", "memory"):
            if getattr(self, name) < 1:
                raise ConfigError(
                    f"--{name.replace('_', '-')} {getattr(self, name)}: must be at least 1; raise it"
                )
        if self.rows < self.ranks:
            raise ConfigError(f"--ranks {self.ranks}: more than the {self.rows} rows; use fewer")

    @property
    def rows_per_rank(self) -> int:
        """The rows of the rank with the most rows."""
        return -(-self.rows // self.ranks)

    @property
    def store(self) -> StoreChoice:
        """The requested store, or the one that ``auto`` would choose."""
        if self.k is not None:
            return StoreChoice(self.k)
        return choose_store(self.rows_per_rank, self.classes, can_cut=True, memory=self.memory)

    @property
    def weights(self) -> int:
        """The number of weights of the network."""
        return self.parameters + (self.features + 1) * self.classes

    def figures(self, speeds: Speeds = MEASURED) -> dict[str, int | float | str]:
        """Bytes and seconds by name, for one rank unless the name says otherwise."""
        row = self.store.bytes_per_row(self.classes)
        table, network = self.rows_per_rank * row, self._network_bytes()
        checkpoint = self.rows * row + (COPIES - 1) * WEIGHT * self.weights
        labels = self.rows_per_rank * (LABEL + ORDER)
        batch = -(-self.batch_size // self.ranks) * (self._input_bytes() + 3 * WEIGHT * self.classes)
        return {
            "rows_per_rank": self.rows_per_rank,
            "store": str(self.store),
            "bytes_per_row": row,
            "label_rows_bytes": table,
            "given_labels_and_order_bytes": labels,
            "network_bytes": network,
            "batch_bytes": batch,
            "memory_bytes": (0 if self.store.mapped else table) + labels + network + batch,
            "disk_bytes": table if self.store.mapped else 0,
            "wire_bytes_per_step_labels": 0,
            "wire_bytes_per_step_gradients": self._wire_bytes(),
            "checkpoint_bytes_of_all_ranks": checkpoint,
            "checkpoint_seconds": round(checkpoint / self.ranks / speeds.checkpoint_bytes, 1),
            "label_step_seconds_per_epoch": round(self.rows_per_rank / speeds.row_updates, 1),
        }

    @property
    def advice(self) -> str:
        """A recommendation for this size."""
        whole = 4 * self.rows * self.classes
        if whole <= SMALL:
            return (
                f"whole label rows take {whole / 1e6:,.0f} MB; one process with the default store is enough"
            )
        memory = self.figures()["memory_bytes"]
        assert isinstance(memory, int)
        if memory > self.memory:
            return f"{memory / 2**30:,.0f} GiB do not fit into {self.memory / 2**30:,.0f} GiB; use more ranks"
        return f"fits: {memory / 2**30:,.1f} of {self.memory / 2**30:,.0f} GiB on each rank"

    def _network_bytes(self) -> int:
        whole = COPIES * WEIGHT * self.weights
        return -(-whole // self.ranks) if self.parallel == "fsdp" else whole

    def _input_bytes(self) -> int:
        """One example as bytes and as float32."""
        values = self.features if self.image_size is None else 3 * self.image_size**2
        return (1 + WEIGHT) * values

    def _wire_bytes(self) -> int:
        """Bytes that a rank sends in a ring all-reduce of the gradients; FSDP also gathers the weights twice."""
        rounds = 3 if self.parallel == "fsdp" else 2
        return rounds * WEIGHT * self.weights * (self.ranks - 1) // self.ranks
