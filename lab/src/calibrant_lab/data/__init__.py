"""Training data: named sets, files and folders of images, split with a seed."""

from calibrant_lab.data.augment import Augmentation, Crop, Flip, build_augmentation
from calibrant_lab.data.fetch import offline
from calibrant_lab.data.lazy import Geometry, LazyImages
from calibrant_lab.data.roster import available, load
from calibrant_lab.data.table import Dataset, Part, Preparation, RawData, shrink, split

__all__ = [
    "Augmentation", "Crop", "Dataset", "Flip", "Geometry", "LazyImages", "Part", "Preparation", "RawData",
    "available", "build_augmentation", "load", "offline", "shrink", "split",
]  # fmt: skip
