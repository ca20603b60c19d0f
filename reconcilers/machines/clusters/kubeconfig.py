"""The kubeconfig that Cluster API uses for the Nodes: its text, and when it is renewed. Pure.

Source: docs/reference/machines.md#the-kubeconfig-of-cluster-api.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from konverge.client import ClientConfig
from konverge.clock import from_rfc3339, rfc3339
from konverge.objects import Object
from konverge.reconcilers.machines.kinds import SECRET
from konverge.reconcilers.machines.words import MachinesAnnotation, MachinesLabel

__all__ = ["LIFE", "is_due", "is_ours", "kubeconfig", "kubeconfig_secret", "reached", "secret_name"]

LIFE: Final = timedelta(hours=1)
"""The life of a token in the TokenRequest; the API server may grant another."""
_LEFT: Final = timedelta(minutes=10)
"""A token with less than this left is replaced."""
_LONGEST: Final = timedelta(days=1)
"""A token that claims a longer life is another writer's, and would end unnoticed."""
_TYPE: Final = "cluster.x-k8s.io/secret"
_KEY: Final = "value"


def secret_name(cluster: str) -> str:
    """Return the name of the Secret that Cluster API reads.

    >>> secret_name("acme--blue")
    'acme--blue-kubeconfig'
    """
    return f"{cluster}-kubeconfig"


def reached(config: ClientConfig, ca: bytes) -> dict[str, Any]:
    """Return the cluster of a kubeconfig: the API server as this process reaches it."""
    cluster: dict[str, Any] = {"server": config.server}
    if ca:
        cluster["certificate-authority-data"] = base64.b64encode(ca).decode()
    if not config.tls.verify:
        cluster["insecure-skip-tls-verify"] = True
    if config.tls.server_name:
        cluster["tls-server-name"] = config.tls.server_name
    return cluster


def kubeconfig(cluster: str, server: Mapping[str, Any], user: str, token: str) -> str:
    """Return a kubeconfig, as JSON, which is YAML."""
    written = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": dict(server)}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": user}}],
        "current-context": cluster,
    }
    return json.dumps(written, indent=1)


def kubeconfig_secret(cluster: str, namespace: str, text: str, expiry: datetime, labels: Mapping[str, str]) -> Object:
    """Return the Secret. Cluster API only sees a Secret with the label of its Cluster."""
    return SECRET.new(
        secret_name(cluster),
        namespace,
        labels={MachinesLabel.CLUSTER: cluster, **labels},
        annotations={MachinesAnnotation.TOKEN_EXPIRY: rfc3339(expiry)},
        type=_TYPE,
        data={_KEY: base64.b64encode(text.encode()).decode()},
    )


def is_ours(secret: Object) -> bool:
    """Tell whether the operator created the Secret; an administrator's Secret has no annotation and is not changed."""
    return MachinesAnnotation.TOKEN_EXPIRY in (secret.metadata.annotations or {})


def is_due(
    secret: Object, cluster: str, server: Mapping[str, Any], now: datetime, age: timedelta | None = None
) -> bool:
    """Tell whether to write the Secret again: its token ends soon, or its label, API server or content differ.

    `age` is the time since this process received the token; a wrong clock does not change it. Without `age` another process received the
    token: an end beyond the token's life means that the clocks differ, or that another writer wrote it.
    """
    if secret.metadata.label(MachinesLabel.CLUSTER) != cluster:
        return True
    try:
        left = from_rfc3339((secret.metadata.annotations or {})[MachinesAnnotation.TOKEN_EXPIRY]) - now
        text = json.loads(base64.b64decode(secret.get("data", _KEY, default=""), validate=True))
        life = _life(text["users"][0]["user"]["token"])
        clusters = text["clusters"]
    except (AttributeError, ValueError, TypeError, LookupError, OverflowError, RecursionError):
        return True
    soon = not _LEFT <= left <= life if age is None else age > life - _LEFT
    return bool(soon or clusters != [{"name": cluster, "cluster": dict(server)}])


def _life(token: str) -> timedelta:
    """Return the life of a token by its claims, which the API server wrote by one clock; LIFE if it has none."""
    try:
        part = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        return min(timedelta(seconds=claims["exp"] - claims["iat"]), _LONGEST)
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
        return LIFE
