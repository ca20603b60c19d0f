"""Versions of charts: exact SemVer 2.0.0, with the leading `v` that some charts carry.

Guarantees: `parse` accepts exact versions only, no ranges. `same` tells whether a chart version that Flux reports is the desired version;
for OCI charts build metadata is ignored on both sides, because Flux appends `+<digest>` (docs/reference/flux.md#freshness).
Ordering is SemVer precedence (https://semver.org/#spec-item-11).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import total_ordering

__all__ = ["VersionRange", "ChartVersion", "parse", "same"]

_NUMBER = r"(?:0|[1-9][0-9]*)"
_WORD = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION = re.compile(
    rf"^v?(?P<major>{_NUMBER})\.(?P<minor>{_NUMBER})\.(?P<patch>{_NUMBER})"
    rf"(?:-(?P<pre>{_WORD}(?:\.{_WORD})*))?(?:\+(?P<build>[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?$"
)


@total_ordering
@dataclass(frozen=True, slots=True)
class ChartVersion:
    """A parsed version; comparisons follow SemVer precedence, which ignores build metadata.

    >>> parse("1.10.0") > parse("1.9.0"), parse("1.0.0-rc.1") < parse("1.0.0")
    (True, True)
    """

    major: int
    minor: int
    patch: int
    pre: tuple[str, ...] = ()
    build: str = ""

    @property
    def precedence(self) -> tuple[object, ...]:
        """The sort key of SemVer: a release is above its pre-releases, numbers are below words."""
        words = tuple((0, int(word), "") if word.isdigit() else (1, 0, word) for word in self.pre)
        return (self.major, self.minor, self.patch, not self.pre, words)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChartVersion) and self.precedence == other.precedence

    def __lt__(self, other: ChartVersion) -> bool:
        return self.precedence < other.precedence

    def __hash__(self) -> int:
        return hash(self.precedence)


def parse(text: str) -> ChartVersion:
    """Parse an exact version; raises ValueError for anything else, ranges included.

    >>> parse("v1.2.3+build").build
    'build'
    """
    match = _VERSION.match(text) if len(text) <= 256 else None
    if match is None:
        raise ValueError(f"{text!r} is no exact version; write MAJOR.MINOR.PATCH, for instance 1.2.3")
    pre = tuple(match["pre"].split(".")) if match["pre"] else ()
    return ChartVersion(int(match["major"]), int(match["minor"]), int(match["patch"]), pre, match["build"] or "")


def same(reported: str, desired: str, *, ignore_build: bool) -> bool:
    """Tell whether a reported chart version is the desired version; versions that are not SemVer are compared as text.

    >>> same("1.1.0+c87b47444f34", "1.1.0", ignore_build=True), same("1.1.0+a", "1.1.0", ignore_build=False)
    (True, False)
    """
    try:
        left, right = parse(reported), parse(desired)
    except ValueError:
        return reported == desired
    return left == right and (ignore_build or left.build == right.build)


_COMPARATORS: dict[str, Callable[[ChartVersion, ChartVersion], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
}


@dataclass(frozen=True, slots=True)
class VersionRange:
    """A set of versions: comparators joined by spaces, all of which must hold; a bare version means `=`.

    >>> VersionRange.parse(">=1.0.0 <1.2.0").holds(parse("1.1.9"))
    True
    """

    text: str
    comparators: tuple[tuple[str, ChartVersion], ...]

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        """Parse a range; raises ValueError with the part that could not be parsed."""
        comparators = []
        for part in text.split():
            sign = next((sign for sign in _COMPARATORS if part.startswith(sign)), "")
            comparators.append((sign or "=", parse(part.removeprefix(sign))))
        if not comparators:
            raise ValueError("an empty range of versions; write for instance 1.2.0 or >=1.0.0 <1.2.0")
        return cls(text, tuple(comparators))

    def holds(self, version: ChartVersion) -> bool:
        """Tell whether the range contains the version."""
        return all(_COMPARATORS[sign](version, bound) for sign, bound in self.comparators)
