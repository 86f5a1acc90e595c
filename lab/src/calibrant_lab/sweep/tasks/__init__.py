"""What a sweep can repeat over a grid: one task a file, and one line in the roster."""
