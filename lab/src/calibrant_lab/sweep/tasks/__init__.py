"""Tasks for sweeps over grids: one file and one roster line each."""
