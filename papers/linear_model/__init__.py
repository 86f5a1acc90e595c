"""Focal loss on a linear model with flipped labels, where the truth is known."""
