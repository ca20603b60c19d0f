"""The effects of an attack: on the victim's objects and data, outside the attacker's namespace, and by the daemon's rights.

Guarantees: each finding is a sentence that names an object. The effects that the attacker's objects may have outside of its namespace are
declared in `Judge._allowed`, and in no other place.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from trust.deputies import broken_bounds
from trust.snapshots import Key, Snapshot, differences, flat, part_of
from trust.stage import ATTACKER, DEMAND, HOME, INSTANCES, PLATFORM_KEY, VELERO, VICTIM, Stage

from konverge.reconcilers.machines.words import MachinesLabel
from konverge_testing.nstance.instances import DELETED, DELETING

_INSTANCES: Final = "nextcloudinstances.k8s.bnerd.com"
_NEXTCLOUDS: Final = "nextclouds.k8s.bnerd.com"
_SHARED: Final = "shared"
_MACHINES: Final = ("machines.cluster.x-k8s.io", "nstancemachines.infrastructure.cluster.x-k8s.io")


class Judge:
    """Compares the stage with its state at the last `rebase`."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._store = stage.lab.server.store
        self.uids: dict[str, str] = {}
        """The resource of each object of the attacker that ever existed, by UID."""
        self._workspaces: set[str] = set()
        self._instances: set[str] = set()
        """The names of instances that the attacker may have: those that its Nextclouds claimed, and those that fill the shared pool."""
        self.known: set[str] = set()
        """Words that a forger wrote into a status, and that messages may repeat."""
        self._written: set[str] = set()
        self._decoded: dict[Key, tuple[Any, dict[str, Any]]] = {}
        self._parts: dict[Key, tuple[Any, dict[str, Any] | None]] = {}
        self._store.observers.append(self._observe)
        self.rebase()

    def _observe(self, event: Any) -> None:
        namespace, resource = event.entry.namespace, _name_of(event.entry.resource)
        if namespace != ATTACKER and (namespace, resource) != (INSTANCES, _INSTANCES):
            return
        data = event.entry.object()
        metadata = data["metadata"]
        if namespace == ATTACKER:
            self.uids[metadata["uid"]] = resource
            self._written.add(json.dumps(_written(data), sort_keys=True))
            return
        claim = (data.get("spec") or {}).get("claimRef") or {}
        of_attacker = self.uids.get(claim.get("uid", "")) == _NEXTCLOUDS
        fills = event.type == "ADDED" and (metadata.get("labels") or {}).get("k8s.bnerd.com/pool") == _SHARED
        if of_attacker or (fills and not claim):
            self._instances.add(metadata["name"])
        elif claim:
            self._instances.discard(metadata["name"])

    def owns_workspace(self, uid: str, workspace: str) -> None:
        """Count a WorkspaceClaim, which has no namespace, as the attacker's."""
        self.uids[uid] = "workspaceclaims.cloudapi.team-orca.dev"
        self._workspaces.add(workspace)

    def rebase(self) -> None:
        """Take the current state for the state before the attack: an attack calls it after an act of another user."""
        self._before = self.snapshot()
        self._data = self.data()
        self._accesses = len(self._stage.s3.accesses)

    def begin(self) -> None:
        """Take the current state for the state before the next attack, which has written nothing yet."""
        self.known.clear()
        self._written.clear()
        self.rebase()

    # --- the present state -------------------------------------------------------------------------------------------------------

    def objects(self) -> Iterator[tuple[Key, dict[str, Any]]]:
        """Yield every stored object."""
        for resource in self._store.resources():
            for entry in self._store.list(resource):
                key = _name_of(resource), entry.namespace, entry.name
                known = self._decoded.get(key)
                if known is None or known[0] is not entry:
                    known = self._decoded[key] = entry, entry.object()
                yield key, known[1]

    def snapshot(self) -> Snapshot:
        """Return the parts of all objects that no attack may change."""
        found = {}
        for key, data in self.objects():
            if key[1] != ATTACKER and data["metadata"]["uid"] not in self.uids:
                known = self._parts.get(key)
                if known is None or known[0] is not data:
                    part = part_of(key[0], data, VICTIM)
                    known = self._parts[key] = data, None if part is None else dict(flat(part))
                if known[1] is not None:
                    found[key] = known[1]
        return Snapshot(found)

    def data(self) -> dict[str, str]:
        """Return the data behind the objects: buckets, machines, groups and workspaces."""
        stage = self._stage
        found = {
            f"bucket {name}": f"{bucket.account}, {len(bucket.versions)} versions"
            for name, bucket in stage.s3.buckets.items()
        }
        for name, shard in stage.farm.world.shards.items():
            for instance in shard.state.fleet.instances.values():
                if instance.status not in (DELETING, DELETED):
                    found[f"machine {name}/{instance.id}"] = f"{instance.group}, drained: {instance.drain is not None}"
            found |= {f"group {name}/{one.key}": repr(one.spec) for one in shard.groups.all()}
        return found | {f"workspace {name}": stage.workspaces.owner(name) for name in stage.workspaces.names()}

    # --- the effects of an attack --------------------------------------------------------------------------------------------------

    def findings(self) -> list[str]:
        """Return everything that the attack did beyond the attacker's own objects."""
        after, present = self.snapshot(), dict(self.objects())
        new = {key: data for key, data in present.items() if key not in self._before.objects or self._is_taken(key)}
        return [
            *differences(self._before, after, (key for key in self._before.objects if not self._is_taken(key))),
            *(f"{' '.join(key)} was created" for key in after.objects if self._is_foreign(key, present[key])),
            *self._changed_data(),
            *broken_bounds(new, ATTACKER, self._instances),
            *self._leaks(present),
            *self._given_keys(),
        ]

    def _is_taken(self, key: Key) -> bool:
        """Whether an object belonged to an idle instance of the shared pool that the attacker claimed."""
        return key[1] == INSTANCES and self._of_instance(key[2])

    def _of_instance(self, name: str) -> bool:
        return any(name == one or name.startswith((f"{one}-", f"{INSTANCES}-{one}")) for one in self._instances)

    def _is_foreign(self, key: Key, data: Mapping[str, Any]) -> bool:
        return key not in self._before.objects and not self._allowed(key, data)

    def _allowed(self, key: Key, data: Mapping[str, Any]) -> bool:
        """Whether an object outside the attacker's namespace may exist for the sake of the attacker's objects.

        Instances of its Nextclouds, and new instances that replace them in the shared pool; backups and restores of its Operations in
        Velero's namespace; the Secret of a workspace that it claimed; machines for its pods in the daemon's namespace, at most as many as
        the administrators allow.
        """
        resource, namespace, name = key
        if namespace == INSTANCES:
            return self._of_instance(name)
        if namespace == VELERO and resource.endswith(".velero.io"):
            return any(uid in name for uid, kind in self.uids.items() if kind == "operations.ops.vworkspace.io")
        if resource == "secrets":
            return namespace == HOME and name in {f"ws-{one}-kubeconfig" for one in self._workspaces}
        if resource in _MACHINES and namespace == HOME:
            pod = (data["metadata"].get("labels") or {}).get(MachinesLabel.POD_UID, "")
            return self.uids.get(pod) == "pods" and self._demanded(resource) <= DEMAND.machines
        return False

    def _demanded(self, resource: str) -> int:
        labels = [data["metadata"].get("labels") or {} for key, data in self.objects() if key[0] == resource]
        return sum(MachinesLabel.POD_UID in one for one in labels)

    def _changed_data(self) -> list[str]:
        present = self.data()
        return [
            f"{name} was {value!r} and is {present.get(name)!r}"
            for name, value in self._data.items()
            if present.get(name) != value and not self._of_attacker(name)
        ]

    def _of_attacker(self, name: str) -> bool:
        kind, _, rest = name.partition(" ")
        if kind == "bucket":
            return any(one.removeprefix("nc-") in rest or one in rest for one in self._instances)
        return kind == "workspace" and rest in self._workspaces

    def _leaks(self, present: Mapping[Key, Mapping[str, Any]]) -> list[str]:
        """Return the messages of the attacker's objects that name the victim's namespace or instances, which the attacker did not name."""
        secret = ({VICTIM} | {key[2] for key in self._before.objects if self._is_of_victim(key)}) - self.known
        written = "".join(self._written)
        found = []
        for key, data in present.items():
            if key[1] != ATTACKER:
                continue
            told = json.dumps([data.get("status"), data.get("note"), data.get("reason"), data.get("message")])
            found += [
                f"{' '.join(key)} names {word}: ...{told[max(0, told.index(word) - 120) : told.index(word) + 60]}..."
                for word in secret
                if word in told and word not in written
            ]
        return found

    def _is_of_victim(self, key: Key) -> bool:
        """Whether an instance is the victim's, or may only be the victim's: idle instances of the shared pool are for all tenants."""
        taken = any(path.startswith("spec.claimRef.") for path in self._before.objects[key])
        return key[0] == _INSTANCES and not self._is_taken(key) and (taken or key[1] != INSTANCES)

    def _given_keys(self) -> list[str]:
        return [
            f"the platform's S3 key was sent to {endpoint}"
            for endpoint, key in self._stage.s3.accesses[self._accesses :]
            if (endpoint == PLATFORM_KEY[0]) != (key == PLATFORM_KEY[1])
        ]


def _written(data: Mapping[str, Any]) -> Any:
    """Return the parts of an object that a user wrote."""
    if "note" in data:
        return None
    metadata = {name: value for name, value in data["metadata"].items() if name != "managedFields"}
    return [metadata, data.get("spec")]


def _name_of(resource: tuple[str, str]) -> str:
    group, plural = resource
    return f"{plural}.{group}" if group else plural
