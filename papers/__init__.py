"""The studies: each has one function that computes and one command that runs it."""
