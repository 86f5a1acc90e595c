"""What an evaluation measures: one declaration per file, all of them in ``roster.py``."""
