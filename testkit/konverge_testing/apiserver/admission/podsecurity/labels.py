"""The policy of a namespace, read from its labels. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from konverge_testing.apiserver.statuses import FieldError

__all__ = ["LEVELS", "Policy", "Standard", "policy_of"]

LEVELS: Final = ("privileged", "baseline", "restricted")
"""From the least to the most strict."""
_PREFIX: Final = "pod-security.kubernetes.io/"
_VERSION: Final = re.compile(r"v1\.(0|[1-9][0-9]*)")

Minor: TypeAlias = int | None
"""The minor version of a policy; None is the latest."""


@dataclass(frozen=True, slots=True)
class Standard:
    """A level in the form of one version of Kubernetes."""

    level: str = "privileged"
    minor: Minor = None

    def __str__(self) -> str:
        return f"{self.level}:{'latest' if self.minor is None else f'v1.{self.minor}'}"


@dataclass(frozen=True, slots=True)
class Policy:
    """The standards of a namespace."""

    enforce: Standard = Standard()
    audit: Standard = Standard()
    warn: Standard = Standard()
    errors: tuple[FieldError, ...] = ()
    """Errors of the labels."""


UNLABELLED: Final = Policy()


def policy_of(labels: Mapping[str, str]) -> Policy:
    """Return the policy of the labels: an invalid level counts as restricted in enforce, and as privileged in audit and warn."""
    if not any(key.startswith(_PREFIX) for key in labels):
        return UNLABELLED
    errors: list[FieldError] = []
    enforce = _standard(labels, "enforce", "restricted", errors)
    audit = _standard(labels, "audit", "privileged", errors)
    warn = _standard(labels, "warn", "privileged", errors)
    # Without a warn label, warn equals enforce.
    if f"{_PREFIX}warn" not in labels and labels.get(f"{_PREFIX}enforce") in LEVELS[1:]:
        warn = Standard(enforce.level, warn.minor if f"{_PREFIX}warn-version" in labels else enforce.minor)
    return Policy(enforce, audit, warn, tuple(errors))


def _standard(labels: Mapping[str, str], mode: str, otherwise: str, errors: list[FieldError]) -> Standard:
    level, version = labels.get(_PREFIX + mode, "privileged"), labels.get(f"{_PREFIX}{mode}-version", "latest")
    if level not in LEVELS:
        errors.append(_wrong(mode, level, f"must be one of {', '.join(LEVELS)}"))
        level = otherwise
    found = _VERSION.fullmatch(version)
    if found is None and version != "latest":
        errors.append(_wrong(f"{mode}-version", version, 'must be "latest" or "v1.x"'))
    return Standard(level, None if found is None else int(found[1]))


def _wrong(name: str, value: str, why: str) -> FieldError:
    return FieldError("Invalid", f"metadata.labels[{_PREFIX}{name}]", value, why)
