"""How tables are written: a function from words to text for each format."""

from calibrant_lab.tables.formats.roster import FORMATS, Format, format_named

__all__ = ["FORMATS", "Format", "format_named"]
