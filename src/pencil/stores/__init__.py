"""Where per-example state lives: the given labels, and the rows a method learns."""

from pencil.stores.base import RowStore
from pencil.stores.dense import DenseStore
from pencil.stores.given import GivenLabels

__all__ = ["DenseStore", "GivenLabels", "RowStore"]
