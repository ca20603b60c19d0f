"""Pools and claims that the API server itself must accept or reject: one table for the in-memory server and for the real one.

`World` returns the bare response, so that the tests compare both servers word by word.
"""

import asyncio
from pathlib import Path
from typing import Any

import yaml
from conformance.targets import Target
from crd_cases import Answer, Case, Server, Table

from konverge.crds import crd, crd_stub
from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim
from konverge.kinds import kind

_ROOT = Path(__file__).parents[3]
MIGRATION = _ROOT / "examples" / "quota_migration"


def documents(path: Path) -> list[dict[str, Any]]:
    """Return the documents of a file."""
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


EXAMPLES: dict[str, dict[str, Any]] = {
    f"{path.stem} {document['metadata']['name']}": document
    for path in (
        *sorted((_ROOT / "tests" / "unit" / "quota" / "capsule_examples").glob("*.yaml")),
        *sorted(path for path in MIGRATION.glob("*.yaml") if path.name != "0_crds.yaml"),
    )
    for document in documents(path)
}
"""Every YAML example of Capsule's page, as it stands there."""

GROUP_VERSION = "capsule.clastix.io/v1beta2"
P = {"limits.cpu": "2", "limits.memory": "2Gi", "requests.cpu": "2", "requests.memory": "2Gi"}
TWO = {"requests.cpu": "2"}
LONG = "x" * 100
BOUND = {"type": "Bound", "status": "True", "reason": "Succeeded", "message": "Claimed resources"}
TIMED = {"lastTransitionTime": "2030-01-01T00:00:00Z"}

NEGATIVE = "an amount cannot be negative; write 0 or more"
TOO_MUCH = "an amount is at most 1e24; write less"
WHOLE = "needs whole numbers; write 1 or 2, not 1500m"
LOWERED = "quota.hard cannot be lowered below what is claimed, nor lose a resource that is"
SCOPES = "scopes cannot be changed"
SELECTOR = "scopeSelector cannot be changed"
AMOUNTS = "the amounts of an allocated claim cannot be changed: release it first"
POOL = "the pool of an allocated claim cannot be changed: release it first"
NO_QUANTITY = "in body should match"


def pool(hard: Any = None, *, name: str = "solar", quota: Any = None, **spec: Any) -> dict[str, Any]:
    """A pool with this `hard`, or with a whole quota."""
    body = {"quota": {"hard": P if hard is None else hard} if quota is None else quota, **spec}
    return {"apiVersion": GROUP_VERSION, "kind": "ResourcePool", "metadata": {"name": name}, "spec": body}


def claim(amounts: Any, *, name: str = "a", **spec: Any) -> dict[str, Any]:
    """A claim of these amounts."""
    body = {"claim": amounts, **spec}
    return {"apiVersion": GROUP_VERSION, "kind": "ResourcePoolClaim", "metadata": {"name": name}, "spec": body}


def expression(operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "env", "operator": operator, **({"values": list(values)} if values else {})}]}


