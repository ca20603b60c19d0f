"""Objects of the kinds of pools that the API server itself must accept or reject: one table for the in-memory server and for the real one."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from conformance.targets import Target

from konverge.crds import CustomResource, crd
from konverge.crds.pools_v1alpha1 import (
    GROUP,
    Nextcloud,
    NextcloudInstance,
    NextcloudPool,
    NextcloudProfile,
    NextcloudVersionMap,
)

__all__ = ["CASES", "KINDS", "Case", "Kinds"]

KINDS: tuple[type[CustomResource[Any, Any]], ...] = (
    NextcloudPool,
    Nextcloud,
    NextcloudInstance,
    NextcloudProfile,
    NextcloudVersionMap,
)
_PLURALS = {
    "NextcloudPool": "nextcloudpools",
    "NextcloudProfile": "nextcloudprofiles",
    "NextcloudInstance": "namespaces/default/nextcloudinstances",
    "Nextcloud": "namespaces/default/nextclouds",
}
CLAIM = {"namespace": "acme", "name": "main", "uid": "u-1"}
KEEPS = "an assigned Nextcloud keeps its instance"
LABELS = "the API server refuses instances with such labels"
POSTGRESQL = "only PostgreSQL can be managed"
ONCE = "a used instance never goes to another tenant"


@dataclass(frozen=True)
class Case:
    """A spec that is created, then replaced; `words` is a part of the refusal of the last write, "" if it must be accepted."""

    kind: str
    spec: dict[str, Any]
    words: str = ""
    after: dict[str, Any] | None = None
    status: dict[str, Any] | None = None
    name: str = "x"


def _claimed(**claim: Any) -> dict[str, Any]:
    return {"claimRef": {**CLAIM, **claim}}


def _labelled(labels: dict[str, str]) -> dict[str, Any]:
    return {"template": {"metadata": {"labels": labels}}}


def _database(kind: str, **database: Any) -> dict[str, Any]:
    settings = {"database": database}
    return {"NextcloudProfile": {"defaults": settings}, "NextcloudPool": {"template": {"spec": settings}}}.get(
        kind, settings
    )


def _ingress(kind: str, host: str) -> dict[str, Any]:
    settings: dict[str, Any] = {"ingress": {"host": host}}
    return {"NextcloudProfile": {"defaults": settings}, "NextcloudPool": {"template": {"spec": settings}}}.get(
        kind, settings
    )


CASES: dict[str, Case] = {
    "an empty pool": Case("NextcloudPool", {}),
    "a pool of fewer than none": Case("NextcloudPool", {"replicas": -1}, "greater than or equal to 0"),
    "a pool whose name is no label": Case("NextcloudPool", {}, "at most 63 characters", name="p" * 64),
    "a pool with an age in days": Case("NextcloudPool", {"lifecycle": {"maxUnassignedAge": "7d"}}, "should match"),
    "a pool whose instances never get old": Case("NextcloudPool", {"lifecycle": {"maxUnassignedAge": "0s"}}),
    "a pool whose instances live for ten minutes": Case("NextcloudPool", {"lifecycle": {"maxUnassignedAge": "10m"}}),
    "a pool whose instances are too old before they are made": Case(
        "NextcloudPool", {"lifecycle": {"maxUnassignedAge": "1ms"}}, "write at least 10m, or 0s for never"
    ),
    "a pool with an unknown policy": Case("NextcloudPool", {"lifecycle": {"reclaimPolicy": "Recycle"}}, "Unsupported"),
    "a pool with labels": Case("NextcloudPool", _labelled({"tier": "small", "example.com/a_b.c": "", "x": "v1.2_3"})),
    "a pool with a label whose value is no label's": Case("NextcloudPool", _labelled({"tier": "small size"}), LABELS),
    "a pool with a label whose key has a space": Case("NextcloudPool", _labelled({"the tier": "small"}), LABELS),
    "a pool with a label whose key has two domains": Case("NextcloudPool", _labelled({"a/b/c": "small"}), LABELS),
    "a pool with a label whose name is too long": Case("NextcloudPool", _labelled({f"a/{'k' * 64}": "small"}), LABELS),
    **{
        f"{what} for {words}": Case(what, {"allowedNamespaces": allowed}, refusal)
        for what in ("NextcloudPool", "NextcloudInstance")
        for words, allowed, refusal in (
            ("all namespaces", {"from": "All"}, ""),
            ("two namespaces", {"from": "Names", "names": ["a", "b"]}, ""),
            ("namespaces with a label", {"from": "Selector", "selector": {"matchLabels": {"team": "a"}}}, ""),
            ("nobody knows whom", {}, "Required value"),
            ("names without names", {"from": "Names"}, "names are needed with from: Names"),
            ("all namespaces and a name", {"from": "All", "names": ["a"]}, "names are needed with from: Names"),
            ("a selector without a selector", {"from": "Selector"}, "a selector is needed with from: Selector"),
            ("an empty selector", {"from": "Selector", "selector": {}}, "an empty selector would select every"),
        )
    },
    "a Nextcloud with a selector that no label meets": Case(
        "Nextcloud", {"poolSelector": {"matchLabels": {"tier": "-small"}}}, LABELS
    ),
    **{
        f"a {kind} whose managed database is {type_}": Case(kind, _database(kind, managed=True, type=type_), POSTGRESQL)
        for kind in ("NextcloudProfile", "NextcloudPool", "Nextcloud", "NextcloudInstance")
        for type_ in ("mysql", "mariadb", "sqlite")
    },
    **{
        f"a managed database of the type {type_}": Case(
            "NextcloudInstance", {"database": {"managed": True, "type": type_}}
        )
        for type_ in ("postgresql", "postgres", "pgsql")
    },
    "a managed database without a type": Case("NextcloudInstance", {"database": {"managed": True}}),
    "a MySQL elsewhere": Case("NextcloudInstance", {"database": {"managed": False, "type": "mysql"}}),
    "a managed database becomes a MySQL": Case(
        "NextcloudInstance",
        {"database": {"managed": True}},
        POSTGRESQL,
        {"database": {"managed": True, "type": "mysql"}},
    ),
    "an empty Nextcloud": Case("Nextcloud", {}),
    "a Nextcloud with chart values": Case("Nextcloud", {"helm": {"values": {"a": {"b": [1, "two"]}}}}),
    **{
        f"a {kind} whose host is {words}": Case(kind, _ingress(kind, host), "a host is a DNS name in lower case")
        for kind in ("NextcloudProfile", "NextcloudPool", "Nextcloud", "NextcloudInstance")
        for words, host in (
            ("two lines", "a.example.com\n---\nkind: ClusterRoleBinding"),
            ("a template", "{{ .Release.Name }}"),
            ("upper case", "A.example.com"),
            ("a URL", "https://a.example.com"),
        )
    },
    "a Nextcloud with a host": Case("Nextcloud", {"ingress": {"host": "cloud-1.example.com"}}),
    "a Nextcloud with a region that refers to a variable": Case(
        "Nextcloud", {"s3": {"region": "$(AWS_SECRET_ACCESS_KEY)"}}, "a region has letters, digits"
    ),
    "a Nextcloud with a region": Case("Nextcloud", {"s3": {"region": "eu-central-1"}}),
    "a Nextcloud with an app that is an option": Case("Nextcloud", {"apps": ["--all"]}, "should match"),
    "a Nextcloud with an app twice": Case("Nextcloud", {"apps": ["mail", "mail"]}, "Duplicate"),
    "another selector after the assignment": Case(
        "Nextcloud", {}, "", {"poolSelector": {"matchLabels": {"a": "b"}}}, {"instanceRef": {"name": "one"}}
    ),
    "the same instance after the assignment": Case(
        "Nextcloud", {}, "", {"instanceRef": {"name": "one"}}, {"instanceRef": {"name": "one"}}
    ),
    "another instance after the assignment": Case(
        "Nextcloud", {}, KEEPS, {"instanceRef": {"name": "two"}}, {"instanceRef": {"name": "one"}}
    ),
    "another instance before the assignment": Case(
        "Nextcloud", {"instanceRef": {"name": "one"}}, "", {"instanceRef": {"name": "two"}}
    ),
    "a bound instance that is no longer named": Case(
        "Nextcloud", {"instanceRef": {"name": "one"}}, KEEPS, {}, {"instanceRef": {"name": "one"}}
    ),
    "an instance": Case("NextcloudInstance", {}),
    "an instance whose name is too long for its database": Case(
        "NextcloudInstance", {}, "at most 47 lower-case letters", name="n" * 48
    ),
    "an instance with a dot in its name": Case("NextcloudInstance", {}, "at most 47 lower-case letters", name="a.b"),
    "an instance whose name no Service can have": Case("NextcloudInstance", {}, "begins with a letter", name="0a"),
    "an instance is taken": Case("NextcloudInstance", {}, "", _claimed()),
    "a taken instance is edited": Case("NextcloudInstance", _claimed(), "", {**_claimed(), "replicas": 2}),
    "a taken instance is released": Case(
        "NextcloudInstance", _claimed(), "claimRef cannot be removed once it is set", {}
    ),
    "a taken instance is given to another": Case("NextcloudInstance", _claimed(), ONCE, _claimed(uid="u-2")),
}


class Kinds:
    """Writes objects of the kinds to one server."""

    def __init__(self, target: Target) -> None:
        self._target = target

    async def send(self, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        """Send one request; returns status and document."""
        headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "pools-cases/1.0"}
        reply = await self._target.send(method, path, headers, b"" if body is None else json.dumps(body).encode())
        return reply.status, json.loads(reply.body) if "json" in reply.content_type else {}

    async def install(self) -> None:
        """Install the definitions, and wait until their kinds are served and their rules are in force."""
        at = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for wanted in map(crd, KINDS):
            status, document = await self.send("POST", at, wanted)
            assert status in {201, 409}, document
        async with asyncio.timeout(180):
            for case in (CASES["a pool whose name is no label"], CASES["an instance with a dot in its name"]):
                while (await self._write("POST", case, case.spec))[0] != 422:
                    await asyncio.sleep(0.1)
            while (await self._write("POST", CASES["a Nextcloud with an app twice"], {"apps": ["a", "a"]}))[0] != 422:
                await asyncio.sleep(0.1)

    async def play(self, case: Case) -> tuple[int, str]:
        """Carry a case out and remove its object; returns the status and message of its last write."""
        status, document = await self._write("POST", case, case.spec)
        if status != 201:
            return status, str(document.get("message", ""))
        try:
            if case.status is not None:
                status, document = await self._write("PUT", case, case.spec, document, "/status", case.status)
                assert status == 200, document
            if case.after is not None:
                status, document = await self._write("PUT", case, case.after, document)
            return status, str(document.get("message", ""))
        finally:
            await self.send("DELETE", f"{_path(case)}/{case.name}")

    async def _write(
        self,
        method: str,
        case: Case,
        spec: dict[str, Any],
        stored: dict[str, Any] | None = None,
        subresource: str = "",
        status: dict[str, Any] | None = None,
    ) -> tuple[int, dict[str, Any]]:
        metadata = (stored or {}).get("metadata", {"name": case.name})
        body = {"apiVersion": f"{GROUP}/v1alpha1", "kind": case.kind, "metadata": metadata, "spec": spec}
        if stored is not None and (status or stored.get("status")):
            body["status"] = status or stored["status"]
        path = _path(case) + ("" if method == "POST" else f"/{case.name}{subresource}")
        return await self.send(method, path, body)


def _path(case: Case) -> str:
    return f"/apis/{GROUP}/v1alpha1/{_PLURALS[case.kind]}"
