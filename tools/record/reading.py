"""Records a real kube-apiserver's responses to GET, LIST and WATCH: `make record ONLY=reading` writes `recorded.json`.

A script of writes and requests runs against a control plane of its own (etcd and kube-apiserver of the local cache). Values that differ
between any two runs are masked: a version becomes the label of its write (`{a1}`), or `{now}` if it is not older than the
last write to the
resource. `testkit/tests/unit/apiserver/reading/test_recorded.py` plays the same script on the in-memory store and compares.

The script is the file itself, without the responses; a new case is a step without `answer`. A step is a write (a label names its version from
then on), `forget` (history is lost), or a case: a request; for a watch also the seconds that it is read and the writes in that time. In a
query `{label}` is the version of a write, and an object is a continue token.
"""

import base64
import copy
import http.client
import json
import re
import ssl
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any, Final, TypeAlias
from urllib.parse import urlencode

import yaml

Data: TypeAlias = dict[str, Any]

TARGET: Final = Path(__file__).parents[2] / "testkit" / "tests" / "unit" / "apiserver" / "reading" / "recorded.json"

COLLECTIONS: Final[Mapping[str, tuple[str, str]]] = {
    "configmaps": ("", "v1"),
    "namespaces": ("", "v1"),
    "nodes": ("", "v1"),
    "secrets": ("", "v1"),
    "widgets": ("example.com", "v1"),
}

_WIDGET_FIELDS: Final = {"color": {"type": "string"}, "size": {"type": "integer"}, "on": {"type": "boolean"}}
WIDGETS: Final[Data] = {"type": "object", "properties": {"spec": {"type": "object", "properties": _WIDGET_FIELDS}}}
"""The schema of the custom kind."""

_VOLATILE: Final = ("uid", "creationTimestamp", "managedFields", "generation")


# Masks, shared with the replay


def masked(answer: Any, versions: Mapping[str, int], last: int) -> Any:
    """Return a response without what differs between two runs; `last` is the version of the last write to the resource."""
    labels = {str(version): f"{{{label}}}" for label, version in versions.items()}
    if not isinstance(answer, dict):
        return answer
    if "items" in answer:
        return {
            **answer,
            "metadata": _list_meta(answer["metadata"], labels, last),
            "items": [_object(item, labels) for item in answer["items"]],
        }
    if answer.get("kind") == "Status":
        return {
            **answer,
            "message": _message(answer.get("message", ""), labels),
            "metadata": _list_meta(answer["metadata"], labels, last),
        }
    return _object(answer, labels)


def masked_line(line: Data, versions: Mapping[str, int], last: int) -> Data:
    """Return a line of a watch without what differs between two runs."""
    if line["type"] == "BOOKMARK":
        metadata = _list_meta(line["object"]["metadata"], {}, last)
        return {**line, "object": {**line["object"], "metadata": metadata}}
    return {**line, "object": masked(line["object"], versions, last)}


def _list_meta(metadata: Data, labels: Mapping[str, str], last: int) -> Data:
    result = dict(metadata)
    if "resourceVersion" in result:
        result["resourceVersion"] = _version(result["resourceVersion"], labels, last)
    if result.get("continue"):
        token = json.loads(base64.urlsafe_b64decode(result["continue"] + "=" * (-len(result["continue"]) % 4)))
        token["rv"] = _version(str(token["rv"]), labels, last)
        result["continue"] = token
    return result


def _version(text: str, labels: Mapping[str, str], last: int) -> str:
    return "{now}" if int(text) >= last else labels.get(text, text)


def _object(document: Data, labels: Mapping[str, str]) -> Data:
    metadata = {key: value for key, value in document["metadata"].items() if key not in _VOLATILE}
    if "resourceVersion" in metadata:
        metadata["resourceVersion"] = labels.get(metadata["resourceVersion"], "{unknown}")
    return {**document, "metadata": metadata}


def _message(text: str, labels: Mapping[str, str]) -> str:
    text = re.sub(r"current: \d+", "current: {now}", text)
    return re.sub(
        r"resource version: (\d+) \(\d+\)",
        lambda document: f"resource version: {labels.get(document[1], document[1])} ({{floor}})",
        text,
    )


def labelled(value: str, versions: Mapping[str, int]) -> str:
    """Replace labels by versions."""
    return re.sub(r"\{(\w+)\}", lambda document: str(versions[document[1]]), value)


def query_text(query: list[list[Any]], versions: Mapping[str, int]) -> str:
    """Write a query; a parameter that is an object becomes a continue token."""
    pairs = []
    for name, value in query:
        if isinstance(value, dict):
            rv = value.get("rv")
            token = {**value, "rv": int(labelled(rv, versions))} if isinstance(rv, str) else value
            text = json.dumps(token, separators=(",", ":"))
            value = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
        pairs.append((name, labelled(value, versions)))
    return urlencode(pairs)


# The recording


