"""The page and HTTP interface of ``calibrant serve``."""
