"""Records the results of sequences of writes on a real API server, for the tests of `konverge_testing.apiserver.apply`.

    konverge control-plane run --no-controllers         # prints a kubeconfig
    kubectl --kubeconfig ... proxy --port 8001
    make record ONLY=apply ARGS="http://127.0.0.1:8001"

Guarantees: all sequences run in parallel, a second or more between two steps, so that steps have different times; times, uids and versions
are masked. The record of a step has the object before it ("same": as the last response), the request, the response and whether anything was
written. `schemas.json` holds the part of the OpenAPI document that the built-in kinds need, without descriptions.

`sequences.json` holds the steps. A step has `do` (apply, create, put, merge), `by` (field manager), and what it needs of `body`, `force`,
`sub` (subresource), `version`, `agent` (User-Agent, if `by` is ""). A body may omit apiVersion, kind, name and namespace; they are then
added. A put sends the present object with `set` (paths with dots) and `unset` applied. `pruned`: the server prunes the result.
"""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

Data = dict[str, Any]

FOLDER = Path(__file__).parents[2] / "testkit" / "tests" / "unit" / "apiserver" / "apply"
PREFIX = "#/components/schemas/"
ASKED: dict[str, Any] = json.loads((FOLDER / "sequences.json").read_text())
KINDS = {
    "Widget": ("example.com", "v1", "widgets"),
    "Loose": ("example.com", "v1", "looses"),
    "ConfigMap": ("", "v1", "configmaps"),
    "Service": ("", "v1", "services"),
    "Deployment": ("apps", "v1", "deployments"),
}
CUSTOM = {kind: KINDS[kind][2] for kind in ("Widget", "Loose")}


class Server:
    """A real API server behind `kubectl proxy`."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(
        self, method: str, path: str, body: Any = None, content: str = "application/json", agent: str = "record"
    ) -> tuple[int, Data]:
        """Send a request; return the code and the document."""
        data = json.dumps(body).encode() if body is not None else None
        headers = {"Content-Type": content, "User-Agent": agent}
        request = Request(self.url + path, data, headers, method=method)
        try:
            with urlopen(request) as answer:  # loopback, http
                return answer.status, json.load(answer)
        except HTTPError as refused:
            return refused.code, json.load(refused)


def crd(kind: str, plural: str, schema: Data, status: bool) -> Data:
    """Return a CustomResourceDefinition with two versions of one schema."""
    versions: list[Data] = [
        {
            "name": name,
            "served": True,
            "storage": name == "v1",
            "schema": {"openAPIV3Schema": schema},
            **({"subresources": {"status": {}}} if status else {}),
        }
        for name in ("v1", "v2")
    ]
    names = {"kind": kind, "plural": plural}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions},
    }


def changed(object_: Data, step: Data) -> Data:
    """Return the object with a PUT's paths set and unset."""
    out: Data = json.loads(json.dumps(object_))
    for path, value in [*step.get("set", {}).items(), *((path, None) for path in step.get("unset", ()))]:
        here: Any = out
        *above, last = path.split(".")
        for name in above:
            here = here[int(name)] if isinstance(here, list) else here.setdefault(name, {})
        if path in step.get("unset", ()):
            here.pop(last, None)
        else:
            here[last] = value
    return out


