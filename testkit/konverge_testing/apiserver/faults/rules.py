"""Rules of faults as data: the requests that a rule matches, and the fault that strikes them. Pure.

    rule = Rule(Match(verbs=("apply",), resources=("secrets",), namespace="web"), Refuse(status=503, retry_after=2), nth=2, count=1)

Guarantees: a rule is encoded to JSON and decoded without loss, and unknown words in a plan are refused by name. Matching reads nothing
but the `About` of a request. `Rule.hits` lists the hits of a rule in order.

Caveats: a healthy API server never shows some of the faults; their docstrings mark them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import unquote

import msgspec

from konverge_testing.apiserver.requests import Call

__all__ = [
    "About",
    "Bookmarks",
    "Cut",
    "Delay",
    "Drop",
    "Expire",
    "Fault",
    "Forget",
    "Freeze",
    "Hang",
    "Hit",
    "Jump",
    "Lines",
    "Match",
    "Moment",
    "Refuse",
    "Rule",
    "Stale",
    "StreamFault",
    "about_call",
    "about_request",
]

Moment: TypeAlias = Literal["before", "after"]
"""`before`: the request had no effect yet. `after`: a write is stored (or a read was served) and the client has not got the response."""

APPLY: Final = "application/apply-patch+"
_CHANGES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_READS: Final = frozenset({"get", "list", "watch"})
_NO_DECISION: Final = frozenset({"events", "leases"})
_QUESTIONS: Final = ("accessreviews", "rulesreviews", "tokenreviews")
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_NAMESPACE_PARTS: Final = frozenset({"status", "finalize"})


class About(msgspec.Struct, frozen=True, gc=False):
    """The description of one request that rules match. `verb` is RBAC's word, "" for a path without a resource (discovery, health).

    `manager` is the field manager: as given, else the first part of the User-Agent, as on the real server.
    """

    verb: str = ""
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    user_agent: str = ""
    manager: str = ""
    apply: bool = False
    """Whether a patch is a server-side apply."""
    dry_run: bool = False

    @property
    def qualified(self) -> str:
        """The resource as `plural.group`, or only the plural in the core group."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    @property
    def writes(self) -> bool:
        """Whether the request changes objects that reconcilers read: no review, token or dry run, no Event, no Lease.

        >>> About("patch", resource="secrets").writes, About("create", resource="events").writes
        (True, False)
        """
        return (
            self.verb in _CHANGES
            and not self.dry_run
            and self.resource not in _NO_DECISION
            and not self.resource.endswith(_QUESTIONS)
            and self.subresource != "token"
        )

    def __str__(self) -> str:
        where = "/".join(part for part in (self.namespace, self.name) if part)
        what = f"{self.qualified}/{self.subresource}" if self.subresource else self.qualified
        return " ".join(part for part in ("apply" if self.apply else self.verb, what, where) if part)


def about_call(call: Call) -> About:
    """Return the description of a call from its path only, whether or not such a resource is served."""
    agent = call.headers.get("user-agent", "")
    watches = call.query.flag("watch")
    found = about_request(call.method, call.path, watches=watches, dry_run="dryRun" in call.query)
    return msgspec.structs.replace(
        found,
        apply=call.method == "PATCH" and call.headers.get("content-type", "").startswith(APPLY),
        user_agent=agent,
        manager=call.query.get("fieldManager") or agent.partition("/")[0],
    )


@lru_cache(maxsize=4096)
def about_request(method: str, path: str, *, watches: bool = False, dry_run: bool = False) -> About:
    """Return the description of a request by its method and path.

    >>> str(about_request("PATCH", "/apis/apps/v1/namespaces/web/deployments/shop/status"))
    'patch deployments.apps/status web/shop'
    """
    head, *rest = path.strip("/").split("/")
    group = rest[0] if head == "apis" and rest else ""
    rest = rest[{"api": 1, "apis": 2}.get(head, len(rest)) :]
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in _NAMESPACE_PARTS:
        namespace, rest = unquote(rest[1]), rest[2:]
    if not rest:
        return About(dry_run=dry_run)
    resource, name, subresource = (*rest, "", "")[:3]
    return About(
        _verb(method, bool(name), watches), group, resource, namespace, unquote(name), subresource, dry_run=dry_run
    )


def _verb(method: str, named: bool, watches: bool) -> str:
    if method in ("GET", "HEAD"):
        return "watch" if watches else "get" if named else "list"
    if method == "DELETE":
        return "delete" if named else "deletecollection"
    return _VERBS.get(method, method.lower())