class Recorder:
    """Plays the script on a real control plane."""

    def __init__(self, plane: Any) -> None:
        self.plane = plane
        self.versions: dict[str, int] = {}
        self.last: dict[str, int] = {}
        config = yaml.safe_load(Path(plane.kubeconfig).read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._host = cluster["server"].removeprefix("https://")
        with tempfile.TemporaryDirectory() as folder:
            self._context = _context(Path(folder), cluster, user)

    def call(self, method: str, path: str, body: Data | None = None) -> tuple[int, Data]:
        """Send one request."""
        connection = http.client.HTTPSConnection(self._host, context=self._context, timeout=30)
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())

    def write(self, step: Data) -> None:
        """Carry out a write, and keep its version under its label."""
        result = copy.deepcopy(step["object"])
        collection = _path(step["resource"], result["metadata"]["namespace"])
        item = f"{collection}/{result['metadata']['name']}"
        if step["write"] == "create":
            code, answer = self.call("POST", collection, result)
        elif step["write"] == "update":
            result["metadata"]["resourceVersion"] = self.call("GET", item)[1]["metadata"]["resourceVersion"]
            code, answer = self.call("PUT", item, result)
        else:
            watch = self.call("GET", collection)[1]["metadata"]["resourceVersion"]
            code, answer = self.call("DELETE", item)
            lines, _ = self.watch(f"{collection}?watch=1&resourceVersion={watch}", 0.5)
            answer = lines[-1]["object"]
        if code >= 300:
            raise SystemExit(f"{step['label']}: {code} {answer}")
        self.versions[step["label"]] = self.last[step["resource"]] = int(answer["metadata"]["resourceVersion"])

    def watch(self, path: str, seconds: float, writes: list[Data] | None = None) -> tuple[list[Data], bool]:
        """Read a watch for a time; returns its lines and whether it ended. A refusal is one line without a type."""
        connection = http.client.HTTPSConnection(self._host, context=self._context, timeout=10)
        connection.request("GET", path)
        response = connection.getresponse()
        if response.status != 200:
            return [{"code": response.status, "body": json.loads(response.read())}], True
        _wait(0.3)
        for write in writes or ():
            self.write(write)
        text, ended = b"", False
        deadline = perf_counter() + seconds
        while (left := deadline - perf_counter()) > 0:
            connection.sock.settimeout(left)
            try:
                chunk = response.read1(65536)
            except TimeoutError:
                break
            if not chunk:
                ended = True
                break
            text += chunk
        connection.close()
        return [json.loads(line) for line in text.splitlines()], ended

    def forget(self) -> None:
        """Compact etcd up to now and restart the server, so that neither the server nor its caches have older versions."""
        layout = self.plane.blocking.layout
        context = ssl.create_default_context(cafile=str(layout.pki("etcd-ca.crt")))
        context.load_cert_chain(str(layout.pki("etcd-client.crt")), str(layout.pki("etcd-client.key")))
        connection = http.client.HTTPSConnection(layout.etcd_url.removeprefix("https://"), context=context, timeout=10)
        connection.request(
            "POST", "/v3/kv/compaction", json.dumps({"revision": str(max(self.versions.values())), "physical": True})
        )
        assert connection.getresponse().status == 200
        self.plane.blocking.stop_apiserver()
        self.plane.blocking.start_apiserver()
        self.ready()

    def ready(self) -> None:
        """Wait until the custom resource is served."""
        while self.call("GET", _path("widgets", "default"))[0] != 200:
            _wait(0.2)
        # The watch cache of each resource fills at its own pace; the server serves an early request from etcd.
        _wait(2)

    def case(self, step: Data) -> Data:
        """Send a case's request; returns its masked response."""
        path = _path(step["resource"], step["namespace"])
        path += f"/{step['name']}" if "name" in step else ""
        path += f"?{query_text(step['query'], self.versions)}" if step["query"] else ""
        last = self.last.get(step["resource"], 0)
        if "seconds" not in step:
            code, body = self.call("GET", path)
            return {"code": code, "body": masked(body, self.versions, last)}
        lines, ended = self.watch(path, step["seconds"], step.get("writes"))
        if lines and "type" not in lines[0]:
            return {"code": lines[0]["code"], "body": masked(lines[0]["body"], self.versions, last)}
        return {"code": 200, "ended": ended, "lines": [masked_line(line, self.versions, last) for line in lines]}


def _wait(seconds: float) -> None:
    threading.Event().wait(seconds)


def _context(folder: Path, cluster: Data, user: Data) -> ssl.SSLContext:
    for name, source in (("certificate-authority", cluster), ("client-certificate", user), ("client-key", user)):
        (folder / name).write_bytes(base64.b64decode(source[f"{name}-data"]))
    context = ssl.create_default_context(cafile=str(folder / "certificate-authority"))
    context.load_cert_chain(str(folder / "client-certificate"), str(folder / "client-key"))
    return context


def _path(resource: str, namespace: str) -> str:
    group, version = COLLECTIONS[resource]
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    return f"{root}/namespaces/{namespace}/{resource}" if namespace else f"{root}/{resource}"


def _definition() -> Data:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": WIDGETS}}
    version["selectableFields"] = [
        {"jsonPath": f".spec.{name}"} for name in WIDGETS["properties"]["spec"]["properties"]
    ]
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "names": names, "scope": "Namespaced", "versions": [version]},
    }


def main() -> None:
    """Record, and write the file."""
    from konverge_testing import ControlPlane

    steps = json.loads(TARGET.read_text())["steps"]
    with ControlPlane() as plane:
        recorder = Recorder(plane)
        recorder.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", _definition())
        recorder.call(
            "POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other-space"}}
        )
        recorder.ready()
        for step in steps:
            if "write" in step:
                recorder.write(step)
            elif "forget" in step:
                recorder.forget()
            else:
                step["answer"] = recorder.case(step)
        _, item = recorder.call("GET", "/version")
    text = json.dumps({"server": item["gitVersion"], "steps": steps}, indent=1, ensure_ascii=False)
    TARGET.write_text(f"{text}\n")
    sys.stdout.write(f"{sum('case' in step for step in steps)} cases of {item['gitVersion']} in {TARGET.name}\n")


if __name__ == "__main__":
    main()
