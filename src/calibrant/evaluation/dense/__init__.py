"""Segmentation judged image by image: sums of each image, and the same stages as of any predictions."""
