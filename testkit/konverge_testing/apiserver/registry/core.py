"""`Registry`: the served resources, and the shared services of every verb. No verb is here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from konverge.clock import rfc3339, wall_clock
from konverge_testing.apiserver.draws import Draws
from konverge_testing.apiserver.golang import quote
from konverge_testing.apiserver.registry.converting import Converter
from konverge_testing.apiserver.resources import Resource, Version
from konverge_testing.apiserver.statuses import bad_request, not_found, page_not_found, path_not_found
from konverge_testing.apiserver.storage import Entry, Store

if TYPE_CHECKING:
    from konverge_testing.apiserver.admission import Admission
    from konverge_testing.apiserver.registry.request import RequestInfo, ResourceRequest

__all__ = ["Data", "Registry", "check_name"]

Data = dict[str, Any]


class Registry:
    """The served resources, the store behind them, and the sources of time, uids and generated names.

    Time is the loop's wall time; uids, names and numbers are from `draws` only, so the same seed gives the same objects.
    """

    def __init__(self, store: Store, *, draws: Draws, admission: Admission) -> None:
        self.store = store
        self.draws = draws
        self.admission = admission
        self.converter = Converter(admission.webhooks, draws.uid)
        self._resources: dict[tuple[str, str], Resource] = {}
        self.guards: list[Callable[[ResourceRequest, Data | None, Data | None], None]] = []
        """Called with each write before it is stored; each may raise."""
        self.ending: set[tuple[str, str]] = set()
        """Custom resources whose definition is being deleted: creates are refused."""
        self.generation = 0
        """Incremented by every change of the served resources."""
        self.on_change: list[Callable[[Resource | None, tuple[str, str]], None]] = []

    # --- served resources ----------------------------------------------------------------------------------------------------

    def add(self, resources: Iterable[Resource]) -> None:
        """Serve these resources, in place of resources with the same names."""
        for resource in resources:
            self._resources[resource.name] = resource
            self.generation += 1
            for listener in self.on_change:
                listener(resource, resource.id)

    def remove(self, resource: tuple[str, str]) -> None:
        """Stop serving a resource; the caller deletes its objects before."""
        if self._resources.pop(resource, None) is not None:
            self.generation += 1
            for listener in self.on_change:
                listener(None, resource)

    @property
    def resources(self) -> list[Resource]:
        """The served resources, in the order of their addition."""
        return list(self._resources.values())

    def find(self, group: str, plural: str) -> Resource | None:
        """Return a resource."""
        return self._resources.get((group, plural))

    def by_kind(self, api_version: str, kind: str) -> Resource | None:
        """Return the resource of a kind in a served version."""
        group, _, version = api_version.rpartition("/")
        for resource in self._resources.values():
            if resource.kind == kind and resource.group == group and resource.version(version) is not None:
                return resource
        return None

    def served(self, place: RequestInfo) -> tuple[Resource, Version]:
        """Return the resource and version of a path; raises 404 if there is none, or if the scope does not fit."""
        resource = self.find(place.group or "", place.resource)
        version = None if resource is None else resource.version(place.version)
        if resource is None or version is None:
            raise page_not_found() if self._custom(place.group or "") else path_not_found()
        if place.namespace and not resource.namespaced and resource.id != ("", "namespaces"):
            raise path_not_found()
        if place.subresource and not _has_subresource(resource, version, place.subresource):
            if resource.custom:
                raise not_found(resource.group, resource.plural, place.name)
            raise path_not_found()
        if resource.namespaced and not place.namespace and place.name:
            raise path_not_found()
        return resource, version

    def _custom(self, group: str) -> bool:
        """Whether the group has custom kinds; their handler responds differently to requests for absent resources."""
        return any(resource.custom for resource in self._resources.values() if resource.group == group)

    # --- time -----------------------------------------------------------------------------------------------------

    def moment(self) -> datetime:
        """Return the current time."""
        return wall_clock()

    def now(self) -> str:
        """Return the current time as it is written into objects."""
        return _written(int(wall_clock().timestamp()))

    # --- objects -------------------------------------------------------------------------------------------------------------

    def entry(self, request: ResourceRequest) -> Entry | None:
        """Return the object of a request's URL. Raises StatusError 400 for a name that cannot be a path segment."""
        check_name(request.info.name)
        return self.store.get(request.resource.id, request.namespace, request.info.name)


def check_name(name: str) -> None:
    """Refuse a name that cannot be a path segment in etcd."""
    if "%" in name or name in (".", ".."):
        why = f"may not be '{name}'" if name[:1] == "." else "may not contain '%'"
        raise bad_request(f"Name parameter invalid: {quote(name)}: {why}")


@lru_cache(maxsize=16)
def _written(second: int) -> str:
    return rfc3339(datetime.fromtimestamp(second, UTC))


def _has_subresource(resource: Resource, version: Version, subresource: str) -> bool:
    if resource.custom:
        return (subresource == "status" and version.has_status) or (
            subresource == "scale" and version.scale is not None
        )
    return subresource in resource.subresources
