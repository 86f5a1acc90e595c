"""Figures that are drawn from files of predictions."""
