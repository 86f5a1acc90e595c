"""What the numbers mean, in plain words."""
