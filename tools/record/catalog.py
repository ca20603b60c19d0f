"""Records a real API server's built-in kinds, as the data files of `konverge_testing.apiserver.catalog` and `.tables`.

    konverge control-plane run                          # prints a kubeconfig
    kubectl --kubeconfig ... proxy --port 8001
    make record ONLY=catalog ARGS="http://127.0.0.1:8001"

Guarantees: facts only. Names, types, defaults, enums, required fields, formats, extensions, verbs, short names, storage hashes, warnings and
columns are taken over as they are; descriptions are dropped, and with them everything that is prose. The same server gives the same files.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

Data = dict[str, Any]

ROOMS = Path(__file__).parents[2] / "testkit" / "konverge_testing" / "apiserver"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
SKIPPED = {("resource.k8s.io", "v1"), ("flowcontrol.apiserver.k8s.io", "v1")}
"""The kinds that the in-memory server does not serve; see `catalog`."""

PER_GROUP = {"DeleteOptions", "WatchEvent"}
"""Kinds that exist in every group: `discovery` generates their list of groups again."""


class Server:
    """A real API server behind `kubectl proxy`."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str, accept: str = "application/json") -> tuple[Data, str]:
        """Return a document, and the text of its Warning header."""
        with urlopen(
            Request(self.url + path, headers={"Accept": accept, "User-Agent": "record"})
        ) as answer:  # loopback, http
            warning = re.search(r'299 - "(.*)"', answer.headers.get("Warning", ""))
            return json.load(answer), warning[1] if warning else ""


def bare(schema: Data) -> Data:
    """Return a schema without its descriptions; a property that is called `description` stays."""
    out: Data = {}
    for key, value in schema.items():
        if key == "description":
            continue
        if key == "properties":
            value = {name: bare(property_) for name, property_ in value.items()}
        elif key in {"items", "additionalProperties", "not"} and isinstance(value, dict):
            value = bare(value)
        elif key in {"allOf", "anyOf", "oneOf"}:
            value = [bare(item) for item in value]
        out[key] = value
    return out


def definitions(server: Server) -> tuple[dict[str, Data], set[str]]:
    """Collect the schemas of all documents, and the schema names of responses to a deletion; a name means the same in each document."""
    result: dict[str, Data] = {}
    deleted = set()
    for path, entry in server.get("/openapi/v3")[0]["paths"].items():
        if tuple(path.removeprefix("apis/").split("/")) in SKIPPED:
            continue
        document = server.get(entry["serverRelativeURL"])[0]
        for item in document["paths"].values():
            if "delete" in item and item["delete"].get("x-kubernetes-action") == "delete":
                shown = item["delete"]["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
                deleted.add(shown.rpartition("/")[2])
        for name, schema in document["components"].get("schemas", {}).items():
            schema = bare(schema)
            if name.rpartition(".")[2] in PER_GROUP:
                del schema["x-kubernetes-group-version-kind"]
            assert result.setdefault(name, schema) == schema, name
    return result, deleted


def by_kind(document: dict[str, Data]) -> dict[tuple[str, str, str], str]:
    """Return the names of definitions by group, version and kind."""
    kinds = {
        (gvk["group"], gvk["version"], gvk["kind"]): name
        for name, schema in document.items()
        for gvk in schema.get("x-kubernetes-group-version-kind", ())
    }
    return {key: name for key, name in kinds.items() if not name.startswith("io.k8s.apimachinery")}


def resources(server: Server, kinds: dict[tuple[str, str, str], str]) -> list[Data]:
    """Collect the resources of all groups in discovery's order."""
    result: dict[tuple[str, str], Data] = {}
    for root in ("/api", "/apis"):
        for item in server.get(root, AGGREGATED)[0]["items"]:
            group = item["metadata"].get("name", "")
            for version in item["versions"]:
                if (group, version["version"]) in SKIPPED:
                    continue
                base = f"/apis/{group}/{version['version']}" if group else f"/api/{version['version']}"
                hashes = {
                    entry["name"]: entry.get("storageVersionHash", "") for entry in server.get(base)[0]["resources"]
                }
                for entry in version["resources"]:
                    manifest = resource(group, entry, hashes[entry["resource"]])
                    kept = result.setdefault((group, manifest["plural"]), manifest)
                    kept["versions"].append(served(server, base, group, version["version"], manifest, kinds))
    return list(result.values())


def resource(group: str, entry: Data, storage_hash: str) -> Data:
    """Return the parts that are equal in all versions."""
    subresources = []
    for sub in entry.get("subresources", ()):
        kind = {key: value for key, value in sub["responseKind"].items() if value}
        subresources.append({"name": sub["subresource"], **kind, "verbs": sub["verbs"]})
    manifest = {
        "group": group,
        "plural": entry["resource"],
        "kind": entry["responseKind"]["kind"],
        "singular": entry["singularResource"],
        "namespaced": entry["scope"] == "Namespaced",
        "verbs": entry["verbs"],
        "shortNames": entry.get("shortNames"),
        "categories": entry.get("categories"),
        "subresources": subresources,
        "hash": storage_hash,
        "versions": [],
    }
    return {
        key: value
        for key, value in manifest.items()
        if value not in (None, "") and (value or key == "versions" or value is False)
    }


def served(
    server: Server, base: str, group: str, version: str, manifest: Data, kinds: dict[tuple[str, str, str], str]
) -> Data:
    """Return what one version adds: its schema, its list's schema, and a warning for its users."""
    name = kinds[group, version, manifest["kind"]]
    out = {"name": version, "schema": name}
    if "list" in manifest["verbs"]:
        out["list"] = kinds[group, version, f"{manifest['kind']}List"]
        if warning := server.get(f"{base}/{manifest['plural']}")[1]:
            out["warning"] = warning
    return out


def columns(server: Server, results: list[Data]) -> dict[str, list[Data]]:
    """Return the columns of every resource that can be listed, by `plural` or `plural.group`."""
    out = {}
    for item in results:
        if "list" not in item["verbs"] or item["plural"] == "componentstatuses":
            continue
        version, group = item["versions"][0]["name"], item.get("group", "")
        base = f"/apis/{group}/{version}" if group else f"/api/{version}"
        table = server.get(f"{base}/{item['plural']}?limit=1", TABLE)[0]
        out[".".join(filter(None, (item["plural"], group)))] = [
            {key: value for key, value in column.items() if key != "description" and value}
            for column in table["columnDefinitions"]
        ]
    return out


def lines(items: list[str], brackets: str) -> str:
    """Return JSON with one item a line, so that a change of one kind is a change of one line."""
    return brackets[0] + "\n" + ",\n".join(items) + "\n" + brackets[1] + "\n"


def compact(value: Any) -> str:
    """Return JSON without blanks."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def main(url: str) -> None:
    """Write the files."""
    server = Server(url)
    schemas, deleted = definitions(server)
    result = resources(server, by_kind(schemas))
    for item in result:
        if item["versions"][0]["schema"] in deleted:
            item["returnsDeleted"] = True
    named = [f"{compact(name)}:{compact(schemas[name])}" for name in sorted(schemas)]
    (ROOMS / "catalog" / "definitions.json").write_text(lines(named, "{}"))
    (ROOMS / "catalog" / "resources.json").write_text(lines([compact(item) for item in result], "[]"))
    shown = [f"{compact(name)}:{compact(value)}" for name, value in columns(server, result).items()]
    (ROOMS / "tables" / "columns.json").write_text(lines(shown, "{}"))


if __name__ == "__main__":
    main(sys.argv[1])
