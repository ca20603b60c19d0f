"""`capsule.clastix.io/v1beta2`: ResourcePool and ResourcePoolClaim, quota that namespaces claim from a pool.

Guarantees: group, kinds, fields, columns and the shape of the status equal those in Capsule v0.10 to v0.12, so its objects are accepted and
its users' scripts keep reading ours. `status.exhaustions`, the conditions of a pool and observedGeneration are from later versions.
`status.releasing` is ours. Amounts stay on the wire as they were written, numbers or texts. The API server itself checks the following,
without a webhook: amounts are not negative, counts are whole, scopes do not change, `hard` stays above the claimed amounts, an allocated
claim does not change. Amounts are compared by value ("1" and "1000m" are the same), and the message of each rule names the remedy. To
release a claim (annotation) and to delete anything is always allowed.

Caveats: the rules do not check that the API server accepts the name of a resource in a ResourceQuota; it refuses the ResourceQuota then.
Neither do they refuse a fraction of an extended resource by its bare name (example.com/widgets), which no quota counts: the family does.

Source: docs/reference/capsule.md#objects, docs/reference/capsule.md#admission-and-rules. Which resources are counted in whole numbers:
IsIntegerResourceName and ValidateResourceQuotaSpec
(https://github.com/kubernetes/kubernetes/blob/master/pkg/apis/core/validation/validation.go).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import AfterValidator, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter
from pydantic_core import CoreSchema, core_schema

from konverge.conditions import Condition
from konverge.crds.declaration import AGE, Column
from konverge.crds.markers import Atomic, Cel, IntOrString
from konverge.crds.resource import CustomResource, resource
from konverge.crds.status import Status
from konverge.model import Model

__all__ = [
    "COLUMNS_OF_V014",
    "GROUP",
    "MAX_AMOUNT",
    "MAX_POOL_NAME",
    "MAX_RESOURCES",
    "MAX_USED",
    "MOST",
    "Allocation",
    "Amount",
    "Amounts",
    "ClaimEntry",
    "ClaimList",
    "Exhaustion",
    "LabelSelector",
    "LabelSelectorRequirement",
    "PoolConfig",
    "PoolQuota",
    "PoolReference",
    "ResourcePool",
    "ResourcePoolClaim",
    "ResourcePoolClaimSpec",
    "ResourcePoolClaimStatus",
    "ResourcePoolSpec",
    "ResourcePoolStatus",
    "ScopeRequirement",
    "ScopeSelector",
]

GROUP = "capsule.clastix.io"

MAX_RESOURCES = 256
"""The most resources that a map of amounts may name: it bounds the cost of the rules below for the API server."""
MAX_USED = 2 * MAX_RESOURCES
"""The most resources whose use the status of a pool reports."""
MAX_AMOUNT = 64
"""The longest text of an amount, for the same reason."""
MOST = 10**24
"""The largest amount: the sum of any number of claims still fits the longest text, so no status becomes unwritable."""
MAX_POOL_NAME = 63
"""The longest name of a pool: it is the value of a label on each of its ResourceQuotas."""

_QUANTITY = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTP]i)|[numkMGTPE]|Ei|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"

# The rules compare values: -0 and 0e999 are 0. A text that is not a quantity already fails the pattern.
_NOT_NEGATIVE = Cel(
    "!string(self).startsWith('-') || isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('0')) == 0",
    "an amount cannot be negative; write 0 or more",
)
# The approximate number of 0e999 is NaN.
_NOT_TOO_MUCH = Cel(
    "!isQuantity(string(self)) || quantity(string(self)).compareTo(quantity('0')) == 0 "
    "|| quantity(string(self)).asApproximateFloat() <= 1e24",
    "an amount is at most 1e24; write less",
)

_COUNTED = (
    *("pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps"),
    *("persistentvolumeclaims", "services.nodeports", "services.loadbalancers"),
)
_COUNTED_OF_CLASS = (
    *(".storageclass.storage.k8s.io/persistentvolumeclaims", ".storageclass.storage.k8s.io/requests.storage"),
    ".deviceclass.resource.k8s.io/devices",
)
# Reads only the beginning and the end of a name, which costs little: to search in a name counts as if it had 3 MiB.
_IS_COUNTED = " || ".join(
    (
        *(f"r == '{name}'" for name in _COUNTED),
        "r.startsWith('count/')",
        *(f"r.endsWith('{suffix}')" for suffix in _COUNTED_OF_CLASS),
    )
)
# Whole as the API server counts it: "2000m" and "1.0" are. (isInteger would refuse both; int() fails beyond what a double holds.)
_IS_WHOLE = (
    "[quantity(string(self[r]))].all(q, q.asApproximateFloat() >= 9007199254740992.0 "
    "|| q.sub(int(q.asApproximateFloat() + 0.5)).compareTo(quantity('0')) == 0)"
)
_WHOLE_COUNTS = Cel(
    f"self.all(r, !({_IS_COUNTED}) || type(self[r]) == int || {_IS_WHOLE})",
    "what is counted (pods, services, secrets, count/...) needs whole numbers; write 1 or 2, not 1500m",
)

Amount: TypeAlias = Annotated[int | str, IntOrString(_QUANTITY, max_length=MAX_AMOUNT)]
"""A Kubernetes quantity as it was written: 3, "500m", "2Gi"."""
Amounts: TypeAlias = dict[str, Amount]
"""Resources and their amounts, as a controller reports them."""

_LABEL_PREFIX = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_LABEL_KEY = rf"^({_LABEL_PREFIX}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?$"
"""The form of a label's key (apimachinery, IsQualifiedName)."""
_LABEL_VALUE = r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"
"""The form of a label's value (apimachinery, IsValidLabelValue)."""
MatchLabels: TypeAlias = Annotated[
    dict[str, Annotated[str, Field(max_length=63, pattern=_LABEL_VALUE)]],
    Field(max_length=64),
    Cel(
        f"self.all(key, key.size() <= 317 && key.matches('{_LABEL_KEY}'))",
        "a key is a name of at most 63 letters, digits, dashes, underscores and dots after an optional domain and slash",
    ),
]
"""Labels with valid keys and values."""


