"""Methods on one interface: PENCIL and its peers."""

from pencil.algorithm import Pencil
from pencil.methods.base import Look, Method, Surveying, Total
from pencil.methods.cross_entropy import CrossEntropy

__all__ = ["CrossEntropy", "Look", "Method", "Pencil", "Surveying", "Total"]
