"""Sweeps over grids: the store of runs, and what carries them out."""
