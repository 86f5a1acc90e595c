"""The formats of prediction files: each turns a file into arrays by name, and such arrays into a file."""
