"""Parts of fits: samples, objectives, searches, cross-validation, results."""
