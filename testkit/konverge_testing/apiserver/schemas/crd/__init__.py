"""CustomResourceDefinitions: their validation, their defaults, and the `Resource`s that they define."""

from __future__ import annotations

from konverge_testing.apiserver.schemas.crd.resources import crd_default, crd_names_accepted, crd_resource
from konverge_testing.apiserver.schemas.crd.validation import crd_warnings, validate_crd

__all__ = ["crd_default", "crd_names_accepted", "crd_resource", "crd_warnings", "validate_crd"]
