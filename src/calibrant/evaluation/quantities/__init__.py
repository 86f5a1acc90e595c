"""Quantities of an evaluation: one declaration per file, all of them in ``roster.py``."""
