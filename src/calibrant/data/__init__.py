"""Data to train on: named sets, files and folders of images, cut into splits with a seed."""

from calibrant.data.augment import Augmentation, Crop, Flip, build_augmentation
from calibrant.data.fetch import offline
from calibrant.data.lazy import Geometry, LazyImages
from calibrant.data.prepare import Preparation
from calibrant.data.roster import available, load
from calibrant.data.splits import shrink, split
from calibrant.data.table import Dataset, Part, RawData

__all__ = [
    "Augmentation",
    "Crop",
    "Dataset",
    "Flip",
    "Geometry",
    "LazyImages",
    "Part",
    "Preparation",
    "RawData",
    "available",
    "build_augmentation",
    "load",
    "offline",
    "shrink",
    "split",
]
