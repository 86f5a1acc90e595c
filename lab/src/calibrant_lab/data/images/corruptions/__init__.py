"""The fifteen common corruptions of Hendrycks and Dietterich (2019), on any images, decided by a seed."""

from calibrant_lab.data.images.corruptions.apply import CORRUPTIONS, CorruptedImages, corrupt

__all__ = ["CORRUPTIONS", "CorruptedImages", "corrupt"]
