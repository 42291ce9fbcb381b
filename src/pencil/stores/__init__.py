"""Where per-example state lives: the given labels, and the rows a method learns."""

from pencil.stores.base import RowStore, rows_at_once
from pencil.stores.choice import StoreChoice, choose_store, free_memory
from pencil.stores.dense import DenseStore
from pencil.stores.given import GivenLabels
from pencil.stores.top import TopStore

__all__ = [
    "DenseStore",
    "GivenLabels",
    "RowStore",
    "StoreChoice",
    "TopStore",
    "choose_store",
    "free_memory",
    "rows_at_once",
]
