"""The kinds that Operations read and write besides the kinds of their engines, as thin views."""

from __future__ import annotations

from typing import Final

from konverge.kinds import kind

__all__ = ["INSTANCE", "VIEW"]

VIEW: Final = kind("ops.vworkspace.io/v1alpha1", "Operation", namespaced=True, plural="operations")
"""Operation as a thin view: another Operation of the target may not decode into the model."""

INSTANCE: Final = kind(
    "apps.vworkspace.io/v1alpha1", "ApplicationInstance", namespaced=True, plural="applicationinstances"
)
"""ApplicationInstance as a thin view: the target may not decode into the model."""
