"""Review a run's labels by hand: a queue of items, a history of decisions, and a local web page."""

from pencil.review.session import Review

__all__ = ["Review"]
