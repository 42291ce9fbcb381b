"""Faults made on purpose, one kind a file: each measures how many were tried and how many the promise survived.

Every module has ``measure(*, quick: bool) -> dict[str, int]``; ``python benchmarks/trust.py`` runs them all.
"""
