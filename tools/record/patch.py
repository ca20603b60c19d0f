"""Records a real API server's responses to `patch_cases`, for the tests of `konverge_testing.apiserver.patch`.

    konverge control-plane run         # prints a kubeconfig
    kubectl --kubeconfig ... proxy --port 8001
    make record ONLY=patch ARGS="http://127.0.0.1:8001"

Guarantees: every patch is a dry run on the same four objects, which are recorded once, as they were read; the record of a response is its
code and the object or the Status. Values that differ from run to run (uids, versions, times) and managedFields are left out.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from record import patch_cases as cases

Data = dict[str, Any]

TARGET = Path(__file__).parents[2] / "testkit" / "tests" / "unit" / "apiserver" / "patch" / "recorded.json"
VOLATILE = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")


class Server:
    """A real API server behind `kubectl proxy`."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, method: str, path: str, body: Any = None, content: str = "application/json") -> tuple[int, Data]:
        """Send a request; return the code and the document."""
        data = None if method in ("GET", "DELETE") else json.dumps(body).encode()
        request = Request(self.url + path, data, {"Content-Type": content}, method=method)
        try:
            with urlopen(request) as answer:  # loopback, http
                return answer.status, json.load(answer)
        except HTTPError as refused:
            return refused.code, json.load(refused)


def bare(found: Data) -> Data:
    """Return an object without what depends on the run."""
    if "metadata" not in found or found.get("kind") == "Status":
        return found
    metadata = {name: value for name, value in found["metadata"].items() if name not in VOLATILE}
    return {**{name: value for name, value in found.items() if name != "status"}, "metadata": metadata}


def main(url: str) -> None:
    """Record everything."""
    server = Server(url)
    objects: Data = {}
    for kind, (path, body) in cases.OBJECTS.items():
        code, made = server.ask(
            "POST", path, {"kind": kind, "apiVersion": "apps/v1" if "/apps/" in path else "v1", **body}
        )
        if code != 201:
            raise SystemExit(made)
        objects[kind] = bare(made)
    found = []
    for kind, media_type, patch in cases.CASES:
        path, _ = cases.OBJECTS[kind]
        code, answer = server.ask("PATCH", f"{path}/one?dryRun=All", patch, media_type)
        found.append({"kind": kind, "type": media_type, "patch": patch, "code": code, "answer": bare(answer)})
    for path, _ in cases.OBJECTS.values():
        server.ask("PATCH", f"{path}/one", {"metadata": {"finalizers": None}}, cases.MERGE)
        server.ask("DELETE", f"{path}/one?gracePeriodSeconds=0")
    for entry in found:
        if isinstance(entry["patch"], list) and len(entry["patch"]) > 10_000:
            entry["patch"] = {"times": len(entry["patch"]), "of": entry["patch"][0]}
    lines = ",\n".join(json.dumps(entry) for entry in found)
    TARGET.write_text(f'{{"objects": {json.dumps(objects)},\n"cases": [\n{lines}\n]}}\n')
    print(len(found))


if __name__ == "__main__":
    main(sys.argv[1])
