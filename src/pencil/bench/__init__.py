"""Comparisons of methods: a grid of runs from one file, their results, tables of them."""

from pencil.bench.grid import Cell, Grid
from pencil.bench.results import read_results, write_parquet
from pencil.bench.runner import Finished, Outcome, run_grid
from pencil.bench.tables import METRICS, Style, compare, tabulate

__all__ = [
    "METRICS",
    "Cell",
    "Finished",
    "Grid",
    "Outcome",
    "Style",
    "compare",
    "read_results",
    "run_grid",
    "tabulate",
    "write_parquet",
]