class Sequence:
    """One object, written step by step."""

    def __init__(self, server: Server, kind: str, name: str, steps: list[Data]) -> None:
        self.server, self.kind, self.title, self.steps = server, kind, name, steps
        self.group, self.version, self.plural = KINDS[kind]
        self.name = name.lower().replace(" ", "-")
        self.recorded: list[Data] = []
        self.times: dict[str, str] = {}

    def path(self, version: str, sub: str = "", *, named: bool = True) -> str:
        """Return the path of the object, or of the collection."""
        root = f"/apis/{self.group}/{version}" if self.group else f"/api/{version}"
        path = f"{root}/namespaces/default/{self.plural}"
        return path + (f"/{self.name}" if named else "") + (f"/{sub}" if sub else "")

    def get(self, version: str) -> Data | None:
        """Return the object as it is."""
        code, item = self.server.ask("GET", self.path(version))
        return item if code == 200 else None

    def go(self, index: int) -> None:
        """Do one step."""
        if index >= len(self.steps):
            return
        step = self.steps[index]
        version, sub = step.get("version", self.version), step.get("sub", "")
        before = self.get(version)
        if sub == "scale":
            self.go_scale(step, version, before or {})
            return
        if step["do"] in ("put", "merge") and before is None:
            raise RuntimeError(f"{self.title}: nothing to change at step {index}")
        body = self.body(step, version, before)
        code, answer = self.send(step, version, sub, body)
        after = self.get(version)
        sent = "live"
        if step["do"] in ("put", "create"):
            sent = (body.get("metadata") or {}).get("managedFields", "none")
        elif step["do"] == "merge" and "managedFields" in (body.get("metadata") or {}):
            sent = body["metadata"]["managedFields"]
        for item in (before, answer):
            self.see(item)
        now = f"2026-01-01T00:00:{index:02d}Z"
        record = {
            "do": step["do"],
            "by": step["by"],
            "agent": step.get("agent", "record"),
            "force": bool(step.get("force")),
            "sub": sub,
            "version": f"{self.group}/{version}" if self.group else version,
            "now": now,
            "sent": self.times_masked(sent),
            "pruned": bool(step.get("pruned")),
            "patch": body if step["do"] == "apply" else None,
            "before": self.masked(before),
            "code": code,
            "answer": self.masked(answer),
            "written": (before or {}).get("metadata", {}).get("resourceVersion")
            != (after or {}).get("metadata", {}).get("resourceVersion"),
        }
        self.recorded.append(record)

    def go_scale(self, step: Data, version: str, before: Data) -> None:
        """Do one step through the scale subresource; record the parent before and after, and the response."""
        _, scale = self.server.ask("GET", self.path(version, "scale"))
        body = changed(scale, step) if step["do"] == "put" else json.loads(json.dumps(step["body"]))
        if step["do"] == "apply":
            body = {
                "apiVersion": "autoscaling/v1",
                "kind": "Scale",
                "metadata": {"name": self.name, "namespace": "default"},
                **body,
            }
        code, answer = self.send(step, version, "scale", body)
        after = self.get(version)
        for item in (before, after):
            self.see(item)
        self.recorded.append(
            {
                "do": "scale",
                "how": step["do"],
                "by": step["by"],
                "force": bool(step.get("force")),
                "version": f"{self.group}/{version}",
                "now": f"2026-01-01T00:00:{len(self.recorded):02d}Z",
                "body": body if step["do"] == "apply" else None,
                "before": self.masked(before),
                "scale": self.masked(scale),
                "code": code,
                "answer": self.masked(answer),
                "after": self.masked(after),
            }
        )

    def body(self, step: Data, version: str, before: Data | None) -> Data:
        """Return what is sent."""
        if step["do"] == "put":
            return changed(before or {}, step)
        body: Data = json.loads(json.dumps(step["body"]))
        if step["do"] == "merge":
            return body
        api_version = f"{self.group}/{version}" if self.group else version
        body = {"apiVersion": api_version, "kind": self.kind, **body}
        body["metadata"] = {"name": self.name, "namespace": "default", **body.get("metadata", {})}
        return {name: value for name, value in body.items() if name not in ("apiVersion", "kind") or value is not None}

    def send(self, step: Data, version: str, sub: str, body: Data) -> tuple[int, Data]:
        """Send it."""
        from urllib.parse import quote

        query = f"?fieldManager={quote(step['by'])}" if step["by"] else "?"
        method, content = {
            "apply": ("PATCH", "application/apply-patch+yaml"),
            "merge": ("PATCH", "application/merge-patch+json"),
        }.get(step["do"], ("PUT" if step["do"] == "put" else "POST", "application/json"))
        if step.get("force"):
            query += "&force=true"
        path = self.path(version, sub, named=step["do"] != "create")
        return self.server.ask(method, path + query, body, content, step.get("agent", "record"))

    def see(self, object_: Data | None) -> None:
        """Remember the times of owners in the order of their first appearance."""
        metadata = (object_ or {}).get("metadata") or {}
        for entry in metadata.get("managedFields") or []:
            if entry.get("time", "").startswith("20") and not entry["time"].startswith("2020"):
                self.times.setdefault(entry["time"], f"2026-01-01T00:00:{len(self.recorded):02d}Z")

    def masked(self, object_: Data | None) -> Data | None:
        """Return an object without what differs between two servers."""
        if object_ is None:
            return None
        out: Data = json.loads(json.dumps(object_))
        metadata = out.get("metadata") or {}
        for name in ("uid", "resourceVersion", "creationTimestamp"):
            if name in metadata:
                metadata[name] = "masked"
        if "managedFields" in metadata:
            metadata["managedFields"] = self.times_masked(metadata["managedFields"])
        return out

    def times_masked(self, entries: Any) -> Any:
        """Return managedFields entries with masked times."""
        if not isinstance(entries, list):
            return entries
        return [
            {**entry, "time": self.times.get(entry["time"], entry["time"])} if "time" in entry else entry
            for entry in entries
        ]


