"""Requests that do not read or write a stored object directly: reviews, tokens, evictions, bindings, a namespace's finalize.

Guarantees: a response is not stored, unless its handler documents it. Subresources that need a node (exec, attach, port-forward,
proxy) get a 501 with a message that names the reason.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from konverge_testing.apiserver.admission import EvictionDecision, disruption_target, evict
from konverge_testing.apiserver.auth import (
    Authenticator,
    Rbac,
    review_access,
    review_local_access,
    review_own_access,
    review_own_rules,
)
from konverge_testing.apiserver.registry.binding import bind
from konverge_testing.apiserver.registry.core import Data, Registry
from konverge_testing.apiserver.registry.deleting import Deletion, delete, require
from konverge_testing.apiserver.registry.finalizing import finalize
from konverge_testing.apiserver.registry.pipeline import check_identity, decode_body, decode_other, owned
from konverge_testing.apiserver.registry.request import ResourceRequest, options_of
from konverge_testing.apiserver.registry.reviewing import mutated, reviewed
from konverge_testing.apiserver.statuses import (
    StatusError,
    bad_request,
    method_not_allowed,
    not_found,
    not_implemented,
    path_not_found,
)
from konverge_testing.apiserver.storage import Changed, Entry, StoredObjects

__all__ = ["SpecialRequests"]

Handler = Callable[[ResourceRequest], Awaitable[tuple[Data, int]]]

_ABSENT: Final = frozenset({"attach", "proxy", "ephemeralcontainers", "resize"})
_PODS: Final = ("", "pods")
_BUDGETS: Final = ("policy", "poddisruptionbudgets")


class SpecialRequests:
    """Finds the handler of such a request, or None for an ordinary request."""

    def __init__(self, registry: Registry, rbac: Rbac, authenticator: Authenticator) -> None:
        self._registry = registry
        self._rbac = rbac
        self._authenticator = authenticator
        self._by_place: dict[tuple[str, str, str], Handler] = {
            ("authorization.k8s.io", "subjectaccessreviews", ""): self._review,
            ("authorization.k8s.io", "localsubjectaccessreviews", ""): self._review,
            ("authorization.k8s.io", "selfsubjectaccessreviews", ""): self._review,
            ("authorization.k8s.io", "selfsubjectrulesreviews", ""): self._review,
            ("authentication.k8s.io", "tokenreviews", ""): self._review,
            ("authentication.k8s.io", "selfsubjectreviews", ""): self._review,
            ("", "serviceaccounts", "token"): self._token,
            ("", "pods", "eviction"): self._evict,
            ("", "pods", "binding"): self._bind,
            ("", "bindings", ""): self._bind,
            ("", "namespaces", "finalize"): self._finalize,
        }

    def find(self, request: ResourceRequest) -> Handler | None:
        """Return the handler of a request."""
        place = request.info
        if request.resource.custom:
            return None
        if place.subresource.partition("/")[0] in _ABSENT and place.verb in ("get", "create", "update", "patch"):
            raise not_implemented(f"the subresource {place.subresource} of {request.resource.qualified}")
        found = self._by_place.get((request.group, request.plural, place.subresource))
        if found is not None and place.name and not place.subresource:
            raise path_not_found()
        if found is not None and place.verb != ("update" if place.subresource == "finalize" else "create"):
            raise method_not_allowed()
        return found

    async def _review(self, request: ResourceRequest) -> tuple[Data, int]:
        body = decode_other(request)
        answer, status = self._answered(request, body)
        owned(request, None, body, self._registry.now())
        if managed := body["metadata"].get("managedFields"):
            answer["metadata"] = {**(answer.get("metadata") or {}), "managedFields": managed}
        return answer, status

    def _answered(self, request: ResourceRequest, body: Data) -> tuple[Data, int]:
        rbac = self._rbac
        match request.plural:
            case "subjectaccessreviews":
                return review_access(rbac, body), 201
            case "localsubjectaccessreviews":
                return review_local_access(rbac, body, request.namespace), 201
            case "selfsubjectaccessreviews":
                return review_own_access(rbac, request.user, body), 201
            case "selfsubjectrulesreviews":
                return review_own_rules(rbac, request.user, body), 201
            case "tokenreviews":
                return self._authenticator.review_token(body), 201
            case _:
                return self._authenticator.review_self(request.user, body), 201

    async def _token(self, request: ResourceRequest) -> tuple[Data, int]:
        body = decode_other(request)
        return self._authenticator.issue_token(request.namespace, request.info.name, body), 201

    async def _evict(self, request: ResourceRequest) -> tuple[Data, int]:
        """Evict a pod. The eviction passes admission; the deletion that follows does not pass it again, as on a real server."""
        body = decode_other(request)
        name = (body.get("metadata") or {}).get("name") or request.info.name
        if name != request.info.name:
            raise bad_request("name in URL does not match name in Eviction object")
        body = await mutated(self._registry, request, "CREATE", body, None)
        await reviewed(self._registry, request, "CREATE", body, None)
        entry = self._registry.entry(request)
        if entry is None:
            raise not_found("", "pods", request.info.name)
        options = body.get("deleteOptions") or {}
        request.options.dry_run = options_of(request.call, "DeleteOptions", body=options).dry_run
        verdict = evict(
            entry.object(),
            StoredObjects(self._registry.store).list(_BUDGETS, request.namespace),
            self._registry.moment(),
        )
        if verdict.refused is not None:
            raise verdict.refused
        preconditions = options.get("preconditions") or {}
        deletion = Deletion(
            options.get("propagationPolicy") or "",
            options.get("gracePeriodSeconds"),
            preconditions.get("uid") or "",
            preconditions.get("resourceVersion") or (str(entry.version) if verdict.unchanged_only else ""),
        )
        require(request, entry, deletion)
        if not request.options.dry_run:
            entry = self._disrupted(request, entry, verdict)
        await delete(self._registry, request, entry, replace(deletion, version=""), admit=False)
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201

    def _disrupted(self, request: ResourceRequest, entry: Entry, verdict: EvictionDecision) -> Entry:
        """Record the disruption in the budget and the pod; nothing awaits between the check of the pod's version and this."""
        store = self._registry.store
        budget = store.get(_BUDGETS, request.namespace, verdict.budget) if verdict.status is not None else None
        if budget is not None:
            store.update(_BUDGETS, budget, {**budget.object(), "status": verdict.status})
        pod = entry.object()
        status = dict(pod.get("status") or {})
        kept = [one for one in status.get("conditions") or () if one["type"] != "DisruptionTarget"]
        status["conditions"] = [*kept, disruption_target(self._registry.moment())]
        return store.update(_PODS, entry, {**pod, "status": status})

    async def _bind(self, request: ResourceRequest) -> tuple[Data, int]:
        return await bind(self._registry, request), 201

    async def _finalize(self, request: ResourceRequest) -> tuple[Data, int]:
        body = decode_body(request)
        check_identity(request, body)
        entry = self._registry.entry(request)
        if entry is None:
            raise not_found("", "namespaces", request.info.name)
        try:
            return finalize(self._registry, entry, (body.get("spec") or {}).get("finalizers") or []), 200
        except Changed:
            raise StatusError(409, "Conflict", "the namespace was changed in between") from None
