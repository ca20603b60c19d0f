"""The writes of a Nextcloud to its instance. Pure.

`lock_patch` takes an instance in a single write. `tenant_intent` holds all fields that the Nextcloud sets, applied server-side with force.
Fields outside of the intent belong to the pool's template or to other managers and stay as they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from konverge.crds.pools_v1alpha1 import Nextcloud
from konverge.objects import Metadata, Object
from konverge.reconcilers.pools.kinds import INSTANCE
from konverge.reconcilers.pools.profiles import beneath, beside, merge, profile_digest
from konverge.reconcilers.pools.tenant_fields import TENANT_FIELDS, recorded_fields
from konverge.reconcilers.pools.words import Finalizer, PoolsAnnotation, PoolsLabel

__all__ = [
    "claim_labels",
    "followed_intent",
    "label_value",
    "lock_patch",
    "spec_before",
    "spec_text",
    "tenant_intent",
    "tenant_spec",
]

_MAX_LABEL: Final = 63
_MAX_ANNOTATION: Final = 100_000
"""All annotations of an object have 262,144 bytes."""
_NO_VERSION: Final = "1"
"""A version that no object has: etcd begins with it before the first object.

An apply with this resourceVersion creates an object and never changes an existing object (testkit/tests/conformance/cases/apply.yaml).
After a create instead, the operation Update would own the fields too, and no apply could remove a field.
"""


def label_value(name: str) -> str:
    """Return a name as a label can hold it: a long name is cut and gets a hash.

    >>> label_value("main"), len(label_value("x" * 200))
    ('main', 63)
    """
    if len(name) <= _MAX_LABEL:
        return name
    return f"{name[:52].rstrip('.-')}-{hashlib.sha256(name.encode()).hexdigest()[:10]}"


def claim_labels(nextcloud: Nextcloud) -> dict[str, str]:
    """Return the labels of an instance that the Nextcloud has."""
    return {
        PoolsLabel.ASSIGNED: PoolsLabel.TRUE,
        PoolsLabel.TENANT: nextcloud.namespace,
        PoolsLabel.NEXTCLOUD: label_value(nextcloud.name),
        PoolsLabel.CLAIM_UID: nextcloud.uid,
    }


def _claim(nextcloud: Nextcloud) -> dict[str, str]:
    return {"namespace": nextcloud.namespace, "name": nextcloud.name, "uid": nextcloud.uid}


def spec_text(spec: Mapping[str, Any]) -> str:
    """Return a spec as an annotation holds it, "" if it is empty or too long for an annotation."""
    text = msgspec.json.encode(spec, order="deterministic").decode() if spec else ""
    return text if len(text) <= _MAX_ANNOTATION else ""


def spec_before(nextcloud: Nextcloud, instance: Object, pool: Object | None, profile: Object | None) -> dict[str, Any]:
    """Return the former spec of a taken instance, reconstructed: for an instance that was taken without a record of its spec.

    A field that the tenant does not set keeps the instance's value. A field that the tenant sets has the value of the pool's present
    template, over the defaults of its profile if the profile has not changed since the instance's creation.
    """
    tenant, metadata = tenant_spec(nextcloud), instance.metadata
    stored = {name: value for name, value in (instance.to_dict().get("spec") or {}).items() if name != "claimRef"}
    template = {} if pool is None else pool.get("spec", "template", "spec", default={}) or {}
    defaults = {} if profile is None else profile.get("spec", "defaults", default={}) or {}
    if profile is None or profile_digest(profile.name, defaults) != metadata.annotation(PoolsAnnotation.PROFILE_DIGEST):
        defaults = {}
    return merge(beneath(merge(defaults, template), tenant), beside(stored, tenant))


def lock_patch(nextcloud: Nextcloud, instance: Metadata, policy: str = "", before: str = "") -> dict[str, Any]:
    """Return the merge patch that takes an instance: claim, labels, policy and finalizer in one write.

    Without a policy the instance keeps its own policy. `before` is its spec (`spec_text`).
    """
    finalizers = instance.finalizers
    if Finalizer.INSTANCE not in finalizers:
        finalizers = (*finalizers, Finalizer.INSTANCE)
    return {
        "metadata": {
            "labels": claim_labels(nextcloud),
            "finalizers": list(finalizers),
            **({"annotations": {PoolsAnnotation.SPEC_BEFORE: before}} if before else {}),
        },
        "spec": {"claimRef": _claim(nextcloud), **({"reclaimPolicy": policy} if policy else {})},
    }


def tenant_spec(nextcloud: Nextcloud) -> dict[str, Any]:
    """Return the fields that the tenant set, except the fields that choose the Nextcloud's instance."""
    spec: dict[str, Any] = nextcloud.to_dict().get("spec", {})
    return {name: value for name, value in spec.items() if name in TENANT_FIELDS}


