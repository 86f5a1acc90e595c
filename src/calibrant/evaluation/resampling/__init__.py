"""Chance by resampling: replicates, draws from calibrated models, and the intervals made of them."""
