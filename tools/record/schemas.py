"""Sends testkit/tests/unit/apiserver/schemas/cases*.yaml to a real API server, and writes its responses beside them.

    .venv/bin/konverge control-plane run --no-controllers       # prints KUBECONFIG
    make record ONLY=schemas ARGS="KUBECONFIG"

All requests are dry runs, except for CRDs and one object for updates. The recorded responses do not differ from run to run: causes are
sorted (the server ranges over maps), and values that the server generates are left out.
"""

import base64
import http.client
import json
import ssl
import sys
import tempfile
import time
from copy import deepcopy
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

ROOM = Path(__file__).parents[2] / "testkit" / "tests" / "unit" / "apiserver" / "schemas"
GROUP = "schemas.example.com"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SERVER_FIELDS = ("creationTimestamp", "generation", "managedFields", "namespace", "resourceVersion", "uid")

Data = dict[str, Any]


class Server:
    """A real API server, for one request at a time."""

    def __init__(self, kubeconfig: str) -> None:
        config = yaml.safe_load(Path(kubeconfig).read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.context = ssl.create_default_context(cafile=_file(cluster, "certificate-authority"))
        self.headers = {"Accept": "application/json"}
        if "token" in user:
            self.headers["Authorization"] = f"Bearer {user['token']}"
        else:
            self.context.load_cert_chain(_file(user, "client-certificate"), _file(user, "client-key"))
        self.address = urlsplit(cluster["server"])
        self.connection = http.client.HTTPSConnection(
            self.address.hostname or "", self.address.port, context=self.context
        )

    def ask(
        self, method: str, target: str, body: Any = None, kind: str = "application/json"
    ) -> tuple[int, Any, list[str]]:
        sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        self.connection.request(method, target, sent, {**self.headers, "Content-Type": kind})
        answer = self.connection.getresponse()
        text = answer.read()
        warnings = answer.headers.get_all("Warning") or []
        results = [json.loads(warning.partition(" - ")[2]) if "\\x" not in warning else warning for warning in warnings]
        return answer.status, json.loads(text) if text[:1] == b"{" else text.decode(), results


def _file(section: Data, name: str) -> str:
    if name in section:
        return str(section[name])
    with tempfile.NamedTemporaryFile(delete=False) as file:
        file.write(base64.b64decode(section[f"{name}-data"]))
    return file.name


def answer(status: int, body: Any, warnings: list[str], *, keep: bool = True) -> Data:
    """Return the recorded part of a response."""
    result: Data = {"code": status}
    if status >= 300:
        causes = (body.get("details") or {}).get("causes")
        if causes:
            result["causes"] = sorted(([cause["field"], cause["message"]] for cause in causes), key=str)
        else:
            result["message"] = body["message"]
    elif keep:
        result["object"] = {key: value for key, value in body.items() if key not in ("apiVersion", "kind")}
        result["object"]["metadata"] = {k: v for k, v in body["metadata"].items() if k not in SERVER_FIELDS}
    if warnings:
        result["warnings"] = sorted(warnings)
    return result


def crd(kind: str, schema: Data, **version: Any) -> Data:
    plural = f"{kind.lower()}s"
    versions = [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **version}]
    names = {"kind": kind, "plural": plural}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {"group": GROUP, "names": names, "scope": "Namespaced", "versions": versions},
    }


def value_fields(cases: Data) -> Data:
    """Return the properties of spec: one for each construct and format."""
    fields = {case["field"]: case["schema"] for case in cases["values"]}
    names = {*cases["formats"], *(case["format"] for case in cases["formatsOfOthers"])}
    fields |= {f"format-{name}": {"type": "string", "format": name} for name in sorted(names)}
    return fields


def target(kind: str, name: str = "", query: str = "dryRun=All", subresource: str = "") -> str:
    path = f"/apis/{GROUP}/v1/namespaces/default/{kind.lower()}s"
    return f"{path}{'/' + name if name else ''}{'/' + subresource if subresource else ''}?{query}"


def instance(kind: str, **fields: Any) -> Data:
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": "a"}, **fields}


def wait() -> None:
    time.sleep(0.1)  # noqa: TID251  # a script without a loop, and the server's time is real


def establish(server: Server, definition: Data) -> None:
    server.ask("DELETE", f"{CRDS}/{definition['metadata']['name']}")
    for _ in range(100):
        status, body, _ = server.ask("POST", CRDS, definition)
        if status == 201:
            break
        wait()
    else:
        raise SystemExit(f"{definition['metadata']['name']}: {body}")
    served = target(definition["spec"]["names"]["kind"], query="")
    while server.ask("GET", served)[0] != 200:
        wait()


def record_values(server: Server, cases: Data) -> list[Data]:
    results = []
    asked = [(case["field"], value) for case in cases["values"] for value in case["values"]]
    asked += [(f"format-{name}", value) for name, values in cases["formats"].items() for value in values]
    asked += [(f"format-{case['format']}", case["value"]) for case in cases["formatsOfOthers"]]
    for field, value in asked:
        got = answer(*server.ask("POST", target("V"), instance("V", spec={field: value})))
        if got["code"] == 201:
            got["value"] = got.pop("object").get("spec", {})
            got["value"].pop("defaults", None) if field != "defaults" else None
        results.append({"field": field, "given": value, **got})
    return results


