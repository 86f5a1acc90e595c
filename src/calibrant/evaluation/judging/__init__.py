"""Evaluation of one arm: numbers per sample, and the metrics, curves and rows made of them."""
