"""The commands that join ``calibrant``."""
