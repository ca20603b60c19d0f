"""Planted faults of generated models of foreign kinds, each found by a named test. Only data."""

from __future__ import annotations

from typing import Final

from planting import Mutant

__all__ = ["MODELS"]

GENERATED: Final = "tests/unit/crds/test_foreign_models.py::"

MODELS: Final = (
    Mutant(
        "list-keys-not-selected",
        "an item of a list has no field by which server-side apply identifies it",
        "konverge.crds.foreign.collecting",
        "Classes._visit",
        "{**{key: {} for key in keys}, **selection} if selection else selection",
        "selection",
        test=GENERATED + "test_only_selected_fields_and_the_keys_of_list_items_are_written",
    ),
    Mutant(
        "closed-enum",
        "an object with a value that a newer API server added does not decode",
        "konverge.crds.foreign.fields",
        "_of_text",
        "(f\"Literal[{', '.join((quoted(value) for value in values))}]\", 'str')",
        "(f\"Literal[{', '.join((quoted(value) for value in values))}]\",)",
        test=GENERATED + "test_a_field_has_the_annotation_and_default_of_its_schema",
    ),
    Mutant(
        "drift-in-comments",
        "the check of a generated module fails after a formatter ran over it",
        "konverge.crds.foreign.drift",
        "_definitions",
        "ast.unparse(member.annotation) + default",
        "ast.dump(member, include_attributes=True)",
        test=GENERATED + "test_drift_is_a_line_for_each_field_and_no_matter_of_layout",
    ),
    Mutant(
        "null-list-refused",
        "an object whose list Go wrote as null does not decode",
        "konverge.crds.partial",
        "_with_empty",
        "problem['input'] is None",
        "False",
        test=GENERATED + "test_a_null_in_a_required_list_or_map_reads_as_empty",
    ),
)
