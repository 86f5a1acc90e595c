"""The demo: ten losses on real digits, with little data and with all."""
