"""Figures of the theory, and of tables of runs."""
