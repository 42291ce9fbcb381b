"""Where per-example state lives: the given labels, and the rows a method learns."""

from pencil.stores.choice import USUAL_K, StoreChoice, choose_store, free_memory
from pencil.stores.given import Flags, GivenLabels, Labels
from pencil.stores.rows import DenseStore, RowStore, TopStore, rows_at_once

__all__ = [
    "USUAL_K",
    "DenseStore",
    "Flags",
    "GivenLabels",
    "Labels",
    "RowStore",
    "StoreChoice",
    "TopStore",
    "choose_store",
    "free_memory",
    "rows_at_once",
]
