"""What an informer watches, and the numbers that it works by.

A `Selection` says which objects; two equal selections in one `InformerSet` share one informer. `InformerSettings` holds every
number with its unit, its default and the reason for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from konverge.errors import UsageError
from konverge.kinds import Kind

__all__ = ["InformerSettings", "Selection", "Transform"]

Transform: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""Changes a decoded object before it is cached; see `Selection`."""


@dataclass(frozen=True)
class Selection:
    """Which objects of a kind are cached, and how much of each.

    `namespace` None means all namespaces; `labels` and `fields` are selectors that the server evaluates. With `metadata_only` the
    server sends nothing but metadata, so no body ever reaches this process: the way to watch Secrets.

    `transform` runs once per object before it is cached (never with `metadata_only`), for instance to drop what nobody reads. It
    must be idempotent and keep name, namespace, uid and resourceVersion. Where it fails, the object is cached as it came, and the
    failure is logged and counted: a missing object would mislead more than a large one. So a transform saves memory; it is no
    guard for what must not be in memory.

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

    def __post_init__(self) -> None:
        if self.metadata_only and self.transform is not None:
            raise UsageError(
                f"{self.kind.group_kind}: a metadata-only selection takes no transform; drop one of the two"
            )

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace is not None else ""
        clauses = "".join(f" [{text}]" for text in (self.labels, self.fields) if text)
        return f"{self.kind.group_kind}{where}{clauses}" + (" (metadata)" if self.metadata_only else "")


@dataclass(frozen=True, kw_only=True)
class InformerSettings:
    """The numbers that informers work by; seconds unless said otherwise.

    >>> InformerSettings(read_idle=10).page_size
    500
    """

    watch_list: bool = True
    """Ask for the initial state as a stream (https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/3157-watch-list);
    servers that do not honour it are noticed and remembered."""

    progress: float = 30.0
    """How long a streaming list may bring no further initial object before a plain list is made instead. client-go waits for ever."""

    plain_memory: float = 3600.0
    """How long a resource whose streaming list failed is listed plainly. An hour, because servers are upgraded under us."""

    page_size: int = 500
    """Objects per page of a plain list, as client-go."""

    consistent_lists: bool = True
    """Plain lists ask for the latest state, in pages. False is client-go's way: the first list takes any state that the server
    has cached (it may be older than what this process saw before a restart) and gets it whole, which stalls the event loop.
    https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/2340-Consistent-reads-from-cache"""

    read_idle: float = 70.0
    """A watch without a byte for so long is dead. Bookmarks come about each minute; with it a dead watch is repaired within 75 s.
    https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/956-watch-bookmark"""

    watch_timeout: tuple[int, int] = (300, 600)
    """The server is asked to end each watch after a random time between these, so that watches spread over API servers."""

    early_end: float = 1.0
    """A watch that ends sooner, without one event, counts as failed; a server that closes at once must not be asked in a tight loop."""

    backoff_start: float = 0.8
    backoff_cap: float = 30.0
    backoff_reset: float = 120.0
    """Waits after failures: doubled from start to cap, each stretched by a random factor of 1 to 2, begun anew after `backoff_reset`
    without a failure. The numbers of client-go and kube-rs."""

    failing_watch: float = 60.0
    """How long a watch that the server answers with 5xx is tried again from where it stood before the objects are listed anew."""

    poll_start: float = 1.0
    poll_cap: float = 10.0
    """Waits between two looks for a kind that is not served: doubled from start to cap, each stretched by a random factor of 1 to
    1.2. So an informer starts within 12 s of its CRD (plus what the client remembers of discovery's "no", 5 s)."""

    slice: float = 0.005
    """How long work on objects goes on before the event loop gets its turn, for all informers of a set together."""

    slice_objects: int = 64
    """Objects decoded between two looks at the clock."""

    def __post_init__(self) -> None:
        for name in (
            "progress",
            "page_size",
            "read_idle",
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
