"""Generate `strategies/gotypes.txt`: properties of fields that Go's struct definitions have and OpenAPI lacks.

Run as `make record ONLY=go_types ARGS="API APIMACHINERY APIEXTENSIONS OPENAPI"`: the folders of the Go modules k8s.io/api,
k8s.io/apimachinery and k8s.io/apiextensions-apiserver in the module cache, and `api/openapi-spec/v3` of k8s.io/kubernetes. Prints the file.
"""

import json
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

_STRUCT = re.compile(r"^type (\w+) struct \{$(.*?)^\}$", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r'^\t(?:(\w+)\s+)?([\w.*\[\]]+)\s+`[^`]*json:"([^"]*)"', re.MULTILINE)
_BUILTIN = {"string", "bool", "int32", "int64", "int", "byte", "uint8", "float64", "any", "intstr.IntOrString"}
_SCHEMA_TYPES = {"string": "string", "boolean": "bool", "integer": "int", "number": "float64"}
_KEPT_VALUES = {"metav1.Time", "metav1.MicroTime", "Time", "MicroTime", "resource.Quantity"}


def structs(folder: Path) -> dict[str, str]:
    result: dict[str, str] = {}
    for path in sorted(folder.glob("*.go")):
        if not path.name.endswith("_test.go") and not path.name.startswith("zz_"):
            result.update(_STRUCT.findall(path.read_text()))
    return result


def fields(body: str, known: dict[str, str], inline: str = "") -> list[tuple[str, str, set[str], str]]:
    """Return JSON name, Go type, options and the embedded struct of the field."""
    results: list[tuple[str, str, set[str], str]] = []
    for _, type_, tag in _FIELD.findall(body):
        name, *options = tag.split(",")
        short = type_.rpartition(".")[2].lstrip("*")
        if name == "" and "inline" in options:
            if short in known and short != "TypeMeta":
                results += fields(known[short], known, f"{inline}.{short}".lstrip("."))
        elif name not in ("", "-"):
            results.append((name, type_, set(options), inline))
    return results


def printed(type_: str, version: str) -> str:
    """Return a Go type as its reflection prints it."""
    bare = type_.lstrip("*")
    prefix = re.match(r"(?:\[\]|map\[[\w.]+\])*", bare)
    assert prefix is not None
    head, core = prefix.group(0), bare[prefix.end() :]
    package, _, name = core.rpartition(".")
    if package in ("metav1", "v1", "corev1", "core"):
        core = f"v1.{name}"
    elif not package and core not in _BUILTIN:
        core = f"{version}.{core}"
    return (head + core).replace("byte", "uint8")


def expected(schema: dict[str, Any], version: str) -> str:
    """Return the Go type that the schema implies."""
    if "$ref" in schema or "allOf" in schema:
        return "*"
    kind = schema.get("type", "")
    if kind == "array":
        return "[]" + expected(schema["items"], version)
    if kind == "object" and "additionalProperties" in schema:
        return "map[string]" + expected(schema["additionalProperties"], version)
    if schema.get("format") == "byte":
        return "[]uint8"
    return str(schema.get("format")) if kind == "integer" else _SCHEMA_TYPES.get(kind, "*")


def marks(schema: dict[str, Any], required: bool, type_: str, options: set[str], inline: str, version: str) -> str:
    """Return a field's properties that the schema lacks: `*` pointer, `?` dropped when zero, `!` kept, `=` its type, `^` embedded in."""
    pointer, omitted = type_.startswith("*"), bool(options & {"omitempty", "omitzero"})
    reference = "$ref" in schema or "allOf" in schema
    message = ""
    if not reference and schema.get("type") in _SCHEMA_TYPES and schema.get("format") != "byte":
        if pointer:
            message += "*"
        elif omitted and schema.get("default") is not None:
            message += "?"
        elif not omitted and "default" not in schema:
            message += "!"
    elif schema.get("type") in ("array", "object") or schema.get("format") == "byte":
        message += "?" if omitted and required else "!" if not omitted and not required else ""
    elif reference and type_ in _KEPT_VALUES and "omitzero" not in options:
        message += "!"
    real = printed(type_, version)
    guess = expected(schema, version)
    if not re.fullmatch(re.escape(guess).replace(r"\*", r"[\w.]+"), real) or (
        "*" in guess and not re.match(r"[\[\]\w]*v\d", real) and not reference
    ):
        message += "=" + real
    return message + (f"^{inline}" if inline else "")


_DEFINITION = re.compile(
    r"io\.k8s\.(?:api\.(\w+)|(api)machinery\.pkg\.apis\.meta|(apiextensions)-apiserver\.pkg\.apis\.apiextensions)\.(v\d)\.(\w+)"
)


def table(api: Path, machinery: Path, extensions: Path, specs: Path) -> dict[str, list[str]]:
    definitions: dict[str, Any] = {}
    for path in sorted(specs.glob("*__v[12]_openapi.json")):
        definitions.update(json.loads(path.read_text()).get("components", {}).get("schemas", {}))
    result: dict[str, list[str]] = {}
    parsed: dict[str, dict[str, str]] = {}
    for name, schema in sorted(definitions.items()):
        match = _DEFINITION.fullmatch(name)
        if match is None or "properties" not in schema:
            continue
        group, meta, extension, version, struct = match.groups()
        if meta:
            group, folder = "meta", machinery / "pkg/apis/meta" / version
        elif extension:
            group, folder = extension, extensions / "pkg/apis/apiextensions" / version
        else:
            folder = api / group / version
        known = parsed.setdefault(str(folder), structs(folder) if folder.is_dir() else {})
        if struct not in known:
            continue
        properties, required = schema["properties"], set(schema.get("required", ()))
        lines = []
        for field, type_, options, inline in fields(known[struct], known):
            if field in properties and (
                message := marks(properties[field], field in required, type_, options, inline, version)
            ):
                lines.append(field + message)
        if lines:
            result[f"{group}.{version}.{struct}"] = lines
    return result


def text(document: dict[str, list[str]]) -> str:
    lines = [
        textwrap.fill(" ".join([struct, *marked]), 116, subsequent_indent="  ", break_on_hyphens=False)
        for struct, marked in document.items()
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text(table(*(Path(argument) for argument in sys.argv[1:5]))))
