"""Generates `messages.json` from the Go sources of Kubernetes: numbers and kinds of the fields of every message that the server may be
sent.

    python -m konverge_testing.apiserver.protobuf.generate <module cache>/k8s.io 0.36.3

Reads the struct tags of the types (`json`, `protobuf`), which define the wire format; the rest of the sources is not kept. Run by
hand when the catalog moves to another version of Kubernetes.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["main"]

_META = "k8s.io/apimachinery/pkg/apis/meta/v1"
_JSON = "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
SPECIAL = {
    (_META, "Time"): "t",
    (_META, "MicroTime"): "M",
    (_META, "Duration"): "D",
    (_META, "FieldsV1"): "r",
    (_META, "Verbs"): "L",
    (_JSON, "JSON"): "r",
    (_JSON, "JSONSchemaPropsOrArray"): "a",
    (_JSON, "JSONSchemaPropsOrBool"): "o",
    (_JSON, "JSONSchemaPropsOrStringArray"): "p",
    ("k8s.io/apimachinery/pkg/api/resource", "Quantity"): "q",
    ("k8s.io/apimachinery/pkg/util/intstr", "IntOrString"): "x",
    ("k8s.io/apimachinery/pkg/runtime", "RawExtension"): "r",
}
"""Types with a form of their own; the letters are explained in `decode.py`."""
PLAIN = {
    "string": "s",
    "bool": "b",
    "int": "i",
    "int32": "i",
    "int64": "i",
    "float64": "d",
    "float32": "d",
    "byte": "y",
    "uint32": "i",
}
EXTRA = (
    ("", _META, "DeleteOptions"),
    ("authentication.k8s.io/v1", "k8s.io/api/authentication/v1", "TokenRequest"),
    ("autoscaling/v1", "k8s.io/api/autoscaling/v1", "Scale"),
    ("policy/v1", "k8s.io/api/policy/v1", "Eviction"),
)
"""Messages that are sent to subresources and with deletions."""

_FIELD = re.compile(r"^\t(?:(\w+) +)?([^\s`]+)\s*`(.*)`", re.MULTILINE)


@dataclass
class Package:
    """The types of one Go package: struct bodies, other declarations, and the names of its imports."""

    path: str
    structs: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)


class Sources:
    """Go packages below a module cache."""

    def __init__(self, root: Path, version: str) -> None:
        self._root, self._version = root, version

    @cache  # noqa: B019  # one instance a run
    def package(self, path: str) -> Package:
        """Read a package."""
        module, _, rest = path.removeprefix("k8s.io/").partition("/")
        found = Package(path)
        for file in sorted(Path(self._root, f"{module}@v{self._version}", rest).glob("*.go")):
            if not file.name.startswith(("zz_", "generated")) and not file.name.endswith("_test.go"):
                _read(file.read_text(), found)
        return found

    def resolve(self, package: Package, go: str) -> tuple[Package, str]:
        """Return the package and name of a Go type."""
        prefix, _, name = go.rpartition(".")
        return (self.package(package.imports[prefix]), name) if prefix else (package, name)


def _read(text: str, into: Package) -> None:
    for name, path in re.findall(r'^\t(?:(\w+) )?"(k8s\.io/[^"]+)"', text, re.MULTILINE):
        into.imports[name or path.rpartition("/")[2]] = path
    for name, body in re.findall(r"^type (\w+) struct \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL):
        into.structs[name] = body
    into.structs |= dict.fromkeys(re.findall(r"^type (\w+) struct ?\{\s*\}", text, re.MULTILINE), "")
    for name, target in re.findall(r"^type (\w+) =? ?([\w.\[\]*]+)(?: *//.*)?$", text, re.MULTILINE):
        into.names[name] = target
    for block in re.findall(r"^type \(\n(.*?)^\)", text, re.MULTILINE | re.DOTALL):
        into.names |= dict(re.findall(r"^\t(\w+) +([\w.\[\]*]+)$", block, re.MULTILINE))


class Tables:
    """The messages that are reachable from the kinds, added at their first lookup."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self.messages: dict[str, dict[str, list[str]]] = {}

    def message(self, package: Package, name: str) -> str:
        """Return the short name of a message, having described it."""
        short = f"{package.path.removeprefix('k8s.io/').replace('pkg/apis/', '').removeprefix('api/')}.{name}"
        if short not in self.messages:
            self.messages[short] = {}
            self.messages[short] |= dict(self._fields(package, package.structs[name]))
        return short

    def _fields(self, package: Package, body: str) -> Iterator[tuple[str, list[str]]]:
        for _, go, tags in _FIELD.findall(body):
            protobuf = re.search(r'protobuf:"(\w+),(\d+)', tags)
            if protobuf is None:
                continue
            said = re.search(r'json:"([^"]*)"', tags)
            name, *options = said[1].split(",") if said else [""]
            kind = self._kind(package, go)
            yield protobuf[2], [name, f"~{kind.lstrip('*')}" if "inline" in options else kind]

    def _kind(self, package: Package, go: str) -> str:
        if go.startswith("*"):
            return f"*{self._kind(package, go[1:]).lstrip('*')}"
        if go == "[]byte":
            return "y"
        if go.startswith("[]"):
            return f"[{self._kind(package, go[2:]).lstrip('*')}"
        if go.startswith("map["):
            return f"{{{self._kind(package, go.partition(']')[2]).lstrip('*')}"
        if go in PLAIN:
            return PLAIN[go]
        if go == "time.Duration":
            return "i"
        if go.startswith("types."):
            return "s"
        found, name = self._sources.resolve(package, go)
        if name == "ExtraValue":
            return "L"
        if (found.path, name) in SPECIAL:
            return SPECIAL[found.path, name]
        if name in found.names:
            return self._kind(found, found.names[name])
        return f"@{self.message(found, name)}"


def _path_of(schema: str) -> str:
    """io.k8s.api.core.v1.Pod -> k8s.io/api/core/v1"""
    return f"k8s.io/{schema.removeprefix('io.k8s.').rpartition('.')[0].replace('.', '/')}"


def main(root: Path, version: str, catalog: Path, out: Path) -> None:
    """Write the tables."""
    sources = Sources(root, version)
    tables = Tables(sources)
    kinds: dict[str, str] = {}
    resources: list[dict[str, Any]] = json.loads(catalog.read_text())
    wanted = list(EXTRA)
    for resource in resources:
        for one in resource["versions"]:
            group = resource.get("group", "")
            wanted.append(
                (f"{group}/{one['name']}" if group else one["name"], _path_of(one["schema"]), resource["kind"])
            )
    for api_version, path, kind in wanted:
        package = sources.package(path)
        if kind in package.structs:
            kinds[f"{api_version} {kind}".strip()] = tables.message(package, kind)
    lines = [
        f"{json.dumps(name)}: {json.dumps(fields, separators=(',', ':'))}"
        for name, fields in sorted(tables.messages.items())
    ]
    words = json.dumps(dict(sorted(kinds.items())), separators=(",", ":"))
    out.write_text('{"kinds": ' + words + ',\n"messages": {\n' + ",\n".join(lines) + "\n}}\n")


if __name__ == "__main__":
    here = Path(__file__).parent
    main(Path(sys.argv[1]), sys.argv[2], here.parent / "catalog" / "resources.json", here / "messages.json")
