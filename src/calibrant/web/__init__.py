"""The page and its HTTP face: what ``calibrant serve`` serves."""
