"""Commands added to ``calibrant``."""
