"""The version of the numbers that training gives."""

NUMBERS = 1
"""Raised by one whenever the same recipe gives other numbers than before.

Stores of runs know a run by its recipe, its data and this number: raising it makes every stored run one of an
older version, which is kept but no longer counts as done. ``tests/training/test_version.py`` compares the
numbers of small recipes with committed ones, so that no change goes unnoticed.
"""
