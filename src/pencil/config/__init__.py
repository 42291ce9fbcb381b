"""Settings of a run: typed sections, reading and writing TOML, and explanations of all mistakes."""

from pencil.config.assign import assign, parse_assignment
from pencil.config.schema import RunConfig, read_table

__all__ = ["RunConfig", "assign", "parse_assignment", "read_table"]
