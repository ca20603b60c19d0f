"""An operator with small caches: Nodes without images, Secrets and Namespaces without bodies (docs/guide/reconcilers.md)."""

import hashlib
from base64 import b64encode
from collections.abc import Iterable

import konverge as kv

NAMESPACE = kv.kind("v1", "Namespace", namespaced=False)
NODE = kv.kind("v1", "Node", namespaced=False)
POLICY = kv.kind("networking.k8s.io/v1", "NetworkPolicy")
SECRET = kv.kind("v1", "Secret")
ISOLATED, POOL = "example.com/isolated", "example.com/pool"


class FleetSpec(kv.Model):
    pool: str


class FleetStatus(kv.Status):
    nodes: int = 0


@kv.resource("example.com/v1", conditions=("Ready",))
class Fleet(kv.CustomResource[FleetSpec, FleetStatus]):
    """The nodes of a pool, and their join token."""


class FleetReconciler:
    def __init__(self, key: bytes) -> None:
        self._key = key

    async def reconcile(self, fleet: Fleet, ctx: kv.Context[Fleet]) -> kv.Outcome:
        token = hashlib.blake2b(f"{fleet.namespace}/{fleet.name}".encode(), key=self._key).digest()
        await ctx.own(SECRET.new(f"{fleet.name}-join", fleet.namespace, data={"token": b64encode(token).decode()}))
        nodes = ctx.cache(NODE).list(labels=f"{POOL}={fleet.spec.pool}")
        ctx.status.draft.nodes = sum(any(c.type == "Ready" and c.is_true for c in node.conditions) for node in nodes)
        ctx.status.set_condition("Ready", True, "Counted", "the status shows the number of ready nodes")
        return kv.Done()


class Isolation:
    """A NetworkPolicy without ingress for each labelled Namespace; nothing but its metadata is read."""

    async def reconcile(self, namespace: kv.MetadataObject, ctx: kv.Context[kv.MetadataObject]) -> kv.Outcome:
        await ctx.own(POLICY.new("isolated", namespace.name, spec={"podSelector": {}, "policyTypes": ["Ingress"]}))
        return kv.Done()


def fleets(_: kv.Object, caches: kv.Caches) -> Iterable[kv.Key]:
    return caches(Fleet).keys()


def build(manager: kv.Manager) -> None:
    manager.add(
        kv.Controller.of(Fleet)
        .owns(SECRET, metadata_only=True)
        .watches(NODE, to=fleets, drop=["status.images", "status.volumesInUse"])
        .reconciled_by(FleetReconciler(b"from a mounted Secret"))
    )
    manager.add(kv.Controller.of_metadata(NAMESPACE).selecting(ISOLATED).owns(POLICY).reconciled_by(Isolation()))
