"""Embeddings: examples go once through a frozen pretrained network, and a small head learns from its features."""

from pencil.embed.choose import default_encoder, named_code, open_encoder
from pencil.embed.encode import encode_rows, encoded
from pencil.embed.encoder import Encoder, Kind
from pencil.embed.features import EmbeddedInputs, Ranks, embedded

__all__ = [
    "EmbeddedInputs",
    "Encoder",
    "Kind",
    "Ranks",
    "default_encoder",
    "embedded",
    "encode_rows",
    "encoded",
    "named_code",
    "open_encoder",
]
