"""RuntimeClass: how containers are run. Its admission of pods is elsewhere.

Source: `pkg/apis/node/validation/validation.go`, `pkg/registry/node/runtimeclass/strategy.go`.
"""

from __future__ import annotations

from konverge_testing.apiserver import names
from konverge_testing.apiserver.golang import Struct
from konverge_testing.apiserver.strategies.amounts import requirement_errors
from konverge_testing.apiserver.strategies.base import (
    BuiltInStrategy,
    Data,
    Errors,
    duplicate,
    immutable,
    label_errors,
    required,
    text_errors,
)
from konverge_testing.apiserver.strategies.pods.scheduling import toleration_errors

__all__ = ["RuntimeClass"]


class RuntimeClass(BuiltInStrategy):
    """A way to run containers, and what it costs."""

    allow_create_on_update = True
    unconditional_update = False

    def _errors(self, new: Data, old: Data | None) -> Errors:
        handler = new.get("handler", "")
        errors = text_errors("handler", handler, names.dns1123_label) if handler else [required("handler")]
        if (overhead := new.get("overhead")) is not None:
            errors += requirement_errors({"limits": overhead.get("podFixed") or {}}, "overhead")
        if (scheduling := new.get("scheduling")) is not None:
            errors += label_errors(scheduling.get("nodeSelector"), "scheduling.nodeSelector")
            errors += _toleration_errors(scheduling.get("tolerations") or [])
        return errors if old is None else errors + immutable("handler", handler, old.get("handler", ""))


def _toleration_errors(tolerations: list[Data]) -> Errors:
    path = "scheduling.tolerations"
    errors = toleration_errors(tolerations, path)
    seen = []
    for index, each in enumerate(tolerations):
        key = tuple(each.get(name, "") for name in ("key", "operator", "value", "effect"))
        if key in seen:
            shown = Struct(zip(("Key", "Operator", "Value", "Effect"), key, strict=True))
            shown["TolerationSeconds"] = each.get("tolerationSeconds")
            errors.append(duplicate(f"{path}[{index}]", shown))
        seen.append(key)
    return errors
