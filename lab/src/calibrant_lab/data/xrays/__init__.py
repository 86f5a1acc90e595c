"""Readers of chest X-rays, which know which images are of one patient."""
