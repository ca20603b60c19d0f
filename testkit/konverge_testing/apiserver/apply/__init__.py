"""Server-side apply and managedFields: the owners of an object's fields. Pure code over plain dicts and `Node` schemas.

Read `fieldset` (sets of fields are FieldsV1's own JSON), then `typed` and `merging` (one walk each), then `tracking` (updates) and
`applying` (apply). Tests replay the recorded results of a real kube-apiserver.
"""

from konverge_testing.apiserver.apply.applying import apply, apply_unchanged
from konverge_testing.apiserver.apply.names import manager_name, require_manager, validate_manager
from konverge_testing.apiserver.apply.tracking import Views, track_update

__all__ = ["Views", "apply", "apply_unchanged", "manager_name", "require_manager", "track_update", "validate_manager"]
