"""Readers of image datasets in their published forms."""
