"""Sweeps over grids: the store of runs, and the engines."""
