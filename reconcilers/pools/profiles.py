"""Profiles: their merge with a spec, and the digest that reveals a change of them; the same for other specs below a spec. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

__all__ = ["beneath", "beside", "merge", "profile_digest"]


def merge(defaults: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults with everything of `over` on them; maps are merged at every level, all else is replaced.

    >>> merge({"s3": {"enabled": True, "bucket": "a"}, "apps": ["x"]}, {"s3": {"bucket": "b"}, "apps": ["y"]})
    {'s3': {'enabled': True, 'bucket': 'b'}, 'apps': ['y']}
    """
    fields = dict(defaults)
    for name, value in over.items():
        stored = fields.get(name)
        fields[name] = merge(stored, value) if isinstance(stored, Mapping) and isinstance(value, Mapping) else value
    return fields


def beneath(spec: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a spec that `merge` with `over` replaces.

    >>> beneath({"s3": {"enabled": True, "bucket": "a"}, "apps": ["x"]}, {"s3": {"bucket": "b"}, "replicas": 1})
    {'s3': {'bucket': 'a'}}
    """
    fields: dict[str, Any] = {}
    for name, value in over.items():
        stored = spec.get(name)
        if isinstance(stored, Mapping) and isinstance(value, Mapping):
            inner = beneath(stored, value)
            if inner:
                fields[name] = inner
        elif stored is not None:
            fields[name] = stored
    return fields


def beside(spec: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a spec that `merge` with `over` leaves as it is.

    >>> beside({"s3": {"enabled": True, "bucket": "a"}, "apps": ["x"]}, {"s3": {"bucket": "b"}, "replicas": 1})
    {'s3': {'enabled': True}, 'apps': ['x']}
    """
    fields: dict[str, Any] = {}
    for name, stored in spec.items():
        value = over.get(name)
        if name not in over:
            fields[name] = stored
        elif isinstance(stored, Mapping) and isinstance(value, Mapping):
            inner = beside(stored, value)
            if inner:
                fields[name] = inner
    return fields


def profile_digest(name: str, defaults: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a profile, the same for any order of its fields; "" without a profile.

    A Secret that the profile names is not part of it: its rotation is not noticed.

    >>> profile_digest("a", {"x": 1, "y": 2}) == profile_digest("a", {"y": 2, "x": 1})
    True
    >>> profile_digest("a", {}) == profile_digest("b", {}), profile_digest("", {})
    (False, '')
    """
    if not name:
        return ""
    text = msgspec.json.encode({"name": name, "defaults": defaults}, order="deterministic")
    return hashlib.sha256(text).hexdigest()
