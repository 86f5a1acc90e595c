"""The calibrators, one per file."""
