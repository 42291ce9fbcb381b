"""Where per-example state lives: the given labels, and the rows a method learns."""

from pencil.stores.base import RowStore, rows_at_once
from pencil.stores.choice import USUAL_K, StoreChoice, choose_store, free_memory
from pencil.stores.dense import DenseStore
from pencil.stores.given import Flags, GivenLabels, Labels
from pencil.stores.top import TopStore

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
