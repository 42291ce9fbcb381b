"""Review a run's labels by hand: a queue of rows, a history of decisions, and a local web page."""

from pencil.review.review import Review
from pencil.review.session import Session

__all__ = ["Review", "Session"]
