"""Records a real API server's responses to the rules of `recorded.json`, for the tests of `konverge_testing.apiserver.cel`.

    konverge control-plane run --no-controllers         # prints a kubeconfig
    kubectl --kubeconfig ... proxy --port 8001
    make record ONLY=cel ARGS="http://127.0.0.1:8001"

Guarantees: every response is recorded as code, message and causes, and does not depend on the run (names of types that the server generates
are replaced by numbers). The definitions are deleted at the end.

A new case is an entry of the file without a response. `values`: a schema with a rule, and a value. `walks`: a schema and the successive
specs of an object (the first is created, the others are updates; a rejected update leaves the object unchanged), and the schema and specs of
a later version of the definition (`then`, `later`). `refused`: rules that every server rejects.
"""

import json
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

Data = dict[str, Any]

TARGET = Path(__file__).parents[2] / "testkit" / "tests" / "unit" / "apiserver" / "cel" / "recorded.json"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CHUNK = 40
REFUSED_CHUNK = 12


def definition(plural: str, schema: Data) -> Data:
    """Return a CustomResourceDefinition of this schema."""
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": plural, "kind": plural.capitalize()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.cel.example.com"},
        "spec": {"group": "cel.example.com", "names": names, "scope": "Namespaced", "versions": [version]},
    }


def with_spec(fields: dict[str, Data]) -> Data:
    """Return the schema of objects with these fields in their spec."""
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}


