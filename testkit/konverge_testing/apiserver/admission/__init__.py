"""Admission: the steps of a write between its authorization and its storage.

Guarantees: decisions are pure functions of the stored objects, the call and the clock; only `calling` does I/O: it calls the webhooks.
"""

from __future__ import annotations

from konverge.quantities import Quantity
from konverge_testing.apiserver.admission.call import AdmissionCall, Operation, denied
from konverge_testing.apiserver.admission.calling import Handler, Webhooks
from konverge_testing.apiserver.admission.chain import Admission
from konverge_testing.apiserver.admission.defaults import ServiceAccounts
from konverge_testing.apiserver.admission.eviction import EvictionDecision, disruption_target, evict
from konverge_testing.apiserver.admission.namespaces import check_namespace
from konverge_testing.apiserver.admission.quota import QUOTAS, QuotaUpdate, charge, recalculate
from konverge_testing.apiserver.admission.review import CallFailedError

__all__ = [
    "QUOTAS",
    "Admission",
    "AdmissionCall",
    "CallFailedError",
    "Handler",
    "Operation",
    "Quantity",
    "QuotaUpdate",
    "ServiceAccounts",
    "Webhooks",
    "EvictionDecision",
    "charge",
    "check_namespace",
    "denied",
    "disruption_target",
    "evict",
    "recalculate",
]
