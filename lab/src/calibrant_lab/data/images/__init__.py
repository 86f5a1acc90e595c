"""Readers of image data sets in the forms in which their authors publish them."""
