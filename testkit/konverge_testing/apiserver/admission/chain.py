"""The admission chain: built-in plugins, then webhooks, then quota, in the order of a real server.

Guarantees
- `needed` costs about a microsecond and is False only if neither `mutate` nor `validate` would do anything.
- `mutate` never changes the given object: it returns the object itself or a new object.
- `validate` checks the quota last and does not await after that. It returns a function that stores the charges, to be called in the
  same step as the write. If the write fails, the function is not called.

Caveats: without ValidatingAdmissionPolicy and MutatingAdmissionPolicy, and without OwnerReferencesPermissionEnforcement, which is disabled
on a real server by default; an object that needs them passes unchanged.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from konverge.clock import WallClock, wall_clock
from konverge_testing.apiserver.admission.call import AdmissionCall, Data
from konverge_testing.apiserver.admission.calling import Handler, Webhooks
from konverge_testing.apiserver.admission.classes import check_overhead
from konverge_testing.apiserver.admission.conditions import Authorize
from konverge_testing.apiserver.admission.defaults import ServiceAccounts, fill, fills
from konverge_testing.apiserver.admission.dispatch import Dispatcher, Settle
from konverge_testing.apiserver.admission.hooks import Hooks
from konverge_testing.apiserver.admission.limits import LIMITS, check_limits, fill_limits, limited
from konverge_testing.apiserver.admission.namespaces import ANYWHERE, NAMESPACES, check_namespace
from konverge_testing.apiserver.admission.podsecurity import PodSecurity
from konverge_testing.apiserver.admission.quota import QUOTAS, QuotaUpdate, charge
from konverge_testing.apiserver.auth.attributes import Attributes
from konverge_testing.apiserver.auth.rbac import Decision
from konverge_testing.apiserver.draws import Draws
from konverge_testing.apiserver.objects import Objects
from konverge_testing.apiserver.requests import User

__all__ = ["Admission"]

_TRIES: Final = 10
_TRY: Final = 0.1
_CLAIMS: Final = ("", "persistentvolumeclaims")
_MEASURED: Final = frozenset({_CLAIMS, ("", "pods"), ("", "services")})


def _unsettled(call: AdmissionCall, found: Data) -> Data:
    del call  # a server with schemas decides by them
    return found


def _registered(api_version: str, kind: str) -> bool:
    del api_version, kind  # a server with a catalogue decides by it
    return True


def _allowed(user: User, attributes: Attributes) -> Decision:
    del user, attributes  # a server with authorization decides by it
    return Decision(True)


class _ByNamespace:
    """The stored objects of a kind, by namespace and sorted by name; read again after any object of that kind has changed."""

    def __init__(self, objects: Objects, resource: tuple[str, str]) -> None:
        self._objects = objects
        self._resource = resource
        self._found: dict[str, list[Data]] = {}
        self._state = 0

    def of(self, namespace: str) -> list[Data]:
        """Return the objects of a namespace; do not change the list."""
        state = self._objects.changed(self._resource)
        if state != self._state:
            self._state = state
            self._found.clear()
        if not state:
            return []
        found = self._found.get(namespace)
        if found is None:
            found = sorted(self._objects.list(self._resource, namespace), key=lambda one: str(one["metadata"]["name"]))
            self._found[namespace] = found
        return found


class Admission:
    """The chain over the stored objects.

    `handlers` are the webhooks in this process, by URL or service (see `calling.Webhooks`). `settle` completes an object that a
    webhook patched. `registered` reports whether an apiVersion has a built-in kind. `authorize` decides about rights in match
    conditions. `store_quota` writes the status of a quota, synchronously.
    """

    def __init__(
        self,
        objects: Objects,
        *,
        draws: Draws,
        handlers: Mapping[str, Handler] | None = None,
        settle: Settle = _unsettled,
        registered: Callable[[str, str], bool] = _registered,
        authorize: Authorize = _allowed,
        store_quota: Callable[[QuotaUpdate], None] | None = None,
        service_accounts: ServiceAccounts = "name",
        clock: WallClock = wall_clock,
    ) -> None:
        self._objects = objects
        self._draws = draws
        self._mutating = Hooks(objects, "mutating")
        self._validating = Hooks(objects, "validating")
        self.handlers: Mapping[str, Handler] = handlers if handlers is not None else {}
        self.webhooks = Webhooks(self.handlers)
        """The client of all webhooks; conversion uses it too."""
        self._dispatcher = Dispatcher(objects, self.webhooks, draws.uid, settle, registered, authorize)
        self._store_quota = store_quota
        self._accounts: ServiceAccounts = service_accounts
        self._clock = clock
        self._quotas = _ByNamespace(objects, QUOTAS)
        self._limits = _ByNamespace(objects, LIMITS)
        self._pod_security = PodSecurity(objects)
        self._active: set[str] = set()
        self._active_state = -1

    async def close(self) -> None:
        """Close the connections to webhooks."""
        await self.webhooks.close()

    def needed(self, resource: tuple[str, str], operation: str) -> bool:
        """Report whether admission has anything to do for writes of a resource."""
        if operation == "CREATE" or (operation == "DELETE" and resource == NAMESPACES):
            return True
        if operation == "UPDATE" and self._pod_security.concerns(resource):
            return True
        if operation == "UPDATE" and resource in _MEASURED and self._objects.changed(QUOTAS):
            return True
        if operation == "UPDATE" and resource == _CLAIMS and self._objects.changed(LIMITS):
            return True
        return self._mutating.may_concern(resource, operation) or self._validating.may_concern(resource, operation)

    async def mutate(self, call: AdmissionCall) -> Data:
        """Return the object after mutating admission; `{}` for an operation without an object. Raises the refusal of a plugin or hook."""
        self._check_namespace(call)
        if fills(call):
            await self._account_there(call)
        call = self._built_in(call)
        if self._mutating.may_concern(call.id, call.operation):
            call = await self._dispatcher.mutate(call, self._mutating.all(), self._built_in)
        return call.object if call.object is not None else {}

    def _built_in(self, call: AdmissionCall) -> AdmissionCall:
        """Return the call after the built-in plugins have changed its object."""
        ranges = self._ranges(call)
        if not ranges and not fills(call):
            return call
        call = replace(call, object=copy.deepcopy(call.object))
        fill_limits(call, ranges)
        fill(call, self._objects, self._accounts, self._draws)
        return call

    def _ranges(self, call: AdmissionCall) -> list[Data]:
        return self._limits.of(call.namespace) if limited(call) else []

    async def _account_there(self, call: AdmissionCall) -> None:
        """Wait up to a second for the account `default` of a new namespace, as the plugin does."""
        if self._accounts != "full" or call.operation != "CREATE" or call.id != ("", "pods") or call.object is None:
            return
        name = (call.object.get("spec") or {}).get("serviceAccountName") or "default"
        for _ in range(_TRIES if name == "default" else 0):
            if self._objects.get(("", "serviceaccounts"), call.namespace, name) is not None:
                return
            await asyncio.sleep(_TRY)

    async def validate(self, call: AdmissionCall) -> Callable[[], None] | None:
        """Raise if a plugin, a webhook or a quota refuses; returns the function that stores quota's charges, or None if there are none."""
        if ranges := self._ranges(call):
            check_limits(call, ranges)
        self._pod_security.validate(call)
        check_overhead(call, self._objects)
        if self._validating.may_concern(call.id, call.operation):
            await self._dispatcher.validate(call, self._validating.all())
        updates = self.charge(call)
        if not updates or self._store_quota is None:
            return None
        return partial(_store_all, self._store_quota, updates)

    def charge(self, call: AdmissionCall) -> list[QuotaUpdate]:
        """Return how a write changes the quotas; raises the 403 of an exceeded quota."""
        if not call.namespace or not (quotas := self._quotas.of(call.namespace)):
            return []
        return charge(call, quotas, self._clock())

    def _check_namespace(self, call: AdmissionCall) -> None:
        """Check the namespace; a successful check is cached until some namespace changes."""
        state = self._objects.changed(NAMESPACES)
        if state != self._active_state:
            self._active_state = state
            self._active.clear()
        if call.namespace not in self._active or call.id == NAMESPACES:
            check_namespace(call, self._objects)
            if call.operation == "CREATE" and call.id not in (NAMESPACES, ANYWHERE):
                self._active.add(call.namespace)


def _store_all(store: Callable[[QuotaUpdate], None], updates: list[QuotaUpdate]) -> None:
    for update in updates:
        store(update)
