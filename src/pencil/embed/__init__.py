"""Embeddings: examples go once through a frozen pretrained network, and a small head learns from its features."""

from pencil.embed.encoder import Encoder, Kind

__all__ = ["Encoder", "Kind"]
