"""Adapters for other trainers, one module each. No other part of the package imports them."""