def _valid_labels(labels: dict[str, str]) -> dict[str, str]:
    """Refuse keys that no label can have: a selector with such a key was stored before the definition had its rule."""
    for key in labels:
        if not re.match(_LABEL_KEY, key):
            raise ValueError("matchLabels: a key is not the key of a label")
    return labels


_Asked: TypeAlias = Annotated[
    dict[str, Annotated[Amount, _NOT_NEGATIVE, _NOT_TOO_MUCH]], Field(max_length=MAX_RESOURCES), _WHOLE_COUNTS
]
"""Resources and amounts that a person writes."""


@Cel(
    "self.operator in ['In', 'NotIn'] ? has(self.values) && self.values.size() > 0 : !has(self.values) || self.values.size() == 0",
    "operators In and NotIn need values; Exists and DoesNotExist take none",
)
class LabelSelectorRequirement(Model):
    """A requirement on one label. Like Kubernetes, it refuses keys and values that no label can have."""

    key: Annotated[str, Field(max_length=317, pattern=_LABEL_KEY)]
    """The label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How the label relates to the values."""
    values: Annotated[
        tuple[Annotated[str, Field(max_length=63, pattern=_LABEL_VALUE)], ...], Field(max_length=256)
    ] = ()
    """The values, for In and NotIn."""


class LabelSelector(Model):
    """Selects namespaces by their labels: all requirements must hold. An empty selector selects nothing."""

    match_labels: Annotated[MatchLabels, AfterValidator(_valid_labels)] = Field(default_factory=dict)
    """Labels with exactly these values."""
    match_expressions: Annotated[tuple[LabelSelectorRequirement, ...], Field(max_length=64)] = ()
    """Requirements on labels."""


class ScopeRequirement(Model):
    """A requirement on what a ResourceQuota counts."""

    scope_name: Annotated[str, Field(max_length=63)]
    """The scope: PriorityClass, VolumeAttributesClass and others."""
    operator: Annotated[str, Field(max_length=63)]
    """How the scope relates to the values: In, NotIn, Exists, DoesNotExist."""
    values: Annotated[tuple[Annotated[str, Field(max_length=253)], ...], Field(max_length=64)] = ()
    """The values, for In and NotIn."""