CREATED: dict[str, Case] = {
    "a pool": Case(pool(), ""),
    "a pool without hard": Case(pool(quota={}), ""),
    "a pool without quota": Case({**pool(), "spec": {}}, "spec.quota: Required value"),
    "a pool that holds nothing": Case(pool({"pods": 0, "requests.cpu": "0"}), ""),
    "a pool with amounts in every spelling": Case(pool({"pods": 3, "cpu": "0.5", "memory": "1.5Gi", "a": "1e3", "b": "+1", "c": ".5", "d": "500u", "e": "2Ei"}), ""),
    "an amount that is no quantity": Case(pool({"cpu": "two"}), NO_QUANTITY),
    "an amount with an unknown suffix": Case(pool({"cpu": "2GB"}), NO_QUANTITY),
    "an amount that is a fraction of JSON": Case(pool({"cpu": 0.5}), "must be of type integer,string"),
    "an amount of 100 characters": Case(pool({"cpu": "1" * 100}), "Too long"),
    "a pool with a name of 63 characters": Case(pool(name="p" * 63), ""),
    "x21: a pool with a name of 64 characters": Case(pool(name="p" * 64), "has at most 63 characters"),
    "a pool with dots in its name": Case(pool(name="p.q.r"), ""),
    "a pool with too little": Case(pool({"requests.cpu": "-1"}), NEGATIVE),
    "a pool with a negative number": Case(pool({"pods": -1}), NEGATIVE),
    "a pool with a negative default": Case(pool(defaults={"requests.cpu": "-1m"}), NEGATIVE),
    "a pool with half a pod": Case(pool({"pods": "500m"}), WHOLE),
    "a pool with a default of half a pod": Case(pool(defaults={"count/pods": "0.5"}), WHOLE),
    "a default that hard does not name": Case(pool(defaults={"count/persistentvolumeclaims": 3}), ""),
    "an empty selector": Case(pool(selectors=[{}]), ""),
    "a selector that asks for one of several values": Case(pool(selectors=[expression("In", "a", "b")]), ""),
    "a selector that asks for one of none": Case(pool(selectors=[expression("In")]), "operators In and NotIn need values"),
    "a selector that asks for existence with a value": Case(pool(selectors=[expression("Exists", "a")]), "Exists and DoesNotExist take none"),
    "a selector that asks in a way of its own": Case(pool(selectors=[expression("Like", "a")]), 'Unsupported value: "Like"'),
    **{
        f"a selector on the key {key!r}": Case(pool(selectors=[{"matchLabels": {key: "a"}}]), words)
        for key, words in {
            "app": "", "example.com/app": "", "Ä": "a key is a name of at most 63", "a b": "a key is a name", "/a": "a key is a name",
            "a/": "a key is a name", "A.com/a": "a key is a name", "-a": "a key is a name", "": "a key is a name", "x" * 64: "a key is a name",
        }.items()
    },
    **{
        f"a selector of the value {value!r}": Case(pool(selectors=[{"matchLabels": {"a": value}}]), words)
        for value, words in {"": "", "a_b": "", "a b": "should match", "-a": "should match", "x" * 64: "Too long"}.items()
    },
    "a requirement on a key that no label has": Case(pool(selectors=[{"matchExpressions": [{"key": "a b", "operator": "DoesNotExist"}]}]), "should match"),
    "a requirement of a value that no label has": Case(pool(selectors=[expression("NotIn", "a b")]), "should match"),
    "a claim of minus zero": Case(claim({"requests.cpu": "-0"}), ""),
    "a claim of minus zero with a suffix": Case(claim({"requests.memory": "-0Gi"}), ""),
    "a claim of zero with a large exponent": Case(claim({"requests.memory": "0e999"}), ""),
    "a claim of zero as the number minus zero": Case(claim({"pods": -0}), ""),
    "a claim": Case(claim({"requests.cpu": "2", "pods": 3}, pool="solar"), ""),
    "a claim without a pool": Case(claim(TWO), ""),
    "a claim of an empty pool name": Case(claim(TWO, pool=""), ""),
    "a claim of nothing": Case(claim({}), ""),
    "a claim without amounts": Case({**claim({}), "spec": {"pool": "solar"}}, "spec.claim: Required value"),
    "x01: a negative claim": Case(claim({"requests.cpu": "-1"}), NEGATIVE),
    "x01: a claim of a negative number": Case(claim({"pods": -3}), NEGATIVE),
    "x02: a claim of one and a half pods": Case(claim({"pods": "1500m"}), WHOLE),
    "x03: a claim with a dot in its name": Case(claim(TWO, name="a.b"), ""),
    "x03: a claim with a name of 100 characters": Case(claim(TWO, name=LONG), ""),
    "the largest claim": Case(claim({"requests.memory": "1e24", "requests.cpu": "999999999999999999999999.999999999", "pods": 10**18}), ""),
    **{f"a claim of {amount}, which no status could show": Case(claim({"requests.memory": amount}), TOO_MUCH) for amount in ("1e25", "1e100", "1e309", "1e400", "9" * 64, "2000000E")},
    "a pool of more than any status could show": Case(pool({"requests.memory": "1e100"}), TOO_MUCH),
    "a default of more than any status could show": Case(pool(defaults={"requests.memory": "1e100"}), TOO_MUCH),
    "half a core": Case(claim({"requests.cpu": "500m", "cpu": "0.5", "requests.example.com/gpu": "0.5"}), ""),
    "more pods than a double counts": Case(claim({"pods": "12345678901234567890"}), ""),
    **{f"a claim of half of {name}": Case(claim({name: "0.5"}), WHOLE) for name in (
        *("pods", "services", "secrets", "configmaps", "replicationcontrollers", "resourcequotas", "persistentvolumeclaims"),
        *("services.nodeports", "services.loadbalancers", "count/pods", "count/deployments.apps"),
        *("gold.storageclass.storage.k8s.io/persistentvolumeclaims", "gpu.deviceclass.resource.k8s.io/devices"),
    )},
    **{f"a claim of {amount} pods": Case(claim({"pods": amount}), words) for amount, words in {
        "2000m": "", "1.0": "", "2.50": WHOLE, "1e3": "", "15e-1": WHOLE, "20e-1": "", "2k": "", "1Ki": "", "1000000u": "", "1n": WHOLE, "1.0001": WHOLE, "2999m": WHOLE, "0m": "", "+3": "",
    }.items()},
    "a claim of 256 resources": Case(claim({f"count/r{number}": "1000m" for number in range(256)}), ""),
    "a claim of 257 resources": Case(claim({f"count/r{number}": "1000m" for number in range(257)}), "must have at most 256 items"),
}  # fmt: skip
"""Objects to create, by the name of the case."""


