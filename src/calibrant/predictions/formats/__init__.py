"""File formats of predictions: each converts between a file and named arrays."""