class ScopeSelector(Model):
    """A restriction of what a ResourceQuota counts."""

    match_expressions: Annotated[tuple[ScopeRequirement, ...], Field(max_length=16)] = ()
    """Requirements; all must hold."""


@Cel(
    "(!has(self.scopes) || self.scopes.all(s, has(oldSelf.scopes) && s in oldSelf.scopes)) "
    "&& (!has(oldSelf.scopes) || oldSelf.scopes.all(s, has(self.scopes) && s in self.scopes))",
    "scopes cannot be changed, as those of a ResourceQuota cannot; create another pool with the scopes that you want",
    field_path=".scopes",
)
@Cel(
    "has(self.scopeSelector) == has(oldSelf.scopeSelector) "
    "&& (!has(self.scopeSelector) || self.scopeSelector == oldSelf.scopeSelector)",
    "scopeSelector cannot be changed; create another pool with the one that you want",
    field_path=".scopeSelector",
)
class PoolQuota(Model):
    """The total amounts that may be claimed, with the fields of a ResourceQuota."""

    hard: _Asked = Field(default_factory=dict)
    """The total that all selected namespaces may claim. It cannot be lowered below the claimed amounts."""
    scopes: Annotated[tuple[Annotated[str, Field(max_length=63)], ...], Field(max_length=16)] = ()
    """The scopes of the ResourceQuotas. They cannot be changed."""
    scope_selector: ScopeSelector | None = None
    """The scope selector of the ResourceQuotas. It cannot be changed."""


class PoolConfig(Model):
    """Switches."""

    defaults_zero: bool = False
    """Whether everything in quota.hard is 0 in each namespace until it is claimed."""
    ordered_queue: bool = False
    """Whether a claim waits for older claims that wait for the same resource."""
    delete_bound_resources: bool = False
    """Whether the allocated claims are deleted with the pool."""


class ResourcePoolSpec(Model):
    """The desired state."""

    quota: PoolQuota
    selectors: Annotated[tuple[LabelSelector, ...], Field(max_length=64)] = ()
    """The namespaces that may claim: each namespace that at least one selector selects."""
    defaults: _Asked = Field(default_factory=dict)
    """The amounts of each selected namespace without a claim. They do not count as claimed and may name resources that quota.hard lacks."""
    config: PoolConfig = PoolConfig()


class ClaimEntry(Model):
    """A claim that holds a part of the pool."""

    name: str
    namespace: str = ""
    uid: str
    claims: Amounts = Field(default_factory=dict)
    """The amounts that the claim holds."""


_ENTRIES: Final = TypeAdapter(dict[str, tuple[ClaimEntry, ...]])


