"""What fits are made of: samples, objectives, searches, cross-validation, results."""