def _decoded(text: str) -> dict[str, Any]:
    """Return the fields of an annotation; an annotation that another writer made unreadable has none."""
    try:
        fields = msgspec.json.decode(text) if text else {}
    except (msgspec.DecodeError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def tenant_intent(
    nextcloud: Nextcloud,
    name: str,
    namespace: str,
    *,
    uid: str = "",
    creates: bool = False,
    defaults: str = "",
    before: str = "",
    replaced: str = "",
    profile: str = "",
    nonce: str = "",
    pool: str = "",
) -> Object:
    """Return the fields that the Nextcloud sets on its instance.

    `defaults` is the annotation with the defaults of the profile that the instance was created with; they are below the tenant's fields,
    and return when the tenant removes a field. `before` and `replaced` are the annotations SPEC_BEFORE and REPLACED of a taken instance:
    only the parts of that spec that the tenant's fields replaced return, since all else belongs to others. With `creates` the apply is a
    conflict if an instance of the name exists. `nonce` proves that the operator created the instance; `pool` is the pool of the taken
    instance.
    """
    tenant = tenant_spec(nextcloud)
    under = merge(beneath(_decoded(before), tenant), _decoded(replaced))
    notes = {
        PoolsAnnotation.PROFILE_DEFAULTS: defaults,
        PoolsAnnotation.REPLACED: spec_text(under),
        PoolsAnnotation.CREATION_NONCE: nonce,
    }
    spec = merge(merge(_decoded(defaults), under), tenant)
    recorded = recorded_fields(tenant)
    intent = INSTANCE.new(
        name,
        namespace,
        labels={**claim_labels(nextcloud), **({PoolsLabel.POOL: pool} if pool else {})},
        annotations={key: text for key, text in notes.items() if text} or None,
        spec={
            **spec,
            "claimRef": _claim(nextcloud),
            **({"profile": profile} if profile else {}),
            **({"tenantFields": recorded} if recorded else {}),
        },
    )
    data = intent.to_dict()
    if uid:
        data["metadata"]["uid"] = uid  # an instance that was deleted and recreated is not ours
    if creates:
        data["metadata"]["resourceVersion"] = _NO_VERSION
    return INSTANCE.decode(data)


def followed_intent(nextcloud: Nextcloud, instance: Object, *, pool: str, created: bool) -> Object:
    """Return the fields that the Nextcloud sets on its present instance; `created` if the instance was created for the Nextcloud."""
    metadata = instance.metadata
    defaults = metadata.annotation(PoolsAnnotation.PROFILE_DEFAULTS)
    return tenant_intent(
        nextcloud,
        metadata.name,
        metadata.namespace,
        uid=metadata.uid,
        defaults=defaults,
        before=metadata.annotation(PoolsAnnotation.SPEC_BEFORE),
        replaced=metadata.annotation(PoolsAnnotation.REPLACED),
        nonce=metadata.annotation(PoolsAnnotation.CREATION_NONCE) if created else "",
        pool=pool,
        profile=str(instance.get("spec", "profile", default="") or "") if defaults else "",
    )
