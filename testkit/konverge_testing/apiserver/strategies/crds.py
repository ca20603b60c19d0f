"""CustomResourceDefinition: its rules are in `schemas`.

Source: k8s.io/apiextensions-apiserver `pkg/registry/customresourcedefinition/strategy.go`.
"""

from __future__ import annotations

from konverge_testing.apiserver.strategies.base import BuiltInStrategy, restore
from konverge_testing.apiserver.strategies.errors import Data, Errors

__all__ = ["CustomResourceDefinition"]


class CustomResourceDefinition(BuiltInStrategy):
    """CustomResourceDefinition: a kind that users add. The controller of definitions writes its status."""

    generation = True
    has_status = True

    def _default(self, new: Data) -> None:
        from konverge_testing.apiserver.schemas import crd_default

        crd_default(new)

    def _create(self, new: Data) -> None:
        stored = [each["name"] for each in (new.get("spec") or {}).get("versions") or () if each.get("storage")]
        names = {"plural": "", "kind": ""}
        new["status"] = {"conditions": None, "acceptedNames": names, "storedVersions": stored[:1]}

    def _update(self, new: Data, old: Data) -> None:
        restore(new, old, "status")
        stored = (new.get("status") or {}).get("storedVersions") or []
        now = [each["name"] for each in (new.get("spec") or {}).get("versions") or () if each.get("storage")]
        if now and now[0] not in stored:
            new["status"] = {**(new.get("status") or {}), "storedVersions": [*stored, now[0]]}

    def warnings(self, new: Data, old: Data | None) -> list[str]:
        """Return the warnings for formats that validation ignores."""
        from konverge_testing.apiserver.schemas import crd_warnings

        return crd_warnings(new, old)

    def _errors(self, new: Data, old: Data | None) -> Errors:
        from konverge_testing.apiserver.schemas import validate_crd

        return list(validate_crd(new, old))
