"""Adapters for other trainers, one module each; ``pencil.PencilClassifier`` is one of them."""