def _update(before: dict[str, Any], status: dict[str, Any], after: dict[str, Any] | None, words: str = "") -> Case:
    """Return a stored object with a status, and the update of it; `after` None deletes it."""
    return Case(before, words, after, status, deletes=after is None)


def used(**amounts: Any) -> dict[str, Any]:
    """The status of a pool with this amount claimed, with underscores for dots."""
    return {"allocation": {"used": {name.replace("_", "."): amount for name, amount in amounts.items()}}}


def conditions(bound: str) -> dict[str, Any]:
    """Return the status of a claim in the semantics of v0.14, with this status of its Bound condition."""
    said = {
        "type": "Bound",
        "status": bound,
        "reason": "InUse" if bound == "True" else "Unused",
        "message": "m",
        **TIMED,
    }
    return {"semantics": "v0.14", "conditions": [said]}


def condition(type_: str = "Bound", status: str = "True", **more: Any) -> dict[str, Any]:
    """The status of a claim."""
    return {"condition": {**BOUND, **TIMED, "type": type_, "status": status}, **more}


def scoped(scopes: Any = None, selector: Any = None) -> dict[str, Any]:
    """A pool with these scopes."""
    parts = {"scopes": scopes, "scopeSelector": selector}
    return pool(quota={"hard": {"pods": 1}, **{name: part for name, part in parts.items() if part is not None}})


