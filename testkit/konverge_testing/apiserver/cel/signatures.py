"""The functions that rules may call, with their argument and result types.

Guarantees: pure data. The environment is kube-apiserver 1.36's (k8s.io/apiserver `pkg/cel/environment/base.go`): the language
itself, strings in version 2, sets, lists in version 3, optionals, two-variable comprehensions and Kubernetes' own libraries; not math,
encoders, bindings or protos, which a real server does not have either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from konverge_testing.apiserver.cel import kinds
from konverge_testing.apiserver.cel.kinds import CelType

__all__ = ["TYPE_NAMES", "Overload", "functions"]


@dataclass(frozen=True, slots=True)
class Overload:
    """One way to call a function: the receiver, if there is one, is the first of `args`."""

    args: tuple[CelType, ...]
    result: CelType
    member: bool
    own: bool
    """Whether it is ours to run: the CEL library does not have it, or has other words when it fails."""


_LANGUAGE: Final = """
_?_:_ (bool, A, A) A
_&&_ (bool, bool) bool
_||_ (bool, bool) bool
!_ (bool) bool
@not_strictly_false (bool) bool
__not_strictly_false__ (bool) bool
_==_ (A, A) bool
_!=_ (A, A) bool
_+_ (bytes, bytes) bytes | (double, double) double | (duration, duration) duration | (duration, timestamp) timestamp
_+_ (timestamp, duration) timestamp | (int, int) int | (list(A), list(A)) list(A) | (string, string) string | (uint, uint) uint
_/_ (double, double) double | (int, int) int | (uint, uint) uint
_%_ (int, int) int | (uint, uint) uint
_*_ (double, double) double | (int, int) int | (uint, uint) uint
-_ (double) double | (int) int
_-_ (double, double) double | (duration, duration) duration | (int, int) int | (timestamp, duration) timestamp
_-_ (timestamp, timestamp) duration | (uint, uint) uint
_[_] (list(A), int) A | (map(A, B), A) B | (opt(list(V)), int) opt(V) | (opt(map(K, V)), K) opt(V)
@in (A, list(A)) bool | (A, map(A, B)) bool
in (A, list(A)) bool | (A, map(A, B)) bool
size (bytes) int | .bytes() int | (list(A)) int | .list(A)() int | (map(A, B)) int | .map(A, B)() int | (string) int | .string() int
type (A) type(A)
bool (bool) bool | (string) bool
bytes (bytes) bytes | (string) bytes
double (double) double | (int) double | (string) double | (uint) double
duration (duration) duration | (int) duration | (string) duration
dyn (A) dyn
int (int) int | (double) int | (duration) int | (string) int | (timestamp) int | (uint) int
string (string) string | (bool) string | (bytes) string | (double) string | (duration) string | (int) string
string (timestamp) string | (uint) string
timestamp (timestamp) timestamp | (int) timestamp | (string) timestamp
uint (uint) uint | (double) uint | (int) uint | (string) uint
contains .string(string) bool
endsWith .string(string) bool
startsWith .string(string) bool
matches (string, string) bool | .string(string) bool
getFullYear .timestamp() int | .timestamp(string) int
getMonth .timestamp() int | .timestamp(string) int
getDayOfYear .timestamp() int | .timestamp(string) int
getDayOfMonth .timestamp() int | .timestamp(string) int
getDate .timestamp() int | .timestamp(string) int
getDayOfWeek .timestamp() int | .timestamp(string) int
getHours .timestamp() int | .timestamp(string) int | .duration() int
getMinutes .timestamp() int | .timestamp(string) int | .duration() int
getSeconds .timestamp() int | .timestamp(string) int | .duration() int
getMilliseconds .timestamp() int | .timestamp(string) int | .duration() int
"""
_ORDERED: Final = """
(bool, bool) bool | (int, int) bool | (int, double) bool | (int, uint) bool | (uint, uint) bool | (uint, double) bool | (uint, int) bool
(double, double) bool | (double, int) bool | (double, uint) bool | (string, string) bool | (bytes, bytes) bool
(timestamp, timestamp) bool | (duration, duration) bool
"""
_EXTENSIONS: Final = """
indexOf .string(string) int | .string(string, int) int
lastIndexOf .string(string) int | .string(string, int) int
lowerAscii .string() string
upperAscii .string() string
replace .string(string, string) string | .string(string, string, int) string
split .string(string) list(string) | .string(string, int) list(string)
trim .string() string
strings.quote (string) string
join .list(string)() string | .list(string)(string) string
sets.contains (list(T), list(T)) bool
sets.equivalent (list(T), list(T)) bool
sets.intersects (list(T), list(T)) bool
slice .list(T)(int, int) list(T)
flatten .list(list(T))() list(T) | .list(dyn)(int) list(dyn)
lists.range (int) list(int)
reverse .list(T)() list(T)
distinct .list(T)() list(T)
optional.of (V) opt(V)
optional.ofNonZeroValue (V) opt(V)
optional.none () opt(V)
optional.unwrap (list(opt(V))) list(V)
unwrapOpt .list(opt(V))() list(V)
value .opt(V)() V
hasValue .opt(V)() bool
or .opt(V)(opt(V)) opt(V)
orValue .opt(V)(V) V
_?._ (dyn, string) opt(V)
_[?_] (list(V), int) opt(V) | (opt(list(V)), int) opt(V) | (map(K, V), K) opt(V) | (opt(map(K, V)), K) opt(V)
last .list(V)() opt(V)
first .list(V)() opt(V)
cel.@mapInsert (map(K, V), K, V) map(K, V) | (map(K, V), map(K, V)) map(K, V)
"""
_OURS: Final = """
format .string(list(dyn)) string
charAt .string(int) string
substring .string(int) string | .string(int, int) string
url (string) url
isURL (string) bool
getScheme .url() string
getHost .url() string
getHostname .url() string
getPort .url() string
getEscapedPath .url() string
getQuery .url() map(string, list(string))
find .string(string) string
findAll .string(string) list(string) | .string(string, int) list(string)
indexOf .list(A)(A) int
lastIndexOf .list(A)(A) int
quantity (string) quantity
isQuantity (string) bool
sign (quantity) int
isGreaterThan .quantity(quantity) bool | .semver(semver) bool
isLessThan .quantity(quantity) bool | .semver(semver) bool
compareTo .quantity(quantity) int | .semver(semver) int
asApproximateFloat .quantity() double
asInteger .quantity() int
isInteger .quantity() bool
add .quantity(quantity) quantity | .quantity(int) quantity
sub .quantity(quantity) quantity | .quantity(int) quantity
ip (string) ip | .cidr() ip
family .ip() int
ip.isCanonical (string) bool
isUnspecified .ip() bool
isLoopback .ip() bool
isLinkLocalMulticast .ip() bool
isLinkLocalUnicast .ip() bool
isGlobalUnicast .ip() bool
isIP (string) bool
string (ip) string | (cidr) string
cidr (string) cidr
containsIP .cidr(string) bool | .cidr(ip) bool
containsCIDR .cidr(string) bool | .cidr(cidr) bool
prefixLength .cidr() int
masked .cidr() cidr
isCIDR (string) bool
validate .format(string) opt(list(string))
format.named (string) opt(format)
semver (string) semver | (string, bool) semver
isSemver (string) bool | (string, bool) bool
major .semver() int
minor .semver() int
patch .semver() int
path .authorizer(string) pathCheck
group .authorizer(string) groupCheck
serviceAccount .authorizer(string, string) authorizer
resource .groupCheck(string) resourceCheck
subresource .resourceCheck(string) resourceCheck
namespace .resourceCheck(string) resourceCheck
name .resourceCheck(string) resourceCheck
fieldSelector .resourceCheck(string) resourceCheck
labelSelector .resourceCheck(string) resourceCheck
check .pathCheck(string) decision | .resourceCheck(string) decision
errored .decision() bool
error .decision() string
allowed .decision() bool
reason .decision() string
"""
FORMATS: Final = [
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
]
"""The named formats."""
_COMPARABLE: Final = ["int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"]
_SUMMABLE: Final = ["int", "uint", "double", "duration"]

_NAMED: Final[Mapping[str, CelType]] = {
    **{
        kind.kind: kind
        for kind in (kinds.BOOL, kinds.BYTES, kinds.DOUBLE, kinds.DURATION, kinds.DYN, kinds.INT, kinds.STRING)
    },
    "timestamp": kinds.TIMESTAMP,
    "uint": kinds.UINT,
    "quantity": kinds.struct("kubernetes.Quantity"),
    "url": kinds.struct("kubernetes.URL"),
    "semver": kinds.struct("kubernetes.Semver"),
    "format": kinds.struct("kubernetes.NamedFormat"),
    **{
        f"{name[0].lower()}{name[1:]}": kinds.struct(f"kubernetes.authorization.{name}")
        for name in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
    },
    "ip": kinds.opaque("net.IP"),
    "cidr": kinds.opaque("net.CIDR"),
}
TYPE_NAMES: Final[Mapping[str, CelType]] = {
    **{
        name: kinds.type_of(kind)
        for name, kind in _NAMED.items()
        if name in ["bool", "bytes", "double", "dyn", "int", "string", "uint"]
    },
    "list": kinds.type_of(kinds.list_of(kinds.DYN)),
    "map": kinds.type_of(kinds.map_of(kinds.DYN, kinds.DYN)),
    "null_type": kinds.type_of(kinds.NULL),
    "type": kinds.type_of(kinds.CelType("type")),
    "optional_type": kinds.type_of(kinds.optional_of(kinds.DYN)),
    "google.protobuf.Duration": kinds.type_of(kinds.DURATION),
    "google.protobuf.Timestamp": kinds.type_of(kinds.TIMESTAMP),
    "net.IP": kinds.type_of(_NAMED["ip"]),
    "net.CIDR": kinds.type_of(_NAMED["cidr"]),
}
"""The names of types as values, for `type(x) == int`."""

_MADE: Final[Mapping[str, Callable[[CelType], CelType]]] = {
    "list": kinds.list_of,
    "opt": kinds.optional_of,
    "type": kinds.type_of,
}
_TOKEN: Final = re.compile(r"[\w.]+|[(),]")


@cache
def functions() -> dict[str, list[Overload]]:
    """Return every function and operator with its overloads, in the order of their resolution."""
    found: dict[str, list[Overload]] = {}
    for text, own in ((_LANGUAGE, False), (_EXTENSIONS, False), (_OURS, True)):
        for line in text.strip().splitlines():
            name, _, rest = line.partition(" ")
            found.setdefault(name, []).extend(_overload(one, own=own) for one in rest.split(" | "))
    for operator in ("_<_", "_<=_", "_>_", "_>=_"):
        found[operator] = [
            _overload(one, own=False) for line in _ORDERED.strip().splitlines() for one in line.split(" | ")
        ]
    for name in FORMATS:
        found[f"format.{name}"] = [_overload("() format", own=True)]
    for name, over, own in (
        ("isSorted", _COMPARABLE, True),
        ("min", _COMPARABLE, True),
        ("max", _COMPARABLE, True),
        ("sum", _SUMMABLE, True),
    ):
        results = {"isSorted": "bool"}
        found[name] = [_overload(f".list({one})() {results.get(name, one)}", own=own) for one in over]
    found["sort"] = [_overload(f".list({one})() list({one})", own=False) for one in _COMPARABLE]
    found["@sortByAssociatedKeys"] = [_overload(f".list(T)(list({one})) list(T)", own=False) for one in _COMPARABLE]
    return found


def _overload(text: str, *, own: bool) -> Overload:
    """Read `(a, b) result` or `.receiver(a) result`."""
    words = _Words(text.removeprefix("."))
    receiver = [words.kind()] if text.startswith(".") else []
    args = words.kinds()
    return Overload((*receiver, *args), words.kind(), bool(receiver), own)


class _Words:
    """A reader of types in brackets."""

    def __init__(self, text: str) -> None:
        self._left = _TOKEN.findall(text)

    def kinds(self) -> list[CelType]:
        """Read a list of types in parentheses."""
        self._left.pop(0)
        found = []
        while self._left[0] != ")":
            found.append(self.kind())
            if self._left[0] == ",":
                self._left.pop(0)
        self._left.pop(0)
        return found

    def kind(self) -> CelType:
        """Read one type."""
        name = self._left.pop(0)
        match name:
            case "list" | "opt" | "type":
                (inner,) = self.kinds()
                return _MADE[name](inner)
            case "map":
                key, value = self.kinds()
                return kinds.map_of(key, value)
            case _:
                return kinds.param(name) if len(name) == 1 and name.isupper() else _NAMED[name]
