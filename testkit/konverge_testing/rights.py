"""Rights of a ServiceAccount: the RBAC documents, and the access review that shows whether they hold.

Guarantees: `documents_for` and `probe_of` are pure. `grant` returns when the API server applies the new rules; RBAC is eventually
consistent there, and a test that begins too early would get a spurious 403.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from konverge import clock
from konverge_testing.api import Api
from konverge_testing.failures import ControlPlaneError

__all__ = ["Rule", "documents_for", "grant", "probe_of", "revoke"]

Rule: TypeAlias = Mapping[str, Sequence[str]]
"""A PolicyRule as RBAC writes it: `{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}`."""

_API = "rbac.authorization.k8s.io"
_POLL_SECONDS = 0.02
_EFFECT_SECONDS = 15.0


def documents_for(
    namespace: str, account: str, rules: Sequence[Rule], cluster_rules: Sequence[Rule]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the path of each collection and the document to create in it.

    Role and RoleBinding carry the account's name; ClusterRole and ClusterRoleBinding are named `<namespace>-<account>`.
    """
    base = f"/apis/{_API}/v1"
    if rules:
        yield from _pair(f"{base}/namespaces/{namespace}/", "Role", account, namespace, account, rules)
    if cluster_rules:
        yield from _pair(f"{base}/", "ClusterRole", f"{namespace}-{account}", namespace, account, cluster_rules)


def _pair(
    base: str, kind: str, name: str, namespace: str, account: str, rules: Sequence[Rule]
) -> Iterator[tuple[str, dict[str, Any]]]:
    head = {"apiVersion": f"{_API}/v1", "metadata": {"name": name}}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    role = {"apiGroup": _API, "kind": kind, "name": name}
    yield f"{base}{kind.lower()}s", {**head, "kind": kind, "rules": [dict(rule) for rule in rules]}
    yield f"{base}{kind.lower()}bindings", {**head, "kind": f"{kind}Binding", "subjects": [subject], "roleRef": role}


def probe_of(rule: Rule, namespace: str) -> dict[str, Any]:
    """Return the part of a SubjectAccessReview that is allowed exactly when the rule holds; "" is the whole cluster.

    >>> probe_of({"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["get"]}, "web")["resourceAttributes"]["subresource"]
    'scale'
    """
    verb = rule["verbs"][0]
    if rule.get("nonResourceURLs"):
        return {"nonResourceAttributes": {"path": rule["nonResourceURLs"][0], "verb": verb}}
    resource, _, subresource = rule["resources"][0].partition("/")
    attributes = {
        "namespace": namespace,
        "verb": verb,
        "group": rule["apiGroups"][0],
        "resource": resource,
        "subresource": subresource,
        "name": (rule.get("resourceNames") or [""])[0],
    }
    return {"resourceAttributes": {name: value for name, value in attributes.items() if value}}


def grant(api: Api, namespace: str, account: str, rules: Sequence[Rule], cluster_rules: Sequence[Rule]) -> list[str]:
    """Create the account with these rights and wait until they hold; returns the paths of what outlives the namespace."""
    api.create_service_account(namespace, account)
    outside: list[str] = []
    for path, document in documents_for(namespace, account, rules, cluster_rules):
        api.create(path, document)
        if "/namespaces/" not in path:
            outside.append(f"{path}/{document['metadata']['name']}")
    probes = [probe_of(rule, namespace) for rule in rules] + [probe_of(rule, "") for rule in cluster_rules]
    deadline = clock.monotonic() + _EFFECT_SECONDS
    pause = threading.Event()
    while probes:
        if _allowed(api, f"system:serviceaccount:{namespace}:{account}", probes[0]):
            probes.pop(0)
        elif clock.monotonic() >= deadline:
            raise ControlPlaneError(f"waited {_EFFECT_SECONDS:g} s for the right {probes[0]} of {namespace}/{account}")
        else:
            pause.wait(_POLL_SECONDS)
    return outside


def revoke(api: Api, paths: Sequence[str]) -> None:
    """Delete what `grant` made outside the namespace; objects that no longer exist are skipped."""
    for path in reversed(paths):
        api.delete(path)


def _allowed(api: Api, user: str, probe: Mapping[str, Any]) -> bool:
    groups = ["system:serviceaccounts", "system:authenticated"]
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "groups": groups, **probe},
    }
    answer = api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"].get("allowed"))