class Match(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The requests that a rule matches. An absent field matches everything, discovery included; the texts are shell patterns
    (`web-*`).

    - `verbs`: RBAC's verbs, and also `apply` (patches that are applies), `read` (get, list, watch), `write` (see `About.writes`);
    - `resources`: `plural.group` (`deployments.apps`), or only the plural in the core group;
    - `subresource`: None matches all, "" the main resource only.

    >>> Match(verbs=("write",), resources=("*.apps",)).means(About("update", "apps", "deployments", "web", "shop"))
    True
    """

    verbs: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    namespace: str = "*"
    name: str = "*"
    subresource: str | None = None
    user_agent: str = "*"
    manager: str = "*"

    def means(self, about: About) -> bool:
        """Tell whether a request matches."""
        return (
            (not self.verbs or any(_is(about, verb) for verb in self.verbs))
            and (not self.resources or any(fnmatchcase(about.qualified, one) for one in self.resources))
            and (self.subresource is None or self.subresource == about.subresource)
            and _fits(about.namespace, self.namespace)
            and _fits(about.name, self.name)
            and self.fits(about.user_agent)
            and _fits(about.manager, self.manager)
        )

    def fits(self, user_agent: str) -> bool:
        """Tell whether it may match requests of a client with this User-Agent."""
        return _fits(user_agent, self.user_agent)


def _is(about: About, verb: str) -> bool:
    if verb == "write":
        return about.writes
    if verb == "read":
        return about.verb in _READS
    return about.apply if verb == "apply" else about.verb == verb


def _fits(text: str, pattern: str) -> bool:
    return pattern == "*" or fnmatchcase(text, pattern)


class _Fault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, tag=str.lower):
    """One kind of fault. In JSON its field `type` is the name of its class in lower case."""


class Delay(_Fault, frozen=True):
    """Delay the response by `seconds` of the loop's time. If a client stops waiting `after`, the write is stored nevertheless."""

    seconds: float
    moment: Moment = "before"


class Hang(_Fault, frozen=True):
    """Hang until the rule is removed: with this, a plan stops a process at a write, to end it there."""

    moment: Moment = "before"


class Refuse(_Fault, frozen=True):
    """Respond with a Status of the caller's choice; `after` means that the write was stored nevertheless."""

    status: int
    reason: str = ""
    message: str = ""
    retry_after: int | None = None
    moment: Moment = "before"


class Drop(_Fault, frozen=True):
    """Drop the connection without a response. `refused` (in process only): the client knows that nothing was sent, as with a closed port.

    `watches`: matching watches that are open when the rule is added are cut at once: a partition.
    """

    moment: Moment = "before"
    refused: bool = False
    watches: bool = False


class Jump(_Fault, frozen=True):
    """Raise the server's resourceVersion by this number before the request is processed."""

    by: int


class Forget(_Fault, frozen=True):
    """Let the server forget its history before the request is processed: a request for an older version gets 410."""


class Stale(_Fault, frozen=True):
    """Serve reads and watches from an older view: `version`, or the current version at the first hit minus `behind`.

    It ends after `steps` successful writes (see `About.writes`), after `seconds`, or when the rule is removed: then open watches deliver
    the held lines. `honest`: only reads that a lagging server may serve from an old view (reads that name a version, 0 included) get it;
    without `honest`, reads of the newest version get it too, which no healthy server would do.
    """

    version: int | None = None
    behind: int = 0
    steps: int | None = None
    seconds: float | None = None
    honest: bool = False


class Cut(_Fault, frozen=True):
    """Break a watch off after `lines` lines, `bytes` into the next (None: in its middle); `clean` ends it without an error instead."""

    lines: int = 0
    bytes: int | None = None
    clean: bool = False


class Expire(_Fault, frozen=True):
    """End a watch, after `lines` lines, with the ERROR event 410 Expired."""

    lines: int = 0


class Freeze(_Fault, frozen=True):
    """Hold a watch back after `lines` lines; nothing is lost. It resumes after `steps` writes, `seconds`, or when the rule is removed."""

    lines: int = 0
    steps: int | None = None
    seconds: float | None = None


class Lines(_Fault, frozen=True):
    """Duplicate, delay or omit lines of a watch: `count` lines of `types`, from the `first` on.

    `duplicate` sends a line again at once. `delay` holds a line, and all lines behind it, for `seconds`. `omit` loses the line,
    which no healthy server does to an event.
    """

    do: Literal["omit", "duplicate", "delay"]
    types: tuple[str, ...] = ("ADDED", "MODIFIED", "DELETED")
    first: int = 1
    count: int | None = None
    seconds: float = 0.0


class Bookmarks(_Fault, frozen=True):
    """Change bookmarks: `omit`, `duplicate`, or `delay` by `seconds` while events pass.

    A late bookmark is lost if an event overtakes it, since versions never decrease. The bookmark that ends the initial events of a
    streaming list is not changed unless `initial`.
    """

    do: Literal["omit", "duplicate", "delay"]
    seconds: float = 0.0
    initial: bool = False


StreamFault: TypeAlias = Cut | Expire | Freeze | Lines | Bookmarks
Fault: TypeAlias = Delay | Hang | Refuse | Drop | Jump | Forget | Stale | Cut | Expire | Freeze | Lines | Bookmarks


@dataclass(frozen=True, slots=True)
class Hit:
    """One hit of a rule: when (time of the loop), which request, and the request's number among the matching requests (from 1)."""

    at: float
    about: About
    number: int


@dataclass(eq=False)
class Rule:
    """A match, a fault, and which of the matching requests it strikes: `count` of them (None: all) from the `nth` on.

    Requests are counted at the point of the fault: for `after`, successful requests; for faults of watches, the streams (streams that are
    open when the rule is added are first, in the order of their opening).
    """

    match: Match
    fault: Fault
    nth: int = 1
    count: int | None = None
    hits: list[Hit] = field(default_factory=list, init=False, repr=False)

    def strikes(self, number: int) -> bool:
        """Tell whether the matching request of this number is struck."""
        return number >= self.nth and (self.count is None or number < self.nth + self.count)

    def to_json(self) -> dict[str, Any]:
        """Return the rule as plain JSON data, without its hits.

        >>> Rule(Match(verbs=("write",)), Hang(), nth=3, count=1).to_json()
        {'match': {'verbs': ['write']}, 'fault': {'type': 'hang'}, 'nth': 3, 'count': 1}
        """
        data: dict[str, Any] = msgspec.json.decode(
            msgspec.json.encode(_Written(self.match, self.fault, self.nth, self.count))
        )
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | str | bytes) -> Rule:
        """Create a rule from plain JSON data or from its text. Raises ValueError that names the place and the error."""
        if isinstance(data, (str, bytes)):
            found = msgspec.json.decode(data, type=_Written)
        else:
            found = msgspec.convert(data, _Written)
        return cls(found.match, found.fault, found.nth, found.count)


class _Written(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    match: Match
    fault: Fault
    nth: int = 1
    count: int | None = None
