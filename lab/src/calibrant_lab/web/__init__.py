"""The network of ``calibrant serve --model``."""
