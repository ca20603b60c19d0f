"""Authentication, impersonation, RBAC and reviews.

Guarantees: synchronous, no I/O; decisions depend only on the stored objects, the call and the clock.
"""

from __future__ import annotations

from konverge_testing.apiserver.auth.attributes import Attributes, attributes_of, refusal
from konverge_testing.apiserver.auth.authenticator import Authenticator, user_info
from konverge_testing.apiserver.auth.bootstrap import bootstrap_objects
from konverge_testing.apiserver.auth.escalation import GUARDED, require_no_escalation
from konverge_testing.apiserver.auth.rbac import Decision, Rbac
from konverge_testing.apiserver.auth.reviews import (
    review_access,
    review_local_access,
    review_own_access,
    review_own_rules,
)
from konverge_testing.apiserver.auth.rules import aggregated

__all__ = [
    "GUARDED",
    "Attributes",
    "Authenticator",
    "Decision",
    "Rbac",
    "aggregated",
    "attributes_of",
    "bootstrap_objects",
    "refusal",
    "require_no_escalation",
    "review_access",
    "review_local_access",
    "review_own_access",
    "review_own_rules",
    "user_info",
]
