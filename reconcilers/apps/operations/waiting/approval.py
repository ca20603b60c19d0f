"""Approvals: a claim binds one Operation, in one cluster, with its present spec, until an expiry.

The claim is a JSON object with `cluster`, `namespace`, `name`, `digest` and `expires`. The digest covers target, type, engine, parameters
and timeout, so that an edited Operation, or another Operation of the same name, needs another claim.

Guarantees: pure. A malformed claim does not approve; the messages name the field that does not fit.

Caveats: a claim is not signed. Who may write `spec.approvals` may approve; restrict that with RBAC or an admission policy.
"""

from __future__ import annotations

import hashlib
import json
from datetime import datetime

from konverge.clock import from_rfc3339, rfc3339
from konverge.crds.ops_v1alpha1 import Operation
from konverge.reconcilers.apps.operations.settings import OperationSettings

__all__ = ["claim_for", "lacking_approval", "spec_digest"]


def spec_digest(operation: Operation) -> str:
    """Return the digest of everything in the spec that an approval covers."""
    spec = operation.spec
    target = spec.target_ref
    covered = [
        target.api_version,
        target.kind,
        target.name,
        spec.type,
        spec.engine,
        spec.parameters,
        spec.timeout_seconds,
    ]
    text = json.dumps(covered, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def claim_for(operation: Operation, *, cluster: str, expires: datetime) -> str:
    """Return the claim that approves this Operation as it is now."""
    return json.dumps(
        {
            "cluster": cluster,
            "namespace": operation.namespace,
            "name": operation.name,
            "digest": spec_digest(operation),
            "expires": rfc3339(expires),
        }
    )


def lacking_approval(operation: Operation, settings: OperationSettings, cluster: str, now: datetime) -> str:
    """Return why the Operation is not approved, "" if it is or needs no approval."""
    approvals = operation.spec.approvals
    if not (operation.spec.type in settings.approval_types or (approvals is not None and approvals.required)):
        return ""
    wanted = spec_digest(operation)
    if approvals is None or not approvals.claim:
        return f"an approval of {wanted} is needed: write it to spec.approvals.claim"
    try:
        claim = json.loads(approvals.claim)
        expires = from_rfc3339(claim["expires"])
    except (KeyError, TypeError, ValueError, RecursionError):
        return "spec.approvals.claim is not a JSON object with cluster, namespace, name, digest and expires; write another one"
    expected = {"cluster": cluster, "namespace": operation.namespace, "name": operation.name, "digest": wanted}
    for field, value in expected.items():
        if claim.get(field) != value:
            return f"spec.approvals.claim is for another {field}; approve {wanted}"
    if expires <= now:
        return f"spec.approvals.claim has expired; approve {wanted} again"
    return ""
