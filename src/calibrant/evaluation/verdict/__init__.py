"""The verdict: the meaning of the numbers in plain words."""
