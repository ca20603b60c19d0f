"""Records a real API server's table rows for the objects in `testkit/tests/unit/apiserver/tables/`: `made.yaml` and `widgets.yaml`.

    konverge control-plane run --no-controllers         # prints a kubeconfig
    kubectl --kubeconfig ... proxy --port 8001
    make record ONLY=tables ARGS="http://127.0.0.1:8001"

The server must be fresh. Writes `recorded.json` and `recorded_widgets.json` beside them, one row a line: the object as it was stored, the
cells, and the moment of the response.
"""

import json
import sys
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import yaml

Data = dict[str, Any]

FOLDER = Path(__file__).parents[2] / "testkit" / "tests" / "unit" / "apiserver" / "tables"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
NAMESPACE = "tables"


class Server:
    """A real API server behind `kubectl proxy`."""

    def __init__(self, url: str) -> None:
        self.url = url

    def call(self, method: str, path: str, body: Data | None = None, **headers: str) -> tuple[Data, str]:
        """Return the response and its Date."""
        named = {"Accept": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
        request = Request(self.url + path, json.dumps(body).encode() if body else None, named, method=method)
        try:
            with urlopen(request) as answer:
                return json.load(answer), parsedate_to_datetime(answer.headers["Date"]).isoformat()
        except HTTPError as error:
            raise RuntimeError(f"{method} {path}: {error.read().decode()}") from error


def scopes(server: Server) -> dict[str, bool]:
    """Return which resources are namespaced."""
    result = {}
    for group in [
        "v1",
        *(item["preferredVersion"]["groupVersion"] for item in server.call("GET", "/apis")[0]["groups"]),
    ]:
        root = f"/apis/{group}" if "/" in group else f"/api/{group}"
        for entry in server.call("GET", root)[0]["resources"]:
            result[".".join(filter(None, (entry["name"], group.rpartition("/")[0])))] = entry["namespaced"]
    return result


def record(server: Server, manifest: Data, namespaced: bool) -> Data:
    """Create an object and request its row."""
    body = manifest["object"]
    version, plural = body["apiVersion"], manifest["resource"].partition(".")[0]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    where = f"{root}/namespaces/{NAMESPACE}/{plural}" if namespaced else f"{root}/{plural}"
    stored, _ = server.call("POST", where, body, Content_Type="application/json")
    item = f"{where}/{stored['metadata']['name']}"
    if "status" in body and plural != "widgets":
        status = {"status": body["status"]}
        stored, _ = server.call("PATCH", f"{item}/status", status, Content_Type="application/merge-patch+json")
    if manifest.get("deleted"):
        server.call("DELETE", item)
    table, moment = server.call("GET", f"{item}?includeObject=Object", Accept=TABLE)
    [row] = table["rows"]
    object_ = row["object"]
    object_["metadata"].pop("managedFields", None)
    out = {"resource": manifest["resource"], "now": moment, "cells": row["cells"], "object": object_}
    return out | ({"conditions": row["conditions"]} if "conditions" in row else {})


def widgets(server: Server) -> list[Data]:
    """Create the CustomResourceDefinition and its objects, and request their rows."""
    manifest = yaml.safe_load((FOLDER / "widgets.yaml").read_text())
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    server.call("POST", crds, manifest["definition"], Content_Type="application/json")
    rows = []
    for object_ in manifest["objects"]:
        for _ in range(100):
            try:
                rows.append(record(server, {"resource": "widgets", "object": object_}, namespaced=False))
                break
            except RuntimeError as error:
                if "not found" not in str(error):
                    raise
    return rows


def write(name: str, rows: list[Data]) -> None:
    """Write one row a line."""
    texts = [json.dumps(row, separators=(",", ":"), ensure_ascii=False) for row in rows]
    (FOLDER / name).write_text("[\n" + ",\n".join(texts) + "\n]\n")


def main(url: str) -> None:
    """Write the file."""
    server = Server(url)
    server.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}, Content_Type="application/json")
    namespaced = scopes(server)
    rows = [
        record(server, item, namespaced[item["resource"]])
        for item in yaml.safe_load((FOLDER / "made.yaml").read_text())
    ]
    write("recorded.json", rows)
    write("recorded_widgets.json", widgets(server))


if __name__ == "__main__":
    main(sys.argv[1])
