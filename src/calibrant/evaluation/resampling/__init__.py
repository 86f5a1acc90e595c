"""Resampling: bootstrap replicates, draws from calibrated models, and intervals."""
