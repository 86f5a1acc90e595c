"""Runs of the studies done again."""
