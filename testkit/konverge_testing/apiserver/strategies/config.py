"""ConfigMap, Secret, Namespace and ServiceAccount.

Source: `pkg/registry/core/{configmap,secret,namespace,serviceaccount}/strategy.go`, `pkg/apis/core/validation/validation.go`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

from konverge_testing.apiserver import names
from konverge_testing.apiserver.base64s import decoded_size
from konverge_testing.apiserver.strategies import texts
from konverge_testing.apiserver.strategies.base import BuiltInStrategy
from konverge_testing.apiserver.strategies.errors import Data, Errors, forbidden, invalid, required, too_long
from konverge_testing.apiserver.strategies.rules import text

__all__ = ["ConfigMap", "Namespace", "Secret", "ServiceAccount"]

_LIMIT: Final = 1024 * 1024
_FROZEN: Final = "field is immutable when `immutable` is set"
_HIDDEN: Final = "<secret contents redacted>"
_KUBERNETES: Final = "kubernetes"
_LABEL: Final = "kubernetes.io/metadata.name"
_MOUNTABLE: Final = "kubernetes.io/enforce-mountable-secrets"
_JSON_KEYS: Final = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
}


def _key_errors(data: Data, path: str) -> Errors:
    return [error for key in data for error in text(texts.config_key)(key, f"{path}[{key}]")]


def _frozen(new: Data, old: Data, *names: str) -> Errors:
    if not old.get("immutable"):
        return []
    errors = [] if new.get("immutable") else [forbidden("immutable", _FROZEN)]
    return errors + [forbidden(name, _FROZEN) for name in names if (new.get(name) or {}) != (old.get(name) or {})]


class ConfigMap(BuiltInStrategy):
    """ConfigMap: texts and bytes by key; `immutable` freezes it for good."""

    def _errors(self, new: Data, old: Data | None) -> Errors:
        errors = _frozen(new, old, "data", "binaryData") if old is not None else []
        texts_, bytes_ = new.get("data") or {}, new.get("binaryData") or {}
        for key in texts_:
            errors += text(texts.config_key)(key, f"data[{key}]")
            if key in bytes_:
                errors.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
        errors += _key_errors(bytes_, "binaryData")
        size = sum(len(value.encode()) for value in texts_.values()) + sum(map(decoded_size, bytes_.values()))
        return [*errors, too_long("", _LIMIT)] if size > _LIMIT else errors


class Secret(BuiltInStrategy):
    """Secret: bytes by key; its type may require certain keys."""

    defaults = (("type+", "Opaque"),)
    frozen = ("type",)
    selectable: Mapping[str, Any] = {"type": ""}

    def _default(self, new: Data) -> None:
        written = new.pop("stringData", None)
        if written:
            encoded = {key: base64.b64encode(value.encode()).decode() for key, value in written.items()}
            new["data"] = {**(new.get("data") or {}), **encoded}
        super()._default(new)

    def _errors(self, new: Data, old: Data | None) -> Errors:
        errors = [] if old is None else self._frozen(new, old) + _frozen(new, old, "data")
        data = new.get("data") or {}
        errors += _key_errors(data, "data")
        if sum(map(decoded_size, data.values())) > _LIMIT:
            errors.append(too_long("data", _LIMIT))
        return errors + _typed(new.get("type", ""), data, new["metadata"].get("annotations") or {})


def _typed(type_: str, data: Mapping[str, str], annotations: Mapping[str, str]) -> Errors:
    """Check the keys that a type of secret needs."""
    if type_ == "kubernetes.io/service-account-token":
        name = "kubernetes.io/service-account.name"
        return [] if annotations.get(name) else [required(f"metadata.annotations[{name}]")]
    if type_ in _JSON_KEYS:
        return _json_errors(_JSON_KEYS[type_], data)
    missing: list[str] = []
    if type_ == "kubernetes.io/basic-auth" and not {"username", "password"} & set(data):
        missing = ["username", "password"]
    elif type_ == "kubernetes.io/ssh-auth" and not data.get("ssh-privatekey"):
        missing = ["ssh-privatekey"]
    elif type_ == "kubernetes.io/tls":
        missing = [key for key in ("tls.crt", "tls.key") if key not in data]
    return [required(f"data[{key}]") for key in missing]


def _json_errors(key: str, data: Mapping[str, str]) -> Errors:
    if key not in data:
        return [required(f"data[{key}]")]
    text = base64.b64decode(data[key]).decode(errors="replace")
    try:
        value: Any = json.loads(text)
    except ValueError:
        return [invalid(f"data[{key}]", _HIDDEN, _go_json(text))]
    if value is None or isinstance(value, dict):
        return []
    shown = {str: "string", bool: "bool", list: "array"}.get(type(value), "number")
    words = f"json: cannot unmarshal {shown} into Go value of type map[string]interface {{}}"
    return [invalid(f"data[{key}]", _HIDDEN, words)]


def _go_json(text: str) -> str:
    """Return Go's message for the first error of a text whose beginning is not JSON."""
    rest = text.lstrip(" \t\r\n")
    if not rest:
        return "unexpected end of JSON input"
    if rest[0] not in '{["tfn-0123456789':
        return f"invalid character '{rest[0]}' looking for beginning of value"
    return "unexpected end of JSON input"


