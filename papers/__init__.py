"""The studies; each is one function that does the work and one command that runs it."""
