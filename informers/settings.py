"""The objects that an informer watches, and its settings.

A `Selection` names the objects; equal selections in one `InformerSet` share one informer. `InformerSettings` holds every number with its
unit, its default and the reason for the default.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from konverge.dropped import DroppedFields
from konverge.errors import UsageError
from konverge.kinds import Kind
from konverge.objects import Metadata
from konverge.tasks import SLICE

__all__ = ["InformerSettings", "Selection", "Transform", "Whole"]

Transform: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""Changes a decoded object before it is cached; see `Selection`."""
Whole: TypeAlias = Callable[[Metadata], bool]
"""Decides whether an object is cached whole; see `Selection`."""


class Selection(msgspec.Struct, frozen=True):
    """The objects of a kind that are cached, and the cached part of each.

    `namespace` None means all namespaces; `labels` and `fields` are selectors that the server evaluates. With `metadata_only` the
    server sends only metadata, so no body reaches this process: the way to watch Secrets.

    The fields of `dropped` are left out of each object, before `transform`.

    `transform` runs once per object before it is cached (never with `metadata_only`), for instance to drop unused fields. It must be
    idempotent and keep name, namespace, uid and resourceVersion. If it fails, the object is cached untransformed, and the failure is
    logged and counted, because a missing object would mislead reconcilers. So a transform saves memory, but does not reliably keep
    data out of memory.

    If `whole` returns false for an object's metadata, only the metadata is cached. It is called once for each version that the server
    sends, so its result may change only with the object. It must not raise. The server still sends the whole object.

    >>> from konverge.kinds import kind
    >>> Selection(kind("v1", "Secret"), namespace="web", metadata_only=True).labels
    ''
    """

    kind: Kind[Any]
    namespace: str | None = None
    labels: str = ""
    fields: str = ""
    metadata_only: bool = False
    transform: Transform | None = None
    whole: Whole | None = None
    dropped: DroppedFields | None = None

    def __post_init__(self) -> None:
        if self.metadata_only and not (self.transform is None and self.whole is None):
            raise UsageError(
                f"{self.kind.group_kind}: a metadata-only selection takes no transform and no `whole`; drop one of the two"
            )
        if self.metadata_only and self.dropped is not None:
            raise UsageError(
                f"{self.kind.group_kind}: a metadata-only selection drops every field of the body by itself"
            )

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace is not None else ""
        clauses = "".join(f" [{text}]" for text in (self.labels, self.fields) if text)
        part = " (metadata)" if self.metadata_only else " (some whole)" if self.whole is not None else ""
        without = f" without {self.dropped}" if self.dropped is not None else ""
        return f"{self.kind.group_kind}{where}{clauses}{part}{without}"


@dataclass(frozen=True, kw_only=True)
class InformerSettings:
    """The settings of informers, in seconds unless another unit is given.

    >>> InformerSettings(watch_idle=10).page_size
    500
    """

    watch_list: bool = True
    """Request the initial state as a stream (https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/3157-watch-list);
    the informers detect servers that do not honour it, and list plainly for `watch_list_retry` seconds."""

    progress: float = 30.0
    """A streaming list without a further initial object for so long is replaced by a plain list. client-go waits for ever."""

    watch_list_retry: float = 3600.0
    """The time after which a streaming list is tried again for a resource that did not support it; servers are upgraded."""

    page_size: int = 500
    """Objects per page of a plain list, as client-go."""

    consistent_lists: bool = True
    """Plain lists request the latest state, in pages. With False, as in client-go, the first list accepts any state in the server's
    cache (it may be older than the state before a restart) in one response, which stalls the event loop.
    https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/2340-Consistent-reads-from-cache"""

    watch_idle: float = 70.0
    """A watch without a byte for so long is dead and is restarted. Bookmarks arrive about once a minute, so 70 s restart it within 75 s.
    https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/956-watch-bookmark"""

    watch_timeout: tuple[int, int] = (300, 600)
    """The server ends each watch after a random time between these, so that watches spread over API servers."""

    early_end: float = 1.0
    """A watch that ends sooner without an event counts as failed, so that its restart backs off."""

    backoff_start: float = 0.8
    backoff_cap: float = 30.0
    backoff_reset: float = 120.0
    """Waits after failures: doubled from start to cap, multiplied by a random factor of 1 to 2, from the start again after
    `backoff_reset` without a failure. The numbers of client-go and kube-rs."""

    failing_watch: float = 60.0
    """A watch is retried from its version while the server responds with 5xx; after so long the objects are listed again."""

    poll_start: float = 1.0
    poll_cap: float = 30.0
    """Waits between two discoveries of a kind that is not served: doubled from start to cap, multiplied by a random factor of 1 to
    1.2. So an informer starts within 36 s of its CRD (plus 5 s during which the client caches a negative discovery), and a process whose
    optional kinds are never installed hardly burdens the API server. The cap equals the cap of the waits after failures."""

    slice: float = SLICE
    """The time that all informers of a set together may work on objects before they yield to the event loop."""

    slice_objects: int = 64
    """Objects decoded between two checks of the time."""

    def __post_init__(self) -> None:
        for name in (
            "progress",
            "page_size",
            "watch_idle",
            "backoff_start",
            "backoff_cap",
            "poll_start",
            "poll_cap",
            "slice_objects",
        ):
            if not getattr(self, name) > 0:
                raise UsageError(f"InformerSettings({name}={getattr(self, name)!r}): it must be above zero")
        low, high = self.watch_timeout
        if not 0 < low <= high:
            raise UsageError(
                f"InformerSettings(watch_timeout={self.watch_timeout!r}): write the shorter one first, above zero"
            )
