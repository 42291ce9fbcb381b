"""Reviewing a run's labels by hand: a queue, a history, and a page on this machine to go through them."""

from pencil.review.session import Review

__all__ = ["Review"]
