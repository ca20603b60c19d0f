"""Everything that the API server does with structural schemas: decoding, pruning, defaulting, validation, and CustomResourceDefinitions.

Guarantees: pure, and exact as kube-apiserver 1.36 unless documented otherwise. An object passes `decode`, `prune`, `default`, then
`validate_metadata` and `validate`, in this order. Values derived from a schema are cached on its `Node`.
"""

from __future__ import annotations

from konverge_testing.apiserver.schemas.crd import (
    crd_default,
    crd_names_accepted,
    crd_resource,
    crd_warnings,
    validate_crd,
)
from konverge_testing.apiserver.schemas.decoding import Decoded, decode, decode_intent, strict_words, with_floats
from konverge_testing.apiserver.schemas.defaulting import default
from konverge_testing.apiserver.schemas.fast_check import in_order
from konverge_testing.apiserver.schemas.metadata import validate_metadata, validate_metadata_update
from konverge_testing.apiserver.schemas.pruning import prune
from konverge_testing.apiserver.schemas.validating import finalizer_warnings, validate, validate_scale

__all__ = [
    "Decoded",
    "crd_default",
    "crd_names_accepted",
    "crd_resource",
    "crd_warnings",
    "decode",
    "decode_intent",
    "default",
    "finalizer_warnings",
    "in_order",
    "prune",
    "strict_words",
    "validate",
    "validate_crd",
    "validate_metadata",
    "validate_metadata_update",
    "validate_scale",
    "with_floats",
]
