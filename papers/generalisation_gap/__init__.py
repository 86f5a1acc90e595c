"""Overconfidence on new samples, and what focal loss adds to it, where the truth is known."""
