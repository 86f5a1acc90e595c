"""Calibrators under image corruption; foreign images."""
