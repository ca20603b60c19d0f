"""Record a real kube-apiserver's responses to the cases in `strategy_cases.json`, for tests.

Run as `make record ONLY=strategies ARGS="KUBECONFIG > testkit/tests/unit/apiserver/strategies/recorded.json"` against `konverge control-plane run
--no-controllers`. Objects are created in a dry run; objects with a change are really created, and deleted again.
"""

from __future__ import annotations

import base64
import json
import ssl
import sys
import tempfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import yaml

Data = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """An object to create and, if `patch` is given, a change of it: a merge patch, sent as a whole object."""

    name: str
    resource: tuple[str, str, str]
    """Group, version, plural."""
    body: Data
    cluster: bool = False
    patch: Data | None = None
    subresource: str = ""


def _text(encoded: str) -> str:
    return base64.b64decode(encoded).decode()


class Plane:
    """Speaks to the API server of a kubeconfig that holds its certificates."""

    def __init__(self, kubeconfig: str) -> None:
        config = yaml.safe_load(Path(kubeconfig).read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.server = cluster["server"]
        self.context = ssl.create_default_context(cadata=_text(cluster["certificate-authority-data"]))
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(_text(user["client-certificate-data"]) + _text(user["client-key-data"]))
            file.flush()
            self.context.load_cert_chain(file.name)

    def ask(self, method: str, path: str, body: Data | None = None) -> tuple[Data, list[str]]:
        """Return the response and its warnings."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json"}
        request = urllib.request.Request(self.server + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self.context) as answer:
                return json.load(answer), answer.headers.get_all("Warning") or []
        except HTTPError as refused:
            return json.load(refused), []


def merged(target: Any, patch: Any) -> Any:
    """Apply a JSON merge patch."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def path_of(case: Case, name: str = "") -> str:
    group, version, plural = case.resource
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    place = "" if case.cluster else "/namespaces/default"
    return f"{root}{place}/{plural}" + (f"/{name}" if name else "")


def stored(answer: Data) -> Data:
    answer["metadata"].pop("managedFields", None)
    return answer


def outcome(answer: Data, warnings: list[str]) -> Data:
    if answer.get("kind") == "Status":
        causes = answer.get("details", {}).get("causes")
        return {
            "refused": {
                "reason": answer["reason"],
                "message": answer["message"],
                **({"causes": causes} if causes else {}),
            }
        }
    words = [json.loads(each.split(" - ", 1)[1]) for each in warnings]
    return {"stored": stored(answer), **({"warnings": words} if words else {})}


def record(plane: Plane, case: Case) -> Data:
    group, version, plural = case.resource
    result: Data = {"name": case.name, "resource": [group, plural], "version": version}
    if case.patch is None:
        return {**result, "request": case.body, **outcome(*plane.ask("POST", path_of(case) + "?dryRun=All", case.body))}
    old, _ = plane.ask("POST", path_of(case), case.body)
    if old.get("kind") == "Status":
        raise SystemExit(f"{case.name}: {old['message']}")
    place = path_of(case, old["metadata"]["name"])
    try:
        old = stored(plane.ask("GET", place)[0])
        request = merged(old, case.patch)
        sub = f"/{case.subresource}" if case.subresource else ""
        answer = plane.ask("PUT", f"{place}{sub}?dryRun=All", request)
    finally:
        plane.ask("PATCH", place, {"metadata": {"finalizers": None}})
        plane.ask("DELETE", f"{place}?gracePeriodSeconds=0&propagationPolicy=Background")
        if plural == "namespaces":
            plane.ask(
                "PUT",
                f"{place}/finalize",
                {**merged(old, {"spec": {"finalizers": []}}), "metadata": {"name": old["metadata"]["name"]}},
            )
    return {**result, "old": old, "request": request, "subresource": case.subresource, **outcome(*answer)}


def main() -> None:
    plane = Plane(sys.argv[1])
    cases = json.loads((Path(__file__).parent / "strategy_cases.json").read_text())
    json.dump([record(plane, Case(**case)) for case in cases], sys.stdout, indent=0, sort_keys=True)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
