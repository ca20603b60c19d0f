"""Planted faults of conversions and of the migration of stored objects, each found by a named test. Only data."""

from __future__ import annotations

from typing import Final

from planting import Mutant

__all__ = ["VERSIONS"]

CONVERSION: Final = "tests/unit/crds/test_conversion.py::"
IN_A_LAB: Final = "tests/unit/runtime/admission/test_conversion_in_a_lab.py::"
STORAGE: Final = "tests/unit/daemon/test_storage.py::"

VERSIONS: Final = (
    Mutant(
        "kept-field-over-change",
        "a field that was kept for an older version replaces the change of a client of that version",
        "konverge.crds.kept_fields",
        "_restore",
        "(present is _ABSENT) != (left is _ABSENT) or (left is not _ABSENT and present != left)",
        "False",
        test=CONVERSION + "test_kept_fields_survive_a_change_in_an_older_version",
    ),
    Mutant(
        "conversion-without-defaults",
        "an object that was converted lacks the defaults of its version",
        "konverge.crds.conversion",
        "_call",
        "defaults is None",
        "True",
        test=CONVERSION + "test_defaults_of_the_wanted_version_are_filled_in",
    ),
    Mutant(
        "conversion-holds-deletion",
        "an object that cannot be converted cannot be deleted either",
        "konverge.runtime.admission.conversion_handler",
        "ConversionHandler._converted",
        "_metadata(given).get('deletionTimestamp')",
        "False",
        test=IN_A_LAB + "test_an_object_that_cannot_be_converted_can_be_deleted",
    ),
    Mutant(
        "storage-trimmed-early",
        "status.storedVersions is trimmed although an object is still stored in the old version",
        "konverge.daemon.storage",
        "migrate_kind",
        "not result.failures",
        "True",
        test=STORAGE + "test_a_refused_object_is_named_and_nothing_is_trimmed",
    ),
)
