"""Forms of a response other than the object itself: Table, as `kubectl get` requests it, and PartialObjectMetadata."""

from konverge_testing.apiserver.tables.partial import metadata_only
from konverge_testing.apiserver.tables.render import columns, row, table

__all__ = ["columns", "metadata_only", "row", "table"]
