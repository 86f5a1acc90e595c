"""Tables and figures of a store's results: means over seeds, tested differences, published numbers beside."""

from calibrant.experiments.tables.build import Options, Table, build_table
from calibrant.experiments.tables.layout import Layout, layout_named, layouts, load_layout

__all__ = ["Layout", "Options", "Table", "build_table", "layout_named", "layouts", "load_layout"]
