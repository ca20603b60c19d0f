"""Records a real API server's responses to `cel_cases`, for the tests of `konverge_testing.apiserver.cel`.

    konverge control-plane run --no-controllers         # prints a kubeconfig
    kubectl --kubeconfig ... proxy --port 8001
    make record ONLY=cel ARGS="http://127.0.0.1:8001"

Guarantees: every response is recorded as code, message and causes, and does not depend on the run (names of types that the server generates
are replaced by numbers). The definitions are deleted at the end.
"""

from __future__ import annotations

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

from record import cel_cases as cases
from record.cel_cases import definition, fields, ruled

Data = dict[str, Any]

TARGET = Path(__file__).parents[2] / "testkit" / "tests" / "unit" / "apiserver" / "cel" / "recorded.json"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CHUNK = 12


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
    def defined(self, plural: str, spec: Data, root: Data | None = None) -> Iterator[str]:
        """Serve objects of this spec; the value is their path."""
        body = definition(plural, spec, root)
        code, answer, _ = self.ask("POST", DEFINITIONS, body)
        if code != 201:
            raise SystemExit(f"{plural}: {answer['message']}")
        self.settled(plural)
        yield f"/apis/cel.example.com/v1/namespaces/default/{plural}"
        self.ask("DELETE", f"{DEFINITIONS}/{plural}.cel.example.com")

    def settled(self, plural: str) -> None:
        """Wait until a definition is served, and a little longer: the schema follows its condition."""
        for _ in range(100):
            _, found, _ = self.ask("GET", f"{DEFINITIONS}/{plural}.cel.example.com")
            if any(
                one["type"] == "Established" and one["status"] == "True" for one in found["status"]["conditions"] or ()
            ):
                time.sleep(1.5)  # noqa: TID251  # a script against a real server
                return
            time.sleep(0.1)  # noqa: TID251  # a script against a real server
        raise SystemExit(f"{plural} is not established")


def said(code: int, answer: Data, warnings: list[str]) -> Data:
    """Return the compared part of a response."""
    if code < 300:
        return {"code": code, **({"warnings": [unquoted(one) for one in warnings]} if warnings else {})}
    causes = answer.get("details", {}).get("causes", [])
    return {"code": code, "causes": sorted(causes, key=lambda cause: (cause["field"], cause["message"]))}


def unquoted(warning: str) -> str:
    """Return the text of a Warning header."""
    return str(json.loads(warning.partition(" - ")[2]))


def thing(plural: str, name: str, spec: Data, version: str = "") -> Data:
    """Return an object."""
    metadata = {"name": name, **({"resourceVersion": version} if version else {})}
    return {"apiVersion": "cel.example.com/v1", "kind": plural.capitalize(), "metadata": metadata, "spec": spec}


def values(server: Server) -> list[Data]:
    """Record every rule over single values."""
    found = []
    for start in range(0, len(cases.VALUES), CHUNK):
        chunk = cases.VALUES[start : start + CHUNK]
        places = [
            (f"v{row}x{column}", ruled(schema, rule), value)
            for row, (schema, rule, given) in enumerate(chunk)
            for column, value in enumerate(given)
        ]
        plural = f"values{start}"
        bad = bad_places(server, plural, places)
        places = [place for place in places if place[0] not in bad]
        spec = fields(**{name: schema for name, schema, _ in places})
        with server.defined(plural, spec) as path:
            code, answer, _ = server.ask("POST", path, thing(plural, "all", {name: value for name, _, value in places}))
        if code not in (201, 422):
            raise SystemExit(answer)
        by_field: dict[str, list[Data]] = {}
        for cause in answer.get("details", {}).get("causes", []):
            by_field.setdefault(cause["field"].removeprefix("spec."), []).append({**cause, "field": "value"})
        found += [
            {"schema": schema, "value": value, "causes": by_field.get(name, [])} for name, schema, value in places
        ]
    return found


def bad_places(server: Server, plural: str, places: list[tuple[str, Data, Any]]) -> set[str]:
    """Return the places whose rules the server rejects (mostly as too expensive), and print them."""
    spec = fields(**{name: schema for name, schema, _ in places})
    code, answer, _ = server.ask("POST", f"{DEFINITIONS}?dryRun=All", definition(plural, spec))
    bad: set[str] = set()
    for cause in answer["details"]["causes"] if code == 422 else ():
        name = re.search(r"properties\[(v\w+)\]", cause["field"])
        if name is not None and name[1] not in bad:
            bad.add(name[1])
            print(
                next(schema for place, schema, _ in places if place == name[1])["x-kubernetes-validations"],
                cause["message"],
            )
    return bad


def walks(server: Server) -> list[Data]:
    """Create and update objects."""
    found = []
    for plural, spec, steps in cases.WALKS:
        with server.defined(plural, spec) as path:
            schema: Data = {"type": "object", "properties": {"spec": spec}}
            entry = {
                "name": plural,
                "schema": schema,
                "steps": [step(server, path, plural, "one", one) for one in steps],
            }
            found.append(entry)
            if plural == "ratchets":
                _, live, _ = server.ask("GET", f"{DEFINITIONS}/{plural}.cel.example.com")
                live["spec"] = definition(plural, cases.RATCHETED)["spec"]
                server.ask("PUT", f"{DEFINITIONS}/{plural}.cel.example.com", live)
                server.settled(plural)
                entry["then"] = {"type": "object", "properties": {"spec": cases.RATCHETED}}
                entry["later"] = [step(server, path, plural, "one", one) for one in cases.RATCHET_STEPS]
    with server.defined("roots", cases.ROOT_SPEC, cases.ROOT) as path:
        schema = {"type": "object", "properties": {"spec": cases.ROOT_SPEC}, **cases.ROOT}
        names = [("bad", {"n": 1}), ("good", {"n": 0}), ("good", {"n": 1}), ("good", {}), ("good", {"n": 2})]
        found.append({"name": "roots", "schema": schema, "steps": [step(server, path, "roots", *one) for one in names]})
    return found


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


def refused(server: Server) -> list[Data]:
    """Record rules that do not compile."""
    found = []
    for start in range(0, len(cases.REFUSED), CHUNK):
        chunk = cases.REFUSED[start : start + CHUNK]
        spec = fields(
            **{f"r{row}": ruled(schema, {"rule": rule, "message": "no"}) for row, (schema, rule) in enumerate(chunk)}
        )
        code, answer, _ = server.ask("POST", DEFINITIONS, definition("refused", spec))
        if code != 422:
            raise SystemExit(answer)
        for row, (schema, rule) in enumerate(chunk):
            texts = [
                cause["message"].partition('"OptionalOldSelf":null}: ')[2]
                for cause in answer["details"]["causes"]
                if f"properties[r{row}].x-kubernetes-validations[0].rule" in cause["field"]
            ]
            found.append(
                {"schema": schema, "rule": rule, "text": re.sub(r"selfType\d+", "selfType0", texts[0]) if texts else ""}
            )
    return found


def main(url: str) -> None:
    """Record everything."""
    server = Server(url)
    found = {"values": values(server), "walks": walks(server), "refused": refused(server)}
    lines = [
        f'"{name}": [\n' + ",\n".join(json.dumps(one) for one in entries) + "\n]" for name, entries in found.items()
    ]
    TARGET.write_text("{" + ",\n".join(lines) + "}\n")
    print({name: len(entries) for name, entries in found.items()})


if __name__ == "__main__":
    main(sys.argv[1])
