"""The semver library: versions as blang/semver reads them.

Guarantees: pure. A version is passed through rules as its text without build metadata, so that equal versions are equal. Source:
k8s.io/apiserver `pkg/cel/library/semverlib.go`; messages of github.com/blang/semver.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache, total_ordering
from typing import Final

__all__ = ["BadVersion", "SemanticVersion", "parse"]

_WORD: Final = re.compile(r"[0-9A-Za-z-]+")


class BadVersion(ValueError):
    """The text is not a version; the message is the server's."""


@total_ordering
@dataclass(frozen=True, slots=True, eq=True)
class SemanticVersion:
    """A version; a pre-release sorts before its release."""

    major: int
    minor: int
    patch: int
    pre: tuple[int | str, ...] = ()

    def __str__(self) -> str:
        text = f"{self.major}.{self.minor}.{self.patch}"
        return f"{text}-{'.'.join(map(str, self.pre))}" if self.pre else text

    def __lt__(self, other: SemanticVersion) -> bool:
        return self._rank < other._rank

    @property
    def _rank(self) -> tuple[object, ...]:
        pre = tuple((0, one, "") if isinstance(one, int) else (1, 0, one) for one in self.pre)
        return self.major, self.minor, self.patch, not self.pre, pre


@lru_cache(maxsize=1024)
def parse(text: str, normalize: bool = False) -> SemanticVersion:
    """Read a version; `normalize` forgives a leading v, leading zeros and missing parts."""
    if normalize:
        text = _normalized(text)
    if not text:
        raise BadVersion("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise BadVersion("No Major.Minor.Patch elements found")
    rest, _, build = parts[2].partition("+")
    patch, dash, pre = rest.partition("-")
    major, minor, last = (
        _number(word, what) for word, what in ((parts[0], "Major"), (parts[1], "Minor"), (patch, "Patch"))
    )
    words = tuple(_pre(word) for word in pre.split(".")) if dash else ()
    if "+" in parts[2]:
        for word in build.split("."):
            if not word:
                raise BadVersion("Build meta data is empty")
            if not _WORD.fullmatch(word):
                raise BadVersion(f"Invalid character(s) found in build meta data {json.dumps(word)}")
    return SemanticVersion(major, minor, last, words)


def _number(word: str, what: str) -> int:
    if not re.fullmatch(r"[0-9]*", word):
        raise BadVersion(f"Invalid character(s) found in {what.lower()} number {json.dumps(word)}")
    if len(word) > 1 and word[0] == "0":
        raise BadVersion(f"{what} number must not contain leading zeroes {json.dumps(word)}")
    if not word:
        raise BadVersion('strconv.ParseUint: parsing "": invalid syntax')
    return int(word)


def _pre(word: str) -> int | str:
    if not word:
        raise BadVersion("Prerelease is empty")
    if word.isdigit() and word.isascii():
        if len(word) > 1 and word[0] == "0":
            raise BadVersion(f"Numeric PreRelease version must not contain leading zeroes {json.dumps(word)}")
        return int(word)
    if not _WORD.fullmatch(word):
        raise BadVersion(f"Invalid character(s) found in prerelease {json.dumps(word)}")
    return word


def _normalized(text: str) -> str:
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            bare = part.lstrip("0")
            parts[index] = bare if bare[:1].isdigit() else f"0{bare}"
    if len(parts) < 3 and any(char in parts[-1] for char in "+-"):
        raise BadVersion("short version cannot contain PreRelease/Build meta data")
    return ".".join(parts + ["0"] * (3 - len(parts)))
