"""Records a real API server's responses to the patches of `recorded.json`, for the tests of `konverge_testing.apiserver.patch`.

    konverge control-plane run         # prints a kubeconfig
    kubectl --kubeconfig ... proxy --port 8001
    make record ONLY=patch ARGS="http://127.0.0.1:8001"

Guarantees: every patch is a dry run on the same four objects, which are recorded once, as they were read; the record of a response is its
code and the object or the Status. Values that differ from run to run (uids, versions, times) and managedFields are left out.

A new case is an entry of the file without a response; a long patch is `times` an operation.
"""

import json
import sys
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

Data = dict[str, Any]

TARGET = Path(__file__).parents[2] / "testkit" / "tests" / "unit" / "apiserver" / "patch" / "recorded.json"
PATHS = {
    "ConfigMap": "/api/v1/namespaces/default/configmaps",
    "Pod": "/api/v1/namespaces/default/pods",
    "Service": "/api/v1/namespaces/default/services",
    "Deployment": "/apis/apps/v1/namespaces/default/deployments",
}
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


def bare(document: Data) -> Data:
    """Return an object without what depends on the run."""
    if "metadata" not in document or document.get("kind") == "Status":
        return document
    metadata = {name: value for name, value in document["metadata"].items() if name not in VOLATILE}
    return {**{name: value for name, value in document.items() if name != "status"}, "metadata": metadata}


def main(url: str) -> None:
    """Record everything."""
    server = Server(url)
    recorded = json.loads(TARGET.read_text())
    objects: Data = {}
    for kind, body in recorded["objects"].items():
        code, created = server.ask("POST", PATHS[kind], body)
        if code != 201:
            raise SystemExit(created)
        objects[kind] = bare(created)
    results = []
    for case in recorded["cases"]:
        kind, patch = case["kind"], case["patch"]
        long = isinstance(patch, dict) and patch.keys() == {"times", "of"}
        whole = [patch["of"]] * patch["times"] if long else patch
        code, answer = server.ask("PATCH", f"{PATHS[kind]}/one?dryRun=All", whole, case["type"])
        results.append({"kind": kind, "type": case["type"], "patch": patch, "code": code, "answer": bare(answer)})
    for path in PATHS.values():
        server.ask("PATCH", f"{path}/one", {"metadata": {"finalizers": None}}, "application/merge-patch+json")
        server.ask("DELETE", f"{path}/one?gracePeriodSeconds=0")
    lines = ",\n".join(json.dumps(entry) for entry in results)
    TARGET.write_text(f'{{"objects": {json.dumps(objects)},\n"cases": [\n{lines}\n]}}\n')
    print(len(results))


if __name__ == "__main__":
    main(sys.argv[1])
