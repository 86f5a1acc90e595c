"""Tables and figures of a store's results: means over seeds, tested differences, published numbers."""

from calibrant_lab.tables.build import Options, Table, build_table
from calibrant_lab.tables.layout import Layout, layout_named, layouts

__all__ = ["Layout", "Options", "Table", "build_table", "layout_named", "layouts"]
