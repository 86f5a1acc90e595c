"""Sections of a run's report."""