class ClaimList(Mapping[str, tuple[ClaimEntry, ...]]):
    """The allocated claims of each namespace, decoded at the first access.

    A pool lists thousands of claims, and most readers need none or few of them. `raw` is the list in the API's spelling.
    Raises a ValidationError at the access of an entry that does not fit `ClaimEntry`.

    >>> claims = ClaimList({"web": [{"name": "a", "uid": "u", "claims": {"pods": 1}}]})
    >>> len(claims), claims["web"][0].name, claims == {}
    (1, 'a', False)
    """

    complete: ClassVar = True
    """Its writers set every field of an entry, so no default is filled into thousands of entries."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = raw
        self._entries: dict[str, tuple[ClaimEntry, ...]] = {}

    def __getitem__(self, namespace: str) -> tuple[ClaimEntry, ...]:
        entries = self._entries.get(namespace)
        if entries is None:
            part = {namespace: self.raw[namespace]}
            entries = self._entries[namespace] = _ENTRIES.validate_python(part)[namespace]
        return entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.raw)

    def __len__(self) -> int:
        return len(self.raw)

    def __repr__(self) -> str:
        return f"ClaimList({dict(self)!r})"

    @classmethod
    def _validate(cls, value: Any) -> ClaimList:
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            raise ValueError("must be an object")
        lists = value.values()
        if {*map(type, lists)} <= {list} and {*map(type, chain.from_iterable(lists))} <= {dict}:
            return cls(value)
        entries = _ENTRIES.validate_python(value)
        return cls(_ENTRIES.dump_python(entries, mode="json", by_alias=True, exclude_unset=True))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._validate, serialization=core_schema.plain_serializer_function_ser_schema(lambda claims: claims.raw)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return handler(_ENTRIES.core_schema)


class Allocation(Model):
    """How the pool is shared out."""

    hard: Amounts = Field(default_factory=dict)
    """The total amounts of the pool."""
    used: Annotated[Amounts, Field(max_length=MAX_USED)] = Field(default_factory=dict)
    """The amounts held by claims, and by namespaces that still use released amounts."""
    available: Amounts = Field(default_factory=dict)
    """The amounts that can still be claimed."""


class Exhaustion(Model):
    """A resource that claims wait for."""

    available: Amount
    """The amounts that can still be claimed."""
    requesting: Amount
    """The amounts that the waiting claims request."""


class ResourcePoolStatus(Status):
    """The observed state."""

    namespace_count: int = 0
    """How many namespaces are selected."""
    claim_count: int = 0
    """How many claims are allocated."""
    namespaces: tuple[str, ...] = ()
    """The selected namespaces, sorted."""
    claims: Annotated[ClaimList, Atomic()] = Field(default_factory=lambda: ClaimList({}))
    """The allocated claims of each namespace."""
    allocation: Annotated[Allocation, Atomic()] = Allocation()
    exhaustions: Annotated[dict[str, Exhaustion], Atomic()] = Field(default_factory=dict)
    """The resources that claims wait for."""
    releasing: Annotated[dict[str, Amounts], Atomic()] = Field(default_factory=dict)
    """The released amounts that namespaces may still use; they are held until the ResourceQuota shows that they are unused."""

    def wire(self, *, without: Collection[str] = ()) -> dict[str, Any]:
        """Return the fields that were set; the claims as they are, without a copy."""
        body = super().wire(without={*without, "claims"})
        if "claims" not in without and "claims" in self.model_fields_set:
            body["claims"] = self.claims.raw
        return body


_STAYS_ABOVE_USED = Cel(
    "!has(oldSelf.status) || !has(oldSelf.status.allocation) || !has(oldSelf.status.allocation.used) "
    "|| oldSelf.status.allocation.used.all(r, !has(oldSelf.spec.quota.hard) || !(r in oldSelf.spec.quota.hard) "
    "|| (has(self.spec.quota.hard) && r in self.spec.quota.hard "
    "? [quantity(string(self.spec.quota.hard[r]))].all(q, q.compareTo(quantity(string(oldSelf.status.allocation.used[r]))) >= 0 "
    "|| q.compareTo(quantity(string(oldSelf.spec.quota.hard[r]))) >= 0) "
    ": quantity(string(oldSelf.status.allocation.used[r])).compareTo(quantity('0')) <= 0))",
    "quota.hard cannot be lowered below what is claimed, nor lose a resource that is (see status.allocation.used); "
    "release or delete claims first",
    reason="FieldValueForbidden",
    field_path=".spec.quota.hard",
)
_SHORT_NAME = Cel(
    f"oldSelf.hasValue() || self.metadata.name.size() <= {MAX_POOL_NAME}",
    f"the name of a ResourcePool has at most {MAX_POOL_NAME} characters, because it is the value of a label; choose a shorter one",
    optional_old_self=True,
)


@resource(
    f"{GROUP}/v1beta2",
    short_names=("quotapool",),
    scope="Cluster",
    conditions=("Ready", "Exhausted"),
    columns=(
        Column("Claims", ".status.claimCount", type="integer"),
        Column("Namespaces", ".status.namespaceCount", type="integer"),
    ),
    rules=(_STAYS_ABOVE_USED, _SHORT_NAME),
)
class ResourcePool(CustomResource[ResourcePoolSpec, ResourcePoolStatus]):
    """Resources that the selected namespaces may claim."""


class ResourcePoolClaimSpec(Model):
    """The desired state."""

    pool: Annotated[str, Field(max_length=253)] | None = None
    """The pool; left out, the first by name that serves the namespace and has room is taken, and the claim waits for it in a queue."""
    claim: _Asked
    """The amount of each resource. It cannot be changed while the claim is allocated."""


class PoolReference(Model):
    """The pool that a claim belongs to."""

    name: str | None = None
    namespace: str | None = None
    """Always empty, since pools have none; Capsule has the field."""
    uid: str | None = None


class ResourcePoolClaimStatus(Status):
    """The observed state."""

    pool: PoolReference | None = None
    """The pool of the claim; for a claim that names no pool, set at the allocation."""
    queue: PoolReference | None = None
    """The pool in whose queue a claim without a pool waits."""
    condition: Condition | None = None
    """Assigned or Bound: the progress of the claim, or why it waits."""
    semantics: Literal["v0.14"] | None = None
    """The form of the status: with v0.14 `conditions` report the progress of the claim, else `condition` does."""
    conditions: Annotated[tuple[Condition, ...], Atomic(), Field(max_length=16)] = ()
    """In the semantics of v0.14: Ready, Exhausted, and Bound, which is True while pods use the claim."""


# The controller records the semantics in force: in v0.14 a claim is immutable while pods use it, else while it is allocated.
_ALLOCATED = (
    "has(oldSelf.status) && (has(oldSelf.status.semantics) ? has(oldSelf.status.conditions) "
    "&& oldSelf.status.conditions.exists(c, c.type == 'Bound' && c.status == 'True') "
    ": has(oldSelf.status.condition) "
    "&& oldSelf.status.condition.type == 'Bound' && oldSelf.status.condition.status == 'True')"
)
_RELEASE_FIRST = (
    'of an allocated claim cannot be changed: release it first (annotation projectcapsule.dev/release: "true"), '
    "or delete it and create another"
)
_KEEPS_AMOUNTS = Cel(
    f"!({_ALLOCATED}) || (self.spec.claim.size() == oldSelf.spec.claim.size() "
    "&& self.spec.claim.all(r, r in oldSelf.spec.claim "
    "&& quantity(string(self.spec.claim[r])).compareTo(quantity(string(oldSelf.spec.claim[r]))) == 0))",
    f"the amounts {_RELEASE_FIRST}",
    reason="FieldValueForbidden",
    field_path=".spec.claim",
)
# A claim without a pool was assigned to a pool (status.pool): to write that pool into the spec changes nothing.
_KEEPS_POOL = Cel(
    f"!({_ALLOCATED}) || (has(oldSelf.spec.pool) && oldSelf.spec.pool != '' "
    "? has(self.spec.pool) && self.spec.pool == oldSelf.spec.pool "
    ": !has(self.spec.pool) || self.spec.pool == '' || (has(oldSelf.status.pool) && has(oldSelf.status.pool.name) "
    "&& self.spec.pool == oldSelf.status.pool.name))",
    f"the pool {_RELEASE_FIRST}",
    reason="FieldValueForbidden",
    field_path=".spec.pool",
)


@resource(
    f"{GROUP}/v1beta2",
    conditions=("Ready", "Exhausted", "Bound"),
    columns=(
        Column("Pool", ".status.pool.name"),
        Column("Status", ".status.condition.type"),
        Column("Reason", ".status.condition.reason"),
        Column("Message", ".status.condition.message"),
    ),
    rules=(_KEEPS_AMOUNTS, _KEEPS_POOL),
    written_by="tenants",
)
class ResourcePoolClaim(CustomResource[ResourcePoolClaimSpec, ResourcePoolClaimStatus]):
    """A part of a ResourcePool for the namespace of this object."""

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions of the status, of whatever form; empty before a controller has seen the claim."""
        if self.status.semantics is not None:
            return self.status.conditions
        return () if self.status.condition is None else (self.status.condition,)


COLUMNS_OF_V014: Mapping[str, tuple[Column, ...]] = {
    "ResourcePool": (
        Column("Claims", ".status.claimCount", type="integer"),
        Column("Namespaces", ".status.namespaceCount", type="integer"),
        Column.condition("Ready"),
        Column("Status", '.status.conditions[?(@.type=="Ready")].message'),
        AGE,
    ),
    "ResourcePoolClaim": (
        Column("Pool", ".status.pool.name"),
        Column.condition("Ready"),
        Column("Message", '.status.conditions[?(@.type=="Ready")].message'),
        Column.condition("Bound"),
        Column("Reason", '.status.conditions[?(@.type=="Bound")].message'),
        AGE,
    ),
}
"""The columns of `kubectl get` in the semantics of v0.14, by kind; the schema serves both."""
