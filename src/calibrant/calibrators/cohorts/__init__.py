"""Calibrators for groups of samples, and temperatures of many models."""
