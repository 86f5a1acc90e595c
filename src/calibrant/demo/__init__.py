"""The demo: ten losses on real digits, where they matter and where not."""
