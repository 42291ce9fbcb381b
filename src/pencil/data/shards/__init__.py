"""Data sets in shards: tar files in the WebDataset layout or Parquet files, local or remote, found by an index."""

from pencil.data.shards.files import damaged_shards
from pencil.data.shards.index import MANIFEST, ShardIndex
from pencil.data.shards.inputs import read_shards
from pencil.data.shards.samples import Fields
from pencil.data.shards.write import write_index

__all__ = ["MANIFEST", "Fields", "ShardIndex", "damaged_shards", "read_shards", "write_index"]
