"""Records a real API server's discovery documents, as the fixture of the tests of discovery.

    konverge control-plane run --no-controllers         # prints a kubeconfig
    kubectl --kubeconfig ... proxy --port 8001
    make record ONLY=discovery ARGS="http://127.0.0.1:8001"

The server must be fresh; the definitions of `testkit/tests/unit/apiserver/discovery/definitions.yaml` are created there. OpenAPI
documents are reduced to what clients use: operations with their ids, actions, kinds, parameters and codes, and the schemas of custom
resources.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import yaml

Data = dict[str, Any]

FOLDER = Path(__file__).parents[2] / "testkit" / "tests" / "unit" / "apiserver" / "discovery"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
LISTS = (
    "/api/v1",
    "/apis/apps",
    "/apis/apps/v1",
    "/apis/authorization.k8s.io/v1",
    "/apis/probe.example.com",
    "/apis/probe.example.com/v1",
)
DOCUMENTS = (
    "api/v1",
    "apis/apps/v1",
    "apis/authorization.k8s.io/v1",
    "apis/policy/v1",
    "apis/probe.example.com/v1",
    "apis/probe.example.com/v1beta1",
)
_METHODS = ("get", "post", "put", "patch", "delete")
_CONNECTING = ("attach", "exec", "log", "portforward", "proxy", "{path}")


def get(url: str, accept: str = "application/json") -> Data:
    """Return a document."""
    with urlopen(Request(url, headers={"Accept": accept, "User-Agent": "record"})) as answer:
        result: Data = json.load(answer)
        return result


def plain(schema: Any) -> Any:
    """Return a schema without texts of description."""
    if isinstance(schema, dict):
        return {
            key: plain(value) for key, value in schema.items() if key != "description" or not isinstance(value, str)
        }
    return [plain(item) for item in schema] if isinstance(schema, list) else schema


def operations(document: Data) -> Data:
    """Return the parts that clients use, without paths that the in-memory server does not have."""
    out = {}
    for path, item in document["paths"].items():
        if "/watch/" in path or path.rpartition("/")[2] in _CONNECTING:
            continue
        out[path] = {
            "parameters": [each["name"] for each in item.get("parameters", ())],
            **{method: operation(item[method]) for method in _METHODS if method in item},
        }
    return out


def operation(document: Data) -> Data:
    """Return the parts of an operation that clients use."""
    return {
        "id": document["operationId"],
        "action": document.get("x-kubernetes-action"),
        "kind": document.get("x-kubernetes-group-version-kind"),
        "parameters": [each["name"] for each in document.get("parameters", ())],
        "answers": {
            code: next(iter(answer.get("content", {"": {}}).values()))
            .get("schema", {})
            .get("$ref", "")
            .rpartition("/")[2]
            for code, answer in document["responses"].items()
        },
        "patches": sorted(document["requestBody"]["content"]) if document.get("x-kubernetes-action") == "patch" else [],
    }


def main(url: str) -> None:
    """Write the file."""
    for definition in yaml.safe_load_all((FOLDER / "definitions.yaml").read_text()):
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        headers = {"Content-Type": "application/json"}
        urlopen(Request(url + path, json.dumps(definition).encode(), headers, method="POST")).close()
    asyncio.run(asyncio.sleep(5))  # until discovery and OpenAPI have the definitions
    documents = {path: get(f"{url}/openapi/v3/{path}") for path in DOCUMENTS}
    result = {
        "aggregated": {path: get(url + path, AGGREGATED) for path in ("/api", "/apis")},
        "lists": {path: get(url + path) for path in LISTS},
        "operations": {path: operations(document) for path, document in documents.items()},
        "schemas": {
            name: plain(schema)
            for document in documents.values()
            for name, schema in document["components"]["schemas"].items()
            if name.startswith("com.example")
        },
    }
    parts = []
    for key, values in result.items():
        inner = [f"{json.dumps(name)}:{json.dumps(value, separators=(',', ':'))}" for name, value in values.items()]
        parts.append(f'"{key}":{{\n' + ",\n".join(inner) + "\n}")
    (FOLDER / "recorded.json").write_text("{" + ",\n".join(parts) + "}\n")


if __name__ == "__main__":
    main(sys.argv[1])
