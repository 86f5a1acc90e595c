"""Evaluation of segmentation image by image, from the sums of each image."""
