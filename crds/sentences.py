"""The fault of a value in konverge's words: a sentence for each type of pydantic's errors.

Pydantic's texts are for the author of a model ("Input should be a valid string"). The author of a manifest reads a status and an Event, so
each sentence here states the form to write.

Guarantees: pure. No sentence quotes the value. Every type of error that the installed pydantic knows has a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic_core import ErrorDetails

__all__ = ["SENTENCES", "UNKNOWN", "sentence_of"]

UNKNOWN: Final = "the value is not of the form that the field needs; see its description in the definition"
_OBJECT: Final = "write an object"
_LIST: Final = "write a list"
_PROGRAM: Final = "the value cannot be used here; see the description of the field in the definition"
"""Errors of programs and not of documents: JSON cannot cause them."""

SENTENCES: Final[Mapping[str, str]] = {
    "missing": "required; write it",
    "extra_forbidden": "not known here; leave it out",
    "none_required": "leave it out",
    "string_type": "write a text",
    "string_sub_type": "write a text",
    "string_unicode": "write a text of valid Unicode characters",
    "string_not_ascii": "write a text of ASCII characters",
    "string_too_short": "write at least {min_length} characters",
    "string_too_long": "write at most {max_length} characters",
    "string_pattern_mismatch": "write a text of the form {pattern}",
    "bytes_type": "write a text",
    "bytes_too_short": "write at least {min_length} bytes",
    "bytes_too_long": "write at most {max_length} bytes",
    "bytes_invalid_encoding": "write a text that {encoding} encodes",
    "bool_type": "write true or false",
    "bool_parsing": "write true or false",
    "int_type": "write a whole number",
    "int_parsing": "write a whole number",
    "int_parsing_size": "write a smaller whole number",
    "int_from_float": "write a whole number, without a fraction",
    "float_type": "write a number",
    "float_parsing": "write a number",
    "finite_number": "write a finite number",
    "greater_than": "write a value above {gt}",
    "greater_than_equal": "write {ge} or more",
    "less_than": "write a value below {lt}",
    "less_than_equal": "write {le} or less",
    "multiple_of": "write a multiple of {multiple_of}",
    "decimal_type": "write a number",
    "decimal_parsing": "write a number",
    "decimal_max_digits": "write at most {max_digits} digits",
    "decimal_max_places": "write at most {decimal_places} decimal places",
    "decimal_whole_digits": "write at most {whole_digits} digits before the point",
    "fraction_type": "write a number",
    "fraction_parsing": "write a number",
    "complex_type": "write a number",
    "complex_str_parsing": "write a number",
    "enum": "write {expected}",
    "literal_error": "write {expected}",
    "too_short": "write at least {min_length} entries",
    "too_long": "write at most {max_length} entries",
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "dataclass_type": _OBJECT,
    "dict_type": _OBJECT,
    "frozen_dict_type": _OBJECT,
    "ordered_dict_type": _OBJECT,
    "counter_type": _OBJECT,
    "mapping_type": _OBJECT,
    "list_type": _LIST,
    "tuple_type": _LIST,
    "set_type": _LIST,
    "frozen_set_type": _LIST,
    "deque_type": _LIST,
    "iterable_type": _LIST,
    "named_tuple_type": _LIST,
    "set_item_not_hashable": "write a list of texts or numbers",
    "invalid_key": "write a text as the key",
    "union_tag_invalid": "write one of {expected_tags} into {discriminator}",
    "union_tag_not_found": "{discriminator} is required; write it",
    "date_type": "write a date as in 2030-01-31",
    "date_parsing": "write a date as in 2030-01-31",
    "date_from_datetime_parsing": "write a date as in 2030-01-31",
    "date_from_datetime_inexact": "write a date without a time, as in 2030-01-31",
    "date_past": "write a date in the past",
    "date_future": "write a date in the future",
    "time_type": "write a time as in 12:30:00",
    "time_parsing": "write a time as in 12:30:00",
    "datetime_type": "write a time as in 2030-01-31T12:30:00Z",
    "datetime_parsing": "write a time as in 2030-01-31T12:30:00Z",
    "datetime_object_invalid": "write a time as in 2030-01-31T12:30:00Z",
    "datetime_from_date_parsing": "write a time as in 2030-01-31T12:30:00Z",
    "datetime_past": "write a time in the past",
    "datetime_future": "write a time in the future",
    "timezone_naive": "write a time without a zone",
    "timezone_aware": "write a time with its zone, as in 2030-01-31T12:30:00Z",
    "timezone_offset": "write a time with the offset {tz_expected}",
    "time_delta_type": "write a duration as in 90s, 15m or 12h",
    "time_delta_parsing": "write a duration as in 90s, 15m or 12h",
    "url_type": "write a URL",
    "url_parsing": "write a URL, with its scheme and host",
    "url_syntax_violation": "write a URL, with its scheme and host",
    "url_too_long": "write a URL of at most {max_length} characters",
    "url_scheme": "write a URL that begins with {expected_schemes}",
    "uuid_type": "write a UUID",
    "uuid_parsing": "write a UUID",
    "uuid_version": "write a UUID of version {expected_version}",
    "json_invalid": "write a JSON document",
    "json_type": "write a JSON document as a text",
    "recursion_loop": "make it flatter",
    "recursion_depth_exceeded": "make it flatter",
    "value_error": UNKNOWN,
    "assertion_error": UNKNOWN,
    **dict.fromkeys(
        (
            *("no_such_attribute", "needs_python_object", "frozen_field", "frozen_instance", "get_attribute_error"),
            *("dataclass_exact_type", "default_factory_not_called", "iteration_error", "missing_sentinel_error"),
            *(
                "ellipsis_error",
                "is_instance_of",
                "is_subclass_of",
                "callable_type",
                "arguments_type",
                "missing_argument",
            ),
            *("unexpected_keyword_argument", "missing_keyword_only_argument", "unexpected_positional_argument"),
            *("missing_positional_only_argument", "multiple_argument_values"),
        ),
        _PROGRAM,
    ),
}
"""The sentence of each type of error; names in braces are of the error's context, which has limits of the model and no values."""

_QUOTED: Final = frozenset({"tag", "error"})
"""Names of a context that may quote the value."""


def sentence_of(details: ErrorDetails) -> str:
    """Return the sentence for an error.

    >>> sentence_of({"type": "greater_than_equal", "loc": (), "msg": "", "input": 0, "ctx": {"ge": 1}})
    'write 1 or more'
    """
    context: dict[str, Any] = {name: value for name, value in (details.get("ctx") or {}).items() if name not in _QUOTED}
    try:
        return SENTENCES.get(details["type"], UNKNOWN).format_map(context)
    except KeyError:
        return UNKNOWN