def reachable(document: Data, kinds: dict[str, str]) -> Data:
    """Return the definitions that some kinds need."""
    everything = document["components"]["schemas"]
    result: Data = {}
    waiting = list(kinds.values())
    while waiting:
        name = waiting.pop()
        if name in result:
            continue
        result[name] = bare(everything[name])
        text = json.dumps(result[name])
        waiting += [part.split('"')[0] for part in text.split(PREFIX)[1:]]
    return result


def bare(schema: Any) -> Any:
    """Return a schema without descriptions."""
    if isinstance(schema, list):
        return [bare(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: bare(value) for key, value in schema.items() if key != "description" or isinstance(value, dict)}


def schemas(server: Server) -> Data:
    """Return the schemas that the replay needs."""
    _, core = server.ask("GET", "/openapi/v3/api/v1")
    _, apps = server.ask("GET", "/openapi/v3/apis/apps/v1")
    scale, service = "io.k8s.api.autoscaling.v1.Scale", "io.k8s.api.core.v1.Service"
    config_map, deployment = "io.k8s.api.core.v1.ConfigMap", "io.k8s.api.apps.v1.Deployment"
    return {
        "ConfigMap": {"root": config_map, "definitions": reachable(core, {"ConfigMap": config_map})},
        "Deployment": {"root": deployment, "definitions": reachable(apps, {"Deployment": deployment})},
        "Scale": {"root": scale, "definitions": reachable(apps, {"Scale": scale})},
        "Service": {"root": service, "definitions": reachable(core, {"Service": service})},
        **{kind: {"schema": schema} for kind, schema in ASKED["schemas"].items()},
    }


def shorten(steps: list[Data]) -> None:
    """Leave out what equals the result of the step before."""
    last = None
    for step in steps:
        before, step["before"] = step["before"], "same" if step["before"] == last else step["before"]
        last = step["after"] if step["do"] == "scale" else step["answer"] if step["code"] < 400 else before


def free(server: Server, plural: str) -> None:
    """Remove the finalizers of all objects, so that they can be deleted."""
    for item in server.ask("GET", f"/apis/example.com/v1/{plural}")[1].get("items", []):
        path = f"/apis/example.com/v1/namespaces/default/{plural}/{item['metadata']['name']}"
        server.ask("PATCH", path, {"metadata": {"finalizers": None}}, "application/merge-patch+json")


def main(url: str) -> None:
    """Record everything."""
    server = Server(url)
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for kind, plural, schema in ((kind, plural, ASKED["schemas"][kind]) for kind, plural in CUSTOM.items()):
        free(server, plural)
        server.ask("DELETE", f"{crds}/{plural}.example.com")
        while server.ask("GET", f"{crds}/{plural}.example.com")[0] != 404:
            time.sleep(0.2)  # noqa: TID251  # a script against a real server
        code, answer = server.ask("POST", crds, crd(kind, plural, schema, kind == "Widget"))
        if code != 201:
            raise SystemExit(json.dumps(answer))
    going = [Sequence(server, kind, name, steps) for kind in KINDS for name, steps in ASKED["sequences"][kind].items()]
    for each in going:
        server.ask("DELETE", each.path(each.version))
        while server.ask("GET", f"/apis/{each.group}/{each.version}" if each.group else "/api/v1")[0] != 200 or (
            each.group == "example.com" and server.ask("GET", each.path(each.version, named=False))[0] != 200
        ):
            time.sleep(0.2)  # noqa: TID251  # a script against a real server
    time.sleep(2)  # noqa: TID251  # all CRDs served by now
    for index in range(max(len(each.steps) for each in going)):
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(Sequence.go, going, repeat(index)))
        time.sleep(1.1)  # noqa: TID251  # managedFields have whole seconds
    FOLDER.mkdir(parents=True, exist_ok=True)
    for each in going:
        shorten(each.recorded)
    recorded = [{"kind": each.kind, "name": each.title, "steps": each.recorded} for each in going]
    (FOLDER / "recorded.json").write_text("[\n" + ",\n".join(json.dumps(each) for each in recorded) + "\n]\n")
    (FOLDER / "schemas.json").write_text(json.dumps(schemas(server), sort_keys=True) + "\n")
    print(f"{len(recorded)} sequences, {sum(len(each['steps']) for each in recorded)} steps")


if __name__ == "__main__":
    main(sys.argv[1])
