"""`MemoryServer`: an API server in the test's own process.

    async with MemoryServer() as server:
        response = await server.handle(call)        # in process: no socket, no thread, virtual time if the loop has it
        async with server.http() as shell: ...      # the same server over HTTP: for kubectl and other clients

Guarantees: in process and over HTTP run the same code, independent of konverge's client and of the rest of the test kit. Objects, versions,
watches, validation, apply, deletion, garbage, namespaces and CRDs behave as in kube-apiserver 1.36 with its controllers; `make
conformance` compares the two. Requests for deliberately absent features get 501 or 405, never a silently wrong response. Time is the
loop's, and every draw is from `random`: the same seed gives the same responses, uids included.

Caveats: callers in the same process are not authenticated; a call names its user.

The rooms: `storage` and `reading` (objects, versions, LIST, WATCH), `schemas` and `cel` (CRDs), `apply` and `patch` (writes),
`strategies` and `catalog` (built-in kinds), `auth` and `admission`, `discovery` and `tables`, `registry` (the verbs), `controllers`. Each
decides in plain code; this file and the HTTP shell (`http`) act.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any, Final, Self

from konverge_testing.apiserver.admission import QUOTAS, Admission, Handler, QuotaUpdate, ServiceAccounts
from konverge_testing.apiserver.auth import (
    GUARDED,
    Attributes,
    Authenticator,
    Decision,
    Rbac,
    attributes_of,
    bootstrap_objects,
    require_no_escalation,
)
from konverge_testing.apiserver.catalog import builtin, registered
from konverge_testing.apiserver.controllers.definitions import DefinitionController
from konverge_testing.apiserver.controllers.garbage import GarbageCollector
from konverge_testing.apiserver.controllers.namespaces import NamespaceController
from konverge_testing.apiserver.controllers.protection import ProtectionController
from konverge_testing.apiserver.controllers.quotas import QuotaController
from konverge_testing.apiserver.discovery import Discovery
from konverge_testing.apiserver.draws import Draws
from konverge_testing.apiserver.faults import Faults, Orders
from konverge_testing.apiserver.faults.rules import About, about_call
from konverge_testing.apiserver.faults.streams import close_lines
from konverge_testing.apiserver.pod_logs import PodLogs, log_options
from konverge_testing.apiserver.pod_sessions import CONNECTING, PodCommands, PodPorts, check_ports, is_websocket
from konverge_testing.apiserver.registry import Registry
from konverge_testing.apiserver.registry.creating import create
from konverge_testing.apiserver.registry.deleting import delete, delete_options
from konverge_testing.apiserver.registry.forms import form_of, shown
from konverge_testing.apiserver.registry.patching import patch, update
from konverge_testing.apiserver.registry.pipeline import decode_body, settled
from konverge_testing.apiserver.registry.reading import Reader
from konverge_testing.apiserver.registry.request import APPLY_TYPES, ResourceRequest, options_of, require_timeout, route
from konverge_testing.apiserver.registry.scaling import scale_of, update_scale
from konverge_testing.apiserver.registry.special_requests import SpecialRequests
from konverge_testing.apiserver.requests import Call, Query, Response, User
from konverge_testing.apiserver.resources import Alias, Resource
from konverge_testing.apiserver.schemas.nesting import MAX_DEPTH, MAX_SUPPORTED, depth
from konverge_testing.apiserver.shells import refusal
from konverge_testing.apiserver.statuses import StatusError, method_not_allowed, not_implemented, page_not_found
from konverge_testing.apiserver.storage import Store, StoredObjects

if TYPE_CHECKING:
    from konverge_testing.apiserver.http import HttpShell

__all__ = ["MemoryServer"]

_BOOTSTRAP_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
_ABSENT: Final = frozenset(
    {
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
    }
)
"""Kinds whose objects would be stored and never enforced: they are not served, and a request for them gets 501."""
_ABSENT_GROUPS: Final = frozenset({"flowcontrol.apiserver.k8s.io", "resource.k8s.io"})
"""Groups of kube-apiserver that are absent."""
_OPTIONS: Final = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}

OnCall = Callable[[Call, About, Response], None]


class MemoryServer:
    """See the module. `async with` starts its controllers and ends them; no task remains.

    `tokens` maps bearer tokens to users; `namespaces` exist from the start; `rbac` False allows everything to every user without granted
    rights (`MemoryServer.rbac.grant`); `service_accounts` selects the treatment of pods in admission: `full` looks the account up and
    mounts its token, `name` only names it, `off` does nothing. `controllers` False omits kube-controller-manager's controllers, as envtest
    does: nothing is collected, a deleted namespace stays Terminating, and namespaces get no ServiceAccount.
    """

    def __init__(
        self,
        *,
        random: Random | None = None,
        tokens: Mapping[str, User] | None = None,
        namespaces: Collection[str] = _BOOTSTRAP_NAMESPACES,
        rbac: bool = True,
        history: int = 100_000,
        service_accounts: ServiceAccounts = "full",
        controllers: bool = True,
    ) -> None:
        chance = Random() if random is None else random  # noqa: S311  # uids and names of a test server are no secrets
        self.draws = Draws(chance)
        self.store = Store(window=history)
        self.objects = StoredObjects(self.store)
        self.rbac = Rbac(self.objects)
        self.authenticator = Authenticator(
            self.objects,
            self.rbac,
            tokens=tokens or {},
            key=chance.randbytes(32),
            uid=self.draws.uid,
        )
        self.webhooks: dict[str, Handler] = {}
        """Functions of this process that serve webhooks, by URL or by `namespace/service`; other webhooks are called over HTTPS."""
        self.admission = Admission(
            self.objects,
            draws=self.draws,
            handlers=self.webhooks,
            store_quota=self._store_quota,
            settle=settled,
            registered=registered,
            authorize=self._authorized,
            service_accounts=service_accounts,
        )
        self.registry = Registry(self.store, draws=self.draws, admission=self.admission)
        self.registry.guards += (self._creation, self._escalation)
        self.faults = Faults(lambda: self.store.version)
        self.on_call: list[OnCall] = []
        """Called after each response, injected faults included; a lab uses it for recording."""
        self.logs = PodLogs(self.registry.moment)
        """The logs of pods, which a test writes."""
        self.commands = PodCommands()
        """The functions of a test that run as commands in containers."""
        self.ports = PodPorts()
        """The functions of a test that listen on ports of pods."""
        self._reader = Reader(self.registry)
        self._discovery = Discovery(lambda: self.registry.resources)
        self._specials = SpecialRequests(self.registry, self.rbac, self.authenticator)
        self._rbac_on = rbac
        self._namespaces = tuple(namespaces)
        self._with_controllers = controllers
        self._controllers: tuple[Any, ...] = ()

    def _authorized(self, user: User, attributes: Attributes) -> Decision:
        return self.rbac.allows(user, attributes) if self._authorizes(user) else Decision(True)

    def _authorizes(self, user: User) -> bool:
        """Return whether a user's requests are authorized; without `rbac` only users with granted rights are restricted."""
        return self._rbac_on or self.rbac.restricts(user)

    def _store_quota(self, charge: QuotaUpdate) -> None:
        entry = self.store.get(QUOTAS, charge.namespace, charge.name)
        if entry is not None:
            self.store.update(QUOTAS, entry, {**entry.object(), "status": charge.status})

    # --- life ----------------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self.registry.add(_aliased(resource) for resource in builtin() if resource.plural not in _ABSENT)
        self._bootstrap()
        namespaces = NamespaceController(self.registry)
        self._controllers = (DefinitionController(self.registry),)  # in a cluster it is part of kube-apiserver
        if self._with_controllers:
            self._controllers += (
                namespaces,
                GarbageCollector(self.registry),
                QuotaController(self.registry),
                ProtectionController(self.registry),
            )
        for controller in self._controllers:
            controller.worker.start()
            self.store.observers.append(controller.observe)
        for name in self._namespaces:
            namespaces.worker.add(name)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.faults.clear()
        for controller in self._controllers:
            self.store.observers.remove(controller.observe)
            await controller.worker.stop()
        await self.admission.close()
        for controller in self._controllers:
            if controller.worker.failed is not None:
                raise controller.worker.failed

    def _bootstrap(self) -> None:
        now = self.registry.now()
        for name in self._namespaces:
            metadata = {"name": name, "labels": {"kubernetes.io/metadata.name": name}}
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
            self._put(
                ("", "namespaces"),
                {**namespace, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}},
                now,
            )
        for data in bootstrap_objects() if self._rbac_on else ():
            plural = f"{data['kind'].lower()}s"
            if data["metadata"].get("namespace", "default") in self._namespaces:
                self._put(("rbac.authorization.k8s.io", plural), data, now)
        if "default" in self._namespaces:
            # Imported here: the kinds' rules are loaded when a server starts, not with this module.
            from konverge_testing.apiserver.strategies.own_service import SERVICES, own_service

            self._put(SERVICES, own_service(now), now)

    def _put(self, resource: tuple[str, str], data: dict[str, Any], now: str) -> None:
        data["metadata"] |= {"uid": self.draws.uid(), "creationTimestamp": now}
        self.store.create(resource, data)

    @property
    def idle(self) -> bool:
        """Whether all controllers of the server are idle."""
        return all(controller.worker.idle for controller in self._controllers)

    # --- ways in -------------------------------------------------------------------------------------------------------------

    def http(self, *, tls: bool = False, **more: Any) -> HttpShell:
        """Return a shell that serves this server over HTTP on loopback inside `async with`."""
        # Imported here: only needed for sockets.
        from konverge_testing.apiserver.http import HttpShell

        return HttpShell(self.handle, tls=tls, **more)

    async def handle(self, call: Call) -> Response:
        """Return the response to a call; raises `Dropped` if a fault drops the connection."""
        about = about_call(call)
        try:
            orders = await self.faults.before(call, about)
            if orders.jump:
                self.store.jump(orders.jump)
            if orders.forget:
                self.store.forget()
            answer = await self._answer(call, orders)
            try:
                await self.faults.after(call, about, answer)
            except BaseException:
                if answer.stream is not None:
                    await close_lines(answer.stream)
                raise
        except StatusError as error:
            answer = refusal(error)
        except RecursionError:  # several patches can nest an object deeper than any body
            answer = refusal(_too_deep())
        if answer.stream is not None:
            answer.stream = self.faults.stream(call, about, answer.stream, orders.view)
        for listener in self.on_call:
            listener(call, about, answer)
        return answer

    async def _answer(self, call: Call, orders: Orders) -> Response:
        attributes = attributes_of(call)
        if attributes.verb != "watch":
            require_timeout(call)
        user = self.authenticator.authenticate(call, attributes)
        if self._authorizes(user):
            self.rbac.require(user, attributes)
        place = route(attributes)
        if place.group is None or not place.resource:
            found = self._discovery.answer(
                call.path, call.headers.get("accept", ""), call.headers.get("if-none-match", "")
            )
            if found is None:
                raise page_not_found()
            if call.method not in ("GET", "HEAD") and self._discovery.reads_only(call.path):
                raise method_not_allowed()
            return found
        try:
            resource, version = self.registry.served(place)
        except StatusError:
            if place.group in _ABSENT_GROUPS or place.resource in _ABSENT:
                raise not_implemented(f"{place.resource} of {place.group}") from None
            found = self._discovery.answer(call.path, call.headers.get("accept", ""))
            if found is None:
                raise
            return found
        if MAX_SUPPORTED < depth(call.body) <= MAX_DEPTH:
            raise _too_deep()
        request = ResourceRequest(call, place, resource, version, user)
        form_of(call.headers.get("accept", ""), custom=resource.custom)
        try:
            return await self._handle_resource(request, orders)
        except StatusError as error:
            error.warnings = request.warnings
            raise

    async def _handle_resource(self, request: ResourceRequest, orders: Orders) -> Response:
        """Handle a request to a served resource."""
        call, place, resource, version = request.call, request.info, request.resource, request.version
        if version.deprecated and (place.verb in resource.verbs or place.subresource):
            request.warnings.append(version.deprecated)
        if place.verb in _OPTIONS:
            request.options = options_of(
                call, _OPTIONS[place.verb], apply=request.media_type in APPLY_TYPES and place.verb == "patch"
            )
        if (resource.group, resource.plural, place.subresource, place.verb) == ("", "pods", "log", "get"):
            options = log_options(call.query, place.name)
            return self.logs.serve(await self._reader.get(request, None), call.query, options)
        if (resource.group, resource.plural) == ("", "pods") and place.subresource in CONNECTING:
            return await self._connect(request)
        special = self._specials.find(request)
        if special is not None:
            data, status = await special(request)
            return shown(request, data, self.registry.moment(), status)
        verb = _VERBS.get(place.verb)
        if verb is None or (place.verb not in resource.verbs and not place.subresource):
            raise method_not_allowed()
        everywhere = resource.namespaced and not place.namespace
        if everywhere and resource.custom and place.verb in ("create", "deletecollection"):
            raise page_not_found()
        if (everywhere and place.verb in ("create", "deletecollection")) or (
            place.subresource and place.verb in ("create", "delete")
        ):
            raise method_not_allowed(*((resource.group, resource.plural, place.verb) if resource.custom else ()))
        view = orders.view
        answer: Response = await verb(self, request, None if view is None or view.ended.is_set() else view.version)
        return answer

    # --- verbs ---------------------------------------------------------------------------------------------------------------

    async def _get(self, request: ResourceRequest, view: int | None) -> Response:
        data = await self._reader.get(request, view)
        return shown(
            request, scale_of(request, data) if request.info.subresource == "scale" else data, self.registry.moment()
        )

    async def _connect(self, request: ResourceRequest) -> Response:
        place = request.info
        if place.verb not in ("get", "create"):
            raise method_not_allowed()
        check_ports(request.call)
        if is_websocket(request.call) and self._authorizes(request.user):
            self.rbac.require(request.user, replace(attributes_of(request.call), verb="create"), why="")
        pod = await self._reader.get(request, None)
        sessions = self.commands if place.subresource == "exec" else self.ports
        return sessions.open(request.call, pod, self.objects)

    async def _list(self, request: ResourceRequest, view: int | None) -> Response:
        return await self._reader.list(request, view)

    async def _watch(self, request: ResourceRequest, view: int | None) -> Response:
        request.call.query = _with_watched_name(request.call)
        return await self._reader.watch(request, view)

    async def _create(self, request: ResourceRequest, _: int | None) -> Response:
        if request.info.name and not request.resource.custom:
            raise method_not_allowed()
        data = decode_body(request)
        return shown(request, await create(self.registry, request, data), self.registry.moment(), 201)

    async def _update(self, request: ResourceRequest, _: int | None) -> Response:
        if request.info.subresource == "scale":
            return shown(request, await update_scale(self.registry, request), self.registry.moment())
        data, created = await update(self.registry, request)
        return shown(request, data, self.registry.moment(), 201 if created else 200)

    async def _patch(self, request: ResourceRequest, _: int | None) -> Response:
        if request.info.subresource == "scale":
            return shown(request, await update_scale(self.registry, request), self.registry.moment())
        data, created = await patch(self.registry, request)
        return shown(request, data, self.registry.moment(), 201 if created else 200)

    async def _delete(self, request: ResourceRequest, _: int | None) -> Response:
        deletion = delete_options(request)
        data = await delete(self.registry, request, self.registry.entry(request), deletion)
        return shown(request, data, self.registry.moment())

    async def _delete_collection(self, request: ResourceRequest, _: int | None) -> Response:
        deletion = delete_options(request)
        answer = await self._reader.list(request)
        for entry in await self._reader.selected(request):
            request.info = request.info.named(entry.name)
            try:
                await delete(
                    self.registry, request, self.store.get(request.resource.id, entry.namespace, entry.name), deletion
                )
            except StatusError as error:
                if error.code != 404:
                    raise
        return answer

    def _creation(self, request: ResourceRequest, new: dict[str, Any] | None, old: dict[str, Any] | None) -> None:
        """Require the right to create for an apply or an update that creates."""
        if new is not None and old is None and request.info.verb != "create" and self._authorizes(request.user):
            self.rbac.require(request.user, replace(attributes_of(request.call), verb="create"))

    def _escalation(self, request: ResourceRequest, new: dict[str, Any] | None, old: dict[str, Any] | None) -> None:
        if (
            new is not None
            and self._authorizes(request.user)
            and request.group == "rbac.authorization.k8s.io"
            and request.plural in GUARDED
        ):
            require_no_escalation(
                self.rbac, request.user, request.plural, request.namespace, new, old, request.info.name
            )


