"""What decides a run: typed sections, TOML in and out, mistakes explained all at once."""

from pencil.config.assign import assign, parse_assignment
from pencil.config.schema import RunConfig, read_table

__all__ = ["RunConfig", "assign", "parse_assignment", "read_table"]
