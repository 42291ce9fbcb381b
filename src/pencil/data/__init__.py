"""Where examples come from: readers, noise, the order of rows, batches ready for the network."""

from pencil.data.attached import AttachedInputs, Beside, attach
from pencil.data.checking import leave_out_unreadable
from pencil.data.examples import Examples, RowNumbers, Splits, Unlabelled
from pencil.data.inputs import (
    DatasetInputs,
    Image,
    Inputs,
    Record,
    Shown,
    TensorInputs,
    Text,
    as_text,
    blocks_of,
    content,
    is_text,
    shown,
)
from pencil.data.keys import known_keys, row_keys
from pencil.data.label_files import read_label_file, write_label_file
from pencil.data.label_tables import read_trusted_file
from pencil.data.loader import fetch_batches
from pencil.data.matching import NEW, has_own_ids, match_rows
from pencil.data.noise import instance_dependent_noise, transition_noise
from pencil.data.order import Blocks, Order, owned_indices, span
from pencil.data.prepare import Augment, Normalize, Preparation, channel_statistics
from pencil.data.randomness import mixed_seed
from pencil.data.readers.cifar import read_cifar
from pencil.data.readers.clothing1m import read_clothing1m
from pencil.data.readers.cub200 import read_cub200
from pencil.data.readers.features import read_features, read_features_alone
from pencil.data.readers.folder import read_image_folder, read_images_alone
from pencil.data.readers.idx import read_idx
from pencil.data.readers.manifest import read_manifest, read_paths_alone
from pencil.data.readers.records import read_records, read_records_alone
from pencil.data.readers.texts import read_texts, read_texts_alone
from pencil.data.sampler import EpochSampler
from pencil.data.shards import read_shards, write_index

__all__ = [
    "NEW",
    "AttachedInputs",
    "Augment",
    "Beside",
    "Blocks",
    "DatasetInputs",
    "EpochSampler",
    "Examples",
    "Image",
    "Inputs",
    "Normalize",
    "Order",
    "Preparation",
    "Record",
    "RowNumbers",
    "Shown",
    "Splits",
    "TensorInputs",
    "Text",
    "Unlabelled",
    "as_text",
    "attach",
    "blocks_of",
    "channel_statistics",
    "content",
    "fetch_batches",
    "has_own_ids",
    "instance_dependent_noise",
    "is_text",
    "known_keys",
    "leave_out_unreadable",
    "match_rows",
    "mixed_seed",
    "owned_indices",
    "read_cifar",
    "read_clothing1m",
    "read_cub200",
    "read_features",
    "read_features_alone",
    "read_idx",
    "read_image_folder",
    "read_images_alone",
    "read_label_file",
    "read_manifest",
    "read_paths_alone",
    "read_records",
    "read_records_alone",
    "read_shards",
    "read_texts",
    "read_texts_alone",
    "read_trusted_file",
    "row_keys",
    "shown",
    "span",
    "transition_noise",
    "write_index",
    "write_label_file",
]
