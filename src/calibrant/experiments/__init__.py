"""Experiments: one study per file, each one command."""
