"""Engines carry runs to workers and their news back; the store alone decides what is done."""