class Namespace(BuiltInStrategy):
    """Namespace: its deletion waits for spec.finalizers, which only `/finalize` can change."""

    has_status = True
    name_rule = "label"
    reset_fields: Mapping[str, tuple[tuple[str, ...], ...]] = {
        "": (("status",),),
        "status": (("spec",),),
        "finalize": (("status",),),
    }
    selectable: Mapping[str, Any] = {"status.phase": ""}

    def _default(self, new: Data) -> None:
        name = new["metadata"].get("name")
        if name:
            labels = new["metadata"].get("labels") or {}
            new["metadata"]["labels"] = {**labels, _LABEL: name}
        new["status"] = {"phase": "Active", **(new.get("status") or {})}

    def _create(self, new: Data) -> None:
        self._default(new)
        new["status"] = {"phase": "Active"}
        spec = new.get("spec") or {}
        finalizers = list(spec.get("finalizers") or ())
        if _KUBERNETES not in finalizers:
            finalizers.append(_KUBERNETES)
        new["spec"] = {**spec, "finalizers": finalizers}

    def _update(self, new: Data, old: Data) -> None:
        restore_finalizers(new, old)
        new["status"] = old.get("status", {})
        self._default(new)

    def _status(self, new: Data, old: Data) -> None:
        new["spec"] = old.get("spec", {})
        self._default(new)

    def _validate(self, new: Data, _old: Data | None, subresource: str) -> Errors:
        if subresource == "status":
            return _phase_errors(new)
        errors: Errors = []
        for index, name in enumerate((new.get("spec") or {}).get("finalizers") or ()):
            path = f"spec.finalizers[{index}]" if subresource == "finalize" else "spec.finalizers"
            errors += text(names.label_key)(name, path)
            if "/" not in name and name != _KUBERNETES:
                words = "name is neither a standard finalizer name nor is it fully qualified"
                errors.append(invalid(path, name, words))
        return errors

    def _labels(self, object_: Data) -> dict[str, str]:
        return {"name": object_["metadata"].get("name", "")}


def restore_finalizers(new: Data, old: Data) -> None:
    """Restore the old finalizers of a namespace, in place."""
    kept = {"finalizers": old["spec"]["finalizers"]} if (old.get("spec") or {}).get("finalizers") else {}
    rest = {key: value for key, value in (new.get("spec") or {}).items() if key != "finalizers"}
    new["spec"] = {**rest, **kept}


def _phase_errors(new: Data) -> Errors:
    phase, deleted = (new.get("status") or {}).get("phase", ""), new["metadata"].get("deletionTimestamp")
    wanted, words = ("Terminating", "not empty") if deleted else ("Active", "empty")
    text_ = f"may only be '{wanted}' if `deletionTimestamp` is {words}"
    return [] if phase == wanted else [invalid("status.Phase", phase, text_)]


class ServiceAccount(BuiltInStrategy):
    """ServiceAccount: an identity for pods; of its secrets only the names count."""

    def _create(self, new: Data) -> None:
        if new.get("secrets"):
            new["secrets"] = [{key: each[key] for key in ("name",) if key in each} for each in new["secrets"]]

    def _update(self, new: Data, _old: Data) -> None:
        self._create(new)

    def _warnings(self, new: Data, old: Data | None) -> list[str]:
        before = (old["metadata"].get("annotations") or {}) if old is not None else {}
        if _MOUNTABLE in before or _MOUNTABLE not in (new["metadata"].get("annotations") or {}):
            return []
        text = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        return [f"metadata.annotations[{_MOUNTABLE}]: {text}"]