def record_metadata(server: Server, cases: Data) -> list[Data]:
    results = []
    for metadata in cases["metadata"]:
        got = answer(*server.ask("POST", target("V"), {**instance("V"), "metadata": metadata}))
        if got["code"] == 201:
            got["metadata"] = got.pop("object")["metadata"]
        results.append({"given": metadata, **got})
    return results


def record_bodies(server: Server, cases: Data) -> list[Data]:
    results = [
        {"given": body, **answer(*server.ask("POST", target("V"), body.encode()), keep=False)}
        for body in cases["bodies"]
    ]
    for name, kind in (("strict", "application/json"), ("strictYaml", "application/yaml")):
        for body in cases[name]:
            for mode in ("Strict", "Warn"):
                url = target("V", query=f"dryRun=All&fieldValidation={mode}")
                results.append(
                    {"given": body, "type": kind, "mode": mode, **answer(*server.ask("POST", url, body.encode(), kind))}
                )
    return results


def record_updates(server: Server, cases: Data) -> list[Data]:
    ratchet = cases["ratchet"]
    loose, tight = (crd("R", ratchet[name], subresources={"status": {}}) for name in ("loose", "tight"))
    establish(server, loose)
    old = instance("R", **ratchet["old"])
    _, manifest, _ = server.ask("POST", target("R", query=""), old)
    manifest["status"] = old["status"]
    _, manifest, _ = server.ask("PUT", target("R", "a", "", "status"), manifest)
    name = tight["metadata"]["name"]
    status, body, _ = server.ask("PATCH", f"{CRDS}/{name}", {"spec": tight["spec"]}, "application/merge-patch+json")
    assert status == 200, body
    while (
        server.ask("PUT", target("R", "a"), {**manifest, "spec": {**manifest["spec"], "nope": 1, "name": "too long"}})[
            0
        ]
        != 422
    ):
        wait()
    results = []
    for change in ratchet["updates"]:
        new = {**manifest, "spec": {**manifest["spec"], **change}}
        results.append({"spec": change, **answer(*server.ask("PUT", target("R", "a"), new), keep=False)})
    for change in ratchet["statuses"]:
        new = {**manifest, "status": change}
        results.append(
            {"status": change, **answer(*server.ask("PUT", target("R", "a", subresource="status"), new), keep=False)}
        )
    return results


def merged(base: Any, change: Any) -> Any:
    """Apply a JSON merge patch; a list of versions is patched item by item if the patch is a map of indexes."""
    if not isinstance(change, dict):
        return change
    if isinstance(base, list):
        items = list(base)
        for index, item in change.items():
            at = int(index)
            items[at : at + 1] = [merged(items[at] if at < len(items) else {}, item)]
        return items
    result = dict(base) if isinstance(base, dict) else {}
    for key, item in change.items():
        if item is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), item)
    return result


def record_crds(server: Server, cases: Data) -> list[Data]:
    results = []
    for case in cases["definitions"]:
        new = merged(deepcopy(cases["base"]), case["change"])
        got = answer(*server.ask("POST", f"{CRDS}?dryRun=All", new))
        if got["code"] == 201:
            got["spec"] = got.pop("object")["spec"]
        results.append({"name": case["name"], **got})
    manifest = server.ask("POST", CRDS, cases["base"])
    while (
        server.ask("GET", f"{CRDS}/{cases['base']['metadata']['name']}")[1]["status"]["conditions"][-1]["status"]
        != "True"
    ):
        wait()
    assert manifest[0] == 201, manifest
    old = server.ask("GET", f"{CRDS}/{cases['base']['metadata']['name']}")[1]
    for case in cases["updates"]:
        got = answer(
            *server.ask("PUT", f"{CRDS}/{old['metadata']['name']}?dryRun=All", merged(deepcopy(old), case["change"])),
            keep=False,
        )
        results.append({"name": case["name"], "update": True, **got})
    server.ask("DELETE", f"{CRDS}/{old['metadata']['name']}")
    return results


def main(kubeconfig: str) -> None:
    server = Server(kubeconfig)
    cases = yaml.safe_load((ROOM / "cases.yaml").read_text())
    fields = value_fields(cases)
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    establish(server, crd("V", schema))
    recorded = {
        "values": record_values(server, cases),
        "metadata": record_metadata(server, cases),
        "bodies": record_bodies(server, cases),
        "updates": record_updates(server, cases),
    }
    definitions = ROOM / "cases_crds.yaml"
    if definitions.exists():
        recorded["crds"] = record_crds(server, yaml.safe_load(definitions.read_text()))
    text = json.dumps(recorded, indent=1, ensure_ascii=False, sort_keys=True)
    (ROOM / "recorded.json").write_text(text + "\n")
    print({name: len(answers) for name, answers in recorded.items()})


if __name__ == "__main__":
    main(sys.argv[1])