def _too_deep() -> StatusError:
    return not_implemented(f"an object that is nested deeper than {MAX_SUPPORTED} levels")


def _with_watched_name(call: Call) -> Query:
    """Return the parameters of a watch; a name in the path (`/api/v1/watch/namespaces/NAME`) becomes a field selector."""
    name = attributes_of(call).name if "/watch/" in call.path else ""
    if not name:
        return call.query
    selector = ",".join(filter(None, (call.query.get("fieldSelector"), f"metadata.name={name}")))
    return Query([("fieldSelector", selector), *call.query.pairs])


def _aliased(resource: Resource) -> Resource:
    """Events of v1 and of events.k8s.io are the same objects, as on a real server."""
    if resource.plural != "events":
        return resource
    from konverge_testing.apiserver.strategies import events

    if resource.group:
        return replace(resource, twin=Alias(("", "events"), events.as_new, events.as_core))
    alias = Alias(("events.k8s.io", "events"), events.as_core, events.as_new)
    return replace(resource, alias=alias, twin=alias)


_VERBS: Final[Mapping[str, Any]] = {
    "get": MemoryServer._get,
    "list": MemoryServer._list,
    "watch": MemoryServer._watch,
    "create": MemoryServer._create,
    "update": MemoryServer._update,
    "patch": MemoryServer._patch,
    "delete": MemoryServer._delete,
    "deletecollection": MemoryServer._delete_collection,
}
