"""The calibrators, one per file, and what families of them share."""
