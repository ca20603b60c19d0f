"""Kinds: API version, kind name, and the class that their objects decode into.

Discovery (`konverge.client`) gives scope and plural, unless the kind declares them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Generic, Protocol, TypeVar, overload

from konverge.errors import UsageError
from konverge.objects import Metadata, Object

__all__ = ["Kind", "Resource", "kind", "kind_of"]


_VERSION = re.compile(r"^[a-z]([-a-z0-9]*[a-z0-9])?\Z")
_KIND = re.compile(r"^(?!v[0-9]+((alpha|beta)[0-9]+)?$)[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?\Z")
_API_VERSION = re.compile(r"^([a-z0-9.-]+/)?v[0-9]+((alpha|beta)[0-9]+)?\Z")


def _problem(api_version: str, kind: str) -> str:
    """Describe the mistake in two arguments that name no kind, and the correct spelling."""
    given = f"kind({api_version!r}, {kind!r})"
    if _API_VERSION.match(kind) and "/" not in api_version:
        return f'{given}: the API version comes first; write kind("{kind}", "{api_version}")'
    if not kind or not _KIND.match(kind):
        return f"{given}: write the kind as its objects do, one word in CamelCase, for instance ConfigMap"
    return f"{given}: write the API version as group/version, or v1 for the core group"


class Resource(Protocol):
    """The interface of every object: of thin views (`Object`) and pydantic models (`CustomResource`).

    >>> def path_of(object_: Resource) -> str:
    ...     return f"{object_.namespace}/{object_.name}"
    """

    @property
    def metadata(self) -> Metadata:
        """The decoded metadata."""

    @property
    def name(self) -> str:
        """The name."""

    @property
    def namespace(self) -> str:
        """The namespace, "" if the object is cluster-scoped or has none yet."""

    def to_dict(self) -> dict[str, Any]:
        """Return the object as the API server would read it: a fresh dict, only the fields that were set."""


R = TypeVar("R", bound=Resource)
R_co = TypeVar("R_co", bound=Resource, covariant=True)


class Kind(Generic[R_co]):
    """A kind of object, for instance `Kind[Object]` or `Kind[Backup]`.

    Two kinds are equal if API version and kind are, whatever their decoders. Immutable, hashable, cheap to compare.

    >>> kind("v1", "Secret") == kind("v1", "Secret", namespaced=True)
    True
    """

    __slots__ = ("_decode", "_hash", "api_version", "group", "group_kind", "kind", "namespaced", "plural", "version")

    api_version: str
    group: str
    version: str
    kind: str
    group_kind: str
    """`CronJob.batch`, or `Secret` for the core group: how people and the API server's messages write it."""
    namespaced: bool | None
    plural: str | None

    def __init__(
        self,
        api_version: str,
        kind: str,
        decode: Callable[[dict[str, Any]], R_co],
        *,
        namespaced: bool | None = None,
        plural: str | None = None,
    ) -> None:
        group, slash, version = api_version.rpartition("/")
        if not _VERSION.match(version) or (slash and not group) or "/" in group or not _KIND.match(kind):
            raise UsageError(_problem(api_version, kind))
        self.api_version = api_version
        self.group = group
        self.version = version
        self.kind = kind
        self.group_kind = f"{kind}.{group}" if group else kind
        self.namespaced = namespaced
        self.plural = plural
        self._decode = decode
        self._hash = hash((api_version, kind))

    @property
    def model(self) -> type[Any] | None:
        """The class of a model that its objects decode into, None if they are thin views.

        >>> kind("v1", "Secret").model is None
        True
        """
        model = getattr(self._decode, "__self__", None)
        return model if isinstance(model, type) else None

    def decode(self, data: dict[str, Any]) -> R_co:
        """Convert a decoded JSON object into an object of this kind; the dict becomes the object's own.

        Raises InvalidObject if a model does not accept it.
        """
        if "apiVersion" not in data:
            data["apiVersion"] = self.api_version
        if "kind" not in data:
            data["kind"] = self.kind
        return self._decode(data)

    def new(
        self,
        name: str,
        namespace: str = "",
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> R_co:
        """Create an object of this kind, not yet sent anywhere; `fields` are its top-level fields in the API's spelling.

        >>> kind("v1", "Secret").new("target", "web", data={"url": "czM6Ly9i"}).name
        'target'
        """
        metadata: dict[str, Any] = {"name": name}
        if namespace:
            metadata["namespace"] = namespace
        if labels:
            metadata["labels"] = dict(labels)
        if annotations:
            metadata["annotations"] = dict(annotations)
        return self.decode({"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata, **fields})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kind) and self.api_version == other.api_version and self.kind == other.kind

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"kind({self.api_version!r}, {self.kind!r})"


@overload
def kind(
    api_version: str, name: str, /, *, namespaced: bool | None = None, plural: str | None = None
) -> Kind[Object]: ...


@overload
def kind(
    api_version: str, name: str, /, *, model: type[R], namespaced: bool | None = None, plural: str | None = None
) -> Kind[R]: ...


def kind(
    api_version: str,
    name: str,
    /,
    *,
    model: type[Any] | None = None,
    namespaced: bool | None = None,
    plural: str | None = None,
) -> Kind[Any]:
    """Name a kind that is not ours, for instance `kind("batch/v1", "CronJob")`.

    Without `model` its objects are thin views of the decoded dict (`Object`). With a model (a subclass of `PartialResource`)
    they are that model; fields that it does not know survive. Raises UsageError for a malformed API version.

    >>> kind("batch/v1", "CronJob").group_kind
    'CronJob.batch'
    """
    decode: Callable[[dict[str, Any]], Any] = Object if model is None else model.decode_resource
    return Kind(api_version, name, decode, namespaced=namespaced, plural=plural)


@lru_cache(maxsize=1024)
def _plain(api_version: str, name: str) -> Kind[Object]:
    """Return the kind of objects without a model; cached, because each reconcile needs it for each child."""
    return kind(api_version, name)


def kind_of(what: Kind[R] | type[R] | R) -> Kind[R]:
    """Return the kind of a kind, of a class with `@resource`, or of an object.

    Raises UsageError for a class that declares no kind.
    """
    if isinstance(what, Kind):
        return what
    if isinstance(what, Object):
        plain: Kind[Any] = _plain(what.api_version, what.kind_name)
        return plain
    declared = getattr(what, "kind_of_resource", None)
    if declared is None:
        raise UsageError(f"{what!r} declares no kind; decorate the class with @kv.resource(...) or use kv.kind(...)")
    result: Kind[R] = declared()
    return result