def requirement(*values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": list(values)}]}


FIVE = pool({"requests.cpu": "5", "pods": 7})
HELD = used(requests_cpu="2500m", pods="0")
ALLOCATED = claim({"requests.cpu": "1", "limits.memory": "1Gi", "pods": "0"}, pool="solar")
IN_SOLAR: dict[str, Any] = {"pool": {"name": "solar", "uid": "u-1"}}
RELEASE = {"annotations": {"projectcapsule.dev/release": "true"}}
RELEASED = {**ALLOCATED, "metadata": {**ALLOCATED["metadata"], **RELEASE}}

UPDATED: dict[str, Case] = {
    "hard is raised": _update(FIVE, HELD, pool({"requests.cpu": "6", "pods": 7})),
    "hard is lowered to what is claimed": _update(FIVE, HELD, pool({"requests.cpu": "2.5", "pods": 7})),
    "hard is lowered below what is claimed": _update(FIVE, HELD, pool({"requests.cpu": "2499m", "pods": 7}), LOWERED),
    "a claimed resource leaves hard": _update(FIVE, HELD, pool({"pods": 7}), LOWERED),
    "hard itself is removed": _update(FIVE, HELD, pool(quota={}), LOWERED),
    "an unclaimed resource leaves hard": _update(FIVE, HELD, pool({"requests.cpu": "5"})),
    "an unclaimed resource is lowered": _update(FIVE, HELD, pool({"requests.cpu": "5", "pods": 0})),
    "hard is spelt in another way": _update(FIVE, HELD, pool({"requests.cpu": "5000m", "pods": "7"})),
    "x17: hard is below what is claimed, and stays": _update(FIVE, used(requests_cpu="8"), pool({"requests.cpu": "5", "pods": 7}, defaults={"pods": 1})),
    "x17: hard is below what is claimed, and is raised": _update(FIVE, used(requests_cpu="8"), pool({"requests.cpu": "6", "pods": 7})),
    "x17: hard is below what is claimed, and is lowered": _update(FIVE, used(requests_cpu="8"), pool({"requests.cpu": "4", "pods": 7}), LOWERED),
    "hard is lowered before any status": _update(FIVE, {}, pool({"requests.cpu": "1"})),
    "a resource joins hard": _update(pool(quota={}), used(requests_cpu="0"), FIVE),
    "a pool with claims is deleted": _update(FIVE, HELD, None),
    "x21: scopes are added": _update(scoped(), {}, scoped(["BestEffort"]), SCOPES),
    "x21: scopes are removed": _update(scoped(["BestEffort"]), {}, scoped(), SCOPES),
    "x21: scopes are replaced": _update(scoped(["BestEffort"]), {}, scoped(["Terminating"]), SCOPES),
    "x21: scopes are one more": _update(scoped(["BestEffort"]), {}, scoped(["BestEffort", "Terminating"]), SCOPES),
    "scopes stand in another order": _update(scoped(["BestEffort", "Terminating"]), {}, scoped(["Terminating", "BestEffort"])),
    "empty scopes are written": _update(scoped(), {}, scoped([])),
    "x21: a scope selector is added": _update(scoped(), {}, scoped(selector=requirement("low")), SELECTOR),
    "x21: a scope selector is removed": _update(scoped(selector=requirement("low")), {}, scoped(), SELECTOR),
    "x21: a scope selector is changed": _update(scoped(selector=requirement("low")), {}, scoped(selector=requirement("high")), SELECTOR),
    "a scope selector stays": _update(scoped(selector=requirement("low")), {}, {**scoped(selector=requirement("low")), "metadata": {"name": "solar", "labels": {"a": "b"}}}),
    "x09: an allocated claim is spelt in another way": _update(ALLOCATED, condition(), claim({"requests.cpu": "1000m", "limits.memory": "1024Mi", "pods": "0Gi"}, pool="solar")),
    "x09: an allocated claim is spelt in numbers": _update(ALLOCATED, condition(), claim({"requests.cpu": 1, "limits.memory": 1073741824, "pods": 0}, pool="solar")),
    "an allocated claim asks for more": _update(ALLOCATED, condition(), claim({"requests.cpu": "2", "limits.memory": "1Gi", "pods": "0"}, pool="solar"), AMOUNTS),
    "an allocated claim asks for less": _update(ALLOCATED, condition(), claim({"requests.cpu": "1", "limits.memory": "1Gi"}, pool="solar"), AMOUNTS),
    "an allocated claim asks for something else": _update(ALLOCATED, condition(), claim({"requests.cpu": "1", "limits.memory": "1Gi", "secrets": "0"}, pool="solar"), AMOUNTS),
    "an allocated claim moves": _update(ALLOCATED, condition(), claim(ALLOCATED["spec"]["claim"], pool="wind"), POOL),
    "an allocated claim forgets its pool": _update(ALLOCATED, condition(), claim(ALLOCATED["spec"]["claim"]), POOL),
    "an allocated claim writes down the pool that it was given": _update(claim(TWO), condition(**IN_SOLAR), claim(TWO, pool="solar")),
    "an allocated claim writes down another pool than it was given": _update(claim(TWO), condition(**IN_SOLAR), claim(TWO, pool="wind"), POOL),
    "an allocated claim writes down no pool in another way": _update(claim(TWO), condition(**IN_SOLAR), claim(TWO, pool="")),
    "an allocated claim is released": _update(ALLOCATED, condition(), RELEASED),
    "an allocated claim is deleted": _update(ALLOCATED, condition(), None),
    "a queued claim asks for more, of another pool": _update(ALLOCATED, condition(status="False"), claim({"requests.cpu": "9"}, pool="wind")),
    "an assigned claim asks for more, of another pool": _update(ALLOCATED, condition("Assigned"), claim({"requests.cpu": "9"}, pool="wind")),
    "a new claim asks for more, of another pool": _update(ALLOCATED, {}, claim({"requests.cpu": "9"}, pool="wind")),
    "a queued claim turns negative": _update(ALLOCATED, condition(status="False"), claim({"requests.cpu": "-9"}), NEGATIVE),
    "v0.14: an unused claim asks for more": _update(ALLOCATED, conditions("False"), claim({"requests.cpu": "9"}, pool="solar")),
    "v0.14: an unused claim moves": _update(ALLOCATED, conditions("False"), claim(ALLOCATED["spec"]["claim"], pool="wind")),
    "v0.14: a claim that pods use asks for less": _update(ALLOCATED, conditions("True"), claim({"requests.cpu": "1m"}, pool="solar"), AMOUNTS),
    "v0.14: a claim that pods use moves": _update(ALLOCATED, conditions("True"), claim(ALLOCATED["spec"]["claim"], pool="wind"), POOL),
    "v0.14: a claim that pods use is released": _update(ALLOCATED, conditions("True"), RELEASED),
    "v0.14: one condition that an older form left counts for nothing": _update(ALLOCATED, {**condition(), **conditions("False")}, claim({"requests.cpu": "9"}, pool="solar")),
    "v0.12: conditions that another program left count for nothing": _update(ALLOCATED, {**condition(), "conditions": conditions("False")["conditions"]}, claim({"requests.cpu": "9"}, pool="solar"), AMOUNTS),
    "x03: the pool lists a claim with an odd name": _update(FIVE, {"claims": {"web": [{"name": "a.b", "uid": "1", "claims": {"pods": "1"}}, {"name": LONG, "uid": "2", "claims": {}}]}}, FIVE),
}  # fmt: skip
"""Name of the case -> the stored object and the update."""


POISON_POOL = pool({"pods": "-500m"}, name="p" * 70, selectors=[{"matchLabels": {"a": "b"}}])
POISON_POOL["metadata"]["finalizers"] = ["example.com/held"]
POISON_CLAIM = claim({"pods": "-1500m"}, name="poison")
"""Objects that Capsule stored without a check, and that our rules reject."""

TABLE = Table((ResourcePool, ResourcePoolClaim), {**CREATED, **UPDATED}, (Case(POISON_POOL), Case(POISON_CLAIM)))


class World(Server):
    """Writes pools and claims to one server."""

    async def install(self) -> None:
        """Install the definitions of both kinds, and wait until they are in force."""
        await self.define(*map(crd, TABLE.kinds), refused=TABLE.refused)

    async def install_others(self) -> None:
        """Install the stand-ins for Capsule's Tenant and TenantResource."""
        await self.define(*documents(MIGRATION / "0_crds.yaml"))

    async def _until_accepted(self, *objects: dict[str, Any]) -> None:
        async with asyncio.timeout(90):
            while {(await self.create(obj, "?dryRun=All")).status for obj in objects} != {201}:
                await asyncio.sleep(0.1)

    async def outlived(self) -> dict[str, Answer]:
        """Store objects without the rules, install the rules, and send the updates that must still be possible."""
        await self.define(
            crd_stub(kind(GROUP_VERSION, "ResourcePool", namespaced=False)),
            crd_stub(kind(GROUP_VERSION, "ResourcePoolClaim")),
        )
        await self._until_accepted(POISON_POOL, POISON_CLAIM)
        for obj in (POISON_POOL, POISON_CLAIM):
            created = await self.create(obj)
            assert created.status == 201, created.message
        await self.install()
        found: dict[str, Answer] = {}
        for obj, status in ((POISON_POOL, HELD), (POISON_CLAIM, condition(status="False"))):
            at, name = self.path(obj, named=True), obj["kind"]
            stored = (await self.send("GET", at)).document
            found[f"{name}: status"] = await self.send("PUT", f"{at}/status", {**stored, "status": status})
            stored = (await self.send("GET", at)).document
            marked = {**stored, "metadata": {**stored["metadata"], **RELEASE, "finalizers": []}}
            found[f"{name}: metadata"] = await self.send("PUT", at, marked)
            found[f"{name}: delete"] = await self.send("DELETE", at)
        return found

    async def accepts(self, obj: dict[str, Any]) -> Answer:
        """Create an object as a dry run; a field that is not in the schema is an error."""
        metadata = {name: value for name, value in obj["metadata"].items() if name != "namespace"}
        return await self.create({**obj, "metadata": metadata}, "?dryRun=All&fieldValidation=Strict")


async def outlive(target: Target) -> dict[str, Answer]:
    """Return the responses to updates of objects that are older than the rules."""
    return await World(target).outlived()


async def accept_examples(target: Target) -> dict[str, Answer]:
    """Return the responses to the examples of Capsule's page."""
    world = World(target)
    await world.install()
    await world.install_others()
    return {name: await world.accepts(example) for name, example in EXAMPLES.items()}