class Server:
    """A real API server behind `kubectl proxy`."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(
        self, method: str, path: str, body: Any = None, content: str = "application/json"
    ) -> tuple[int, Data, list[str]]:
        """Send a request; return the code, the document and the warnings."""
        data = json.dumps(body).encode() if body is not None else None
        request = Request(self.url + path, data, {"Content-Type": content}, method=method)
        try:
            with urlopen(request) as answer:  # loopback, http
                return answer.status, json.load(answer), answer.headers.get_all("Warning") or []
        except HTTPError as refused:
            return refused.code, json.load(refused), refused.headers.get_all("Warning") or []

    @contextmanager
    def defined(self, plural: str, schema: Data) -> Iterator[str]:
        """Serve objects of this schema; the value is their path."""
        code, answer, _ = self.ask("POST", DEFINITIONS, definition(plural, schema))
        if code != 201:
            raise SystemExit(f"{plural}: {answer['message']}")
        self.settled(plural)
        yield f"/apis/cel.example.com/v1/namespaces/default/{plural}"
        self.ask("DELETE", f"{DEFINITIONS}/{plural}.cel.example.com")

    def settled(self, plural: str) -> None:
        """Wait until a definition is served, and a little longer: the schema follows its condition."""
        for _ in range(100):
            _, item, _ = self.ask("GET", f"{DEFINITIONS}/{plural}.cel.example.com")
            if any(
                condition["type"] == "Established" and condition["status"] == "True"
                for condition in item["status"]["conditions"] or ()
            ):
                time.sleep(1.5)  # noqa: TID251  # a script against a real server
                return
            time.sleep(0.1)  # noqa: TID251  # a script against a real server
        raise SystemExit(f"{plural} is not established")


def said(code: int, answer: Data, warnings: list[str]) -> Data:
    """Return the compared part of a response."""
    if code < 300:
        return {"code": code, **({"warnings": [unquoted(warning) for warning in warnings]} if warnings else {})}
    causes = answer.get("details", {}).get("causes", [])
    return {"code": code, "causes": sorted(causes, key=lambda cause: (cause["field"], cause["message"]))}


def unquoted(warning: str) -> str:
    """Return the text of a Warning header."""
    return str(json.loads(warning.partition(" - ")[2]))


def thing(plural: str, name: str, spec: Data, version: str = "") -> Data:
    """Return an object."""
    metadata = {"name": name, **({"resourceVersion": version} if version else {})}
    return {"apiVersion": "cel.example.com/v1", "kind": plural.capitalize(), "metadata": metadata, "spec": spec}


def values(server: Server, cases: list[Data]) -> list[Data]:
    """Record every rule over single values."""
    records = []
    for start in range(0, len(cases), CHUNK):
        chunk = {f"v{number}": case for number, case in enumerate(cases[start : start + CHUNK])}
        plural = f"values{start}"
        bad = bad_places(server, plural, chunk)
        chunk = {name: case for name, case in chunk.items() if name not in bad}
        spec = {name: case["value"] for name, case in chunk.items()}
        with server.defined(plural, with_spec({name: case["schema"] for name, case in chunk.items()})) as path:
            code, answer, _ = server.ask("POST", path, thing(plural, "all", spec))
        if code not in (201, 422):
            raise SystemExit(answer)
        by_field: dict[str, list[Data]] = {}
        for cause in answer.get("details", {}).get("causes", []):
            by_field.setdefault(cause["field"].removeprefix("spec."), []).append({**cause, "field": "value"})
        records += [
            {"schema": case["schema"], "value": case["value"], "causes": by_field.get(name, [])}
            for name, case in chunk.items()
        ]
    return records


def bad_places(server: Server, plural: str, chunk: dict[str, Data]) -> set[str]:
    """Return the fields whose rules the server rejects (mostly as too expensive), and print them."""
    schema = with_spec({name: case["schema"] for name, case in chunk.items()})
    code, answer, _ = server.ask("POST", f"{DEFINITIONS}?dryRun=All", definition(plural, schema))
    bad: set[str] = set()
    for cause in answer["details"]["causes"] if code == 422 else ():
        name = re.search(r"properties\[(v\w+)\]", cause["field"])
        if name is not None and name[1] not in bad:
            bad.add(name[1])
            print(chunk[name[1]]["schema"]["x-kubernetes-validations"], cause["message"])
    return bad


def walks(server: Server, cases: list[Data]) -> list[Data]:
    """Create and update objects."""
    records = []
    for case in cases:
        plural, schema = case["name"], case["schema"]
        with server.defined(plural, schema) as path:
            record = {"name": plural, "schema": schema, "steps": steps(server, path, plural, case["steps"])}
            if "then" in case:
                _, live, _ = server.ask("GET", f"{DEFINITIONS}/{plural}.cel.example.com")
                live["spec"] = definition(plural, case["then"])["spec"]
                server.ask("PUT", f"{DEFINITIONS}/{plural}.cel.example.com", live)
                server.settled(plural)
                record |= {"then": case["then"], "later": steps(server, path, plural, case["later"])}
        records.append(record)
    return records


def steps(server: Server, path: str, plural: str, cases: list[Data]) -> list[Data]:
    """Carry out the steps of a walk."""
    return [step(server, path, plural, case["new"]["metadata"]["name"], case["new"]["spec"]) for case in cases]


def step(server: Server, path: str, plural: str, name: str, spec: Data) -> Data:
    """Create an object, or update it if it exists."""
    code, live, _ = server.ask("GET", f"{path}/{name}")
    old = (
        {key: live[key] for key in ("apiVersion", "kind", "spec")} | {"metadata": {"name": name}}
        if code == 200
        else None
    )
    if old is None:
        answer = server.ask("POST", path, thing(plural, name, spec))
    else:
        answer = server.ask("PUT", f"{path}/{name}", thing(plural, name, spec, live["metadata"]["resourceVersion"]))
    return {"old": old, "new": thing(plural, name, spec), **said(*answer)}


def refused(server: Server, cases: list[Data]) -> list[Data]:
    """Record rules that do not compile."""
    records = []
    for start in range(0, len(cases), REFUSED_CHUNK):
        chunk = cases[start : start + REFUSED_CHUNK]
        schema = with_spec(
            {
                f"r{row}": {**case["schema"], "x-kubernetes-validations": [{"rule": case["rule"], "message": "no"}]}
                for row, case in enumerate(chunk)
            }
        )
        code, answer, _ = server.ask("POST", DEFINITIONS, definition("refused", schema))
        if code != 422:
            raise SystemExit(answer)
        for row, case in enumerate(chunk):
            texts = [
                cause["message"].partition('"OptionalOldSelf":null}: ')[2]
                for cause in answer["details"]["causes"]
                if f"properties[r{row}].x-kubernetes-validations[0].rule" in cause["field"]
            ]
            text = re.sub(r"selfType\d+", "selfType0", texts[0]) if texts else ""
            records.append({"schema": case["schema"], "rule": case["rule"], "text": text})
    return records


RECORDERS = {"values": values, "walks": walks, "refused": refused}


def main(url: str) -> None:
    """Record everything."""
    server = Server(url)
    cases = json.loads(TARGET.read_text())
    records = {name: record(server, cases[name]) for name, record in RECORDERS.items()}
    lines = [
        f'"{name}": [\n' + ",\n".join(json.dumps(entry) for entry in entries) + "\n]"
        for name, entries in records.items()
    ]
    TARGET.write_text("{" + ",\n".join(lines) + "}\n")
    print({name: len(entries) for name, entries in records.items()})


if __name__ == "__main__":
    main(sys.argv[1])
