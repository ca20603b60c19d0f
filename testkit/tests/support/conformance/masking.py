"""Masks the values of a case's record that differ between any two servers: uids, versions, times, generated names, addresses, tokens.

Guarantees: pure. `mask` works on the whole record of a case, so that equal values stay equal: uids become numbers by first appearance,
versions numbers by their order. The version of a list, a table or a bookmark is masked without a number, since others write too.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

_UID: Final = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\b")
_TIME: Final = re.compile(r"\b20(?:2[5-9]|[3-9]\d)-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
_VERSIONS: Final = re.compile(
    r"(?P<before>(?:the ResourceVersion in record \(|ResourceVersion in precondition: |ResourceVersion in object meta: |[Rr]esource ?[Vv]ersion:? |current: ))(?P<number>\d+)"
)
_AGE: Final = re.compile(r"\d+(?:s|ms|m\d*s?|h)")
_GENERATED: Final = re.compile(
    r"(?<![\w-])(?P<base>gen-|Gen_|kube-api-access-)[bcdfghjklmnpqrstvwxz2456789]{5}(?![\w-])"
)
_NODE_PORT: Final = re.compile(r":3[0-2]\d{3}(?=/)")
_JWT: Final = re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]+")
_DUMP: Final = re.compile(
    r'(?:\n@@ -.*|(?<=spec\.template: Invalid value: )\{"(?:Spec|metadata)":.*?\}(?=: field is immutable)|(?<=^Invalid value: )\{"(?:Spec|metadata)":.*\}(?=: field is immutable))',
    re.DOTALL,
)
"""Go structs and their differences, in the refusal of a change of a pod or a template."""
_PATCHED: Final = re.compile(
    r'(?P<before>(?:^ "" is invalid: patch: |^)Invalid value: )"(?:\{\\"|map\[).*?"(?=: [^"]*(?:"[^"\\]*"[^"]*)*$)'
)
"""The whole object, or Go's print of a map, in the refusal of a patch."""
_ADDRESS: Final = re.compile(r"\b10\.\d+\.\d+\.\d+\b|\b127\.0\.0\.1:\d+\b")
_MARKED: Final = {"resourceVersion": "0"}
"""Bookmarks of apps/v1 hold what Go makes of an empty object; in memory it is a little less."""
_CONTINUE: Final = "continue"
_CUSTOM_COLUMN: Final = "Custom resource definition column"
_PROSE: Final = re.compile(r"[A-Z]|.{40}")


def mask(record: Any, namespace: str) -> Any:
    """Return the record of a case with everything masked."""
    uids = {uid: f"uid-{number}" for number, uid in enumerate(_unique(_uids(record)))}
    numbers = sorted({version for version in _versions(record) if version > 1})
    versions = {str(version): f"v{number}" for number, version in enumerate(numbers)}
    return _Masker(uids, versions, namespace).walk(record, "")


def _unique(found: Iterator[str]) -> list[str]:
    return list(dict.fromkeys(found))


def _strings(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        for key in sorted(data, key=str):
            yield from _strings(data[key])
    elif isinstance(data, list):
        for one in data:
            yield from _strings(one)


def _uids(data: Any) -> Iterator[str]:
    for text in _strings(data):
        yield from _UID.findall(text)


def _collective(data: dict[str, Any]) -> bool:
    """Tell whether this is the metadata of a list or a bookmark."""
    kind = data.get("kind")
    if isinstance(kind, str) and (kind.endswith("List") or kind == "Table") and ("items" in data or "rows" in data):
        return True
    metadata = data.get("metadata")
    return isinstance(metadata, dict) and isinstance(kind, str) and not metadata.get("name")


def _versions(data: Any) -> Iterator[int]:
    if isinstance(data, dict):
        for key, value in data.items():
            if key == "metadata" and _collective(data):
                continue
            if key == "resourceVersion" and isinstance(value, str) and value.isdigit():
                yield int(value)
            else:
                yield from _versions(value)
    elif isinstance(data, list):
        for one in data:
            yield from _versions(one)


class _Masker:
    def __init__(self, uids: dict[str, str], versions: dict[str, str], namespace: str) -> None:
        self._uids = uids
        self._versions = versions
        self._namespace = namespace
        self._texts: dict[str, str] = {}
        """Masked texts by what they were: most texts of a record come many times."""

    def walk(self, data: Any, key: str) -> Any:
        if isinstance(data, dict):
            return self._object(data)
        if isinstance(data, list):
            if key == "cells":
                return [
                    _AGE.sub("AGE", one) if isinstance(one, str) and _AGE.fullmatch(one) else self.walk(one, "")
                    for one in data
                ]
            items = [self.walk(one, "") for one in data]
            if key == "causes":  # the real server repeats a cause for each failed check
                items = [one for number, one in enumerate(items) if one not in items[:number]]
            return sorted(items, key=_ORDERS[key]) if key in _ORDERS else items
        return self._text(data, key) if isinstance(data, str) else data

    def _object(self, data: dict[str, Any]) -> dict[str, Any]:
        if data.get("type") == "BOOKMARK" and str(data["object"].get("apiVersion")) == "apps/v1":
            data = {**data, "object": {**data["object"], "spec": "ZERO", "metadata": _MARKED}}
        masked = {self._text(key, ""): self.walk(value, key) for key, value in data.items()}
        masked |= {key: "PORT" for key in ("healthCheckNodePort", "nodePort") if masked.get(key)}
        if (
            "priority" in masked
            and _PROSE.match(str(masked.get("description", "")))
            and not masked["description"].startswith(_CUSTOM_COLUMN)
        ):
            masked["description"] = ""  # the server in memory does not repeat Kubernetes' documentation
        if _collective(data) and isinstance(masked.get("metadata"), dict):
            metadata = dict(masked["metadata"])
            if "resourceVersion" in metadata:
                metadata["resourceVersion"] = "0" if data["metadata"]["resourceVersion"] == "0" else "LIST"
            if metadata.get(_CONTINUE):
                metadata[_CONTINUE] = "TOKEN"
            masked["metadata"] = metadata
        return masked

    def _text(self, text: str, key: str) -> str:
        if key == "resourceVersion":
            return self._versions.get(text, text)
        masked = self._texts.get(text)
        if masked is None:
            masked = self._texts[text] = self._masked(text)
        return masked

    def _masked(self, text: str) -> str:
        text = _UID.sub(lambda found: self._uids.get(found.group(), "uid-?"), text)
        text = _TIME.sub("TIME", text)
        text = _VERSIONS.sub(self._version, text)
        text = _GENERATED.sub(r"\g<base>*****", text)
        text = _DUMP.sub("DUMP", text)
        text = _PATCHED.sub(r"\g<before>PATCHED", text)
        text = _NODE_PORT.sub(":PORT", text)
        text = _JWT.sub("JWT", text)
        text = _ADDRESS.sub("ADDRESS", text)
        return text.replace(self._namespace, "NS")

    def _version(self, found: re.Match[str]) -> str:
        return found["before"] + self._versions.get(found["number"], "SOME")


def _cause(entry: Any) -> tuple[str, ...]:
    """Causes of a Conflict have the order of a Go map; causes of an Invalid have an order of their own."""
    return (entry.get("message", ""), entry.get("field", "")) if entry.get("reason") == "FieldManagerConflict" else ()


def _owner(entry: Any) -> tuple[str, ...]:
    return tuple(str(entry.get(name, "")) for name in ("operation", "manager", "subresource", "apiVersion", "fieldsV1"))


_ORDERS: Final = {"causes": _cause, "managedFields": _owner}
