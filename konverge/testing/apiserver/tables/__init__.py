"""Tables as `kubectl get` asks for them: `table` for objects and lists, `row` for the lines of a watch."""

from konverge.testing.apiserver.tables.render import columns, row, table

__all__ = ["columns", "row", "table"]
