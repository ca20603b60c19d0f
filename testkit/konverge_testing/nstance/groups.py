"""The groups of one tenant on a shard: static groups of the configuration, dynamic groups of the operator, and how they merge.

Pure: every change returns the event that the server would send. The rules are those of docs/reference/machines.md#groups.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

__all__ = ["GroupRefused", "GroupSpec", "GroupStore", "Merged", "Template"]


class GroupRefused(Exception):
    """A change that the configuration forbids; the server returns INTERNAL for it."""


@dataclass(frozen=True, slots=True)
class Template:
    """A template of the configuration; without a subnet pool each group has to name one."""

    subnet_pool: str = ""


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """The settings of a group, as the configuration or the operator writes them; empty: not set."""

    template: str = ""
    size: int = 0
    instance_type: str = ""
    subnet_pool: str = ""
    vars: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Merged:
    """A group as the server shows it."""

    key: str
    spec: GroupSpec
    is_static: bool

    @property
    def etag(self) -> str:
        """A hash of the settings, independent of the instances."""
        shown = self.spec
        words = [
            self.key,
            shown.template,
            shown.size,
            shown.instance_type,
            shown.subnet_pool,
            sorted(shown.vars.items()),
        ]
        return hashlib.md5(json.dumps([*words, self.is_static]).encode(), usedforsecurity=False).hexdigest()


@dataclass
class GroupStore:
    """The groups of one tenant, with the templates and subnet pools that they may name."""

    templates: dict[str, Template] = field(default_factory=dict)
    subnet_pools: set[str] = field(default_factory=set)
    static: dict[str, GroupSpec] = field(default_factory=dict)
    dynamic: dict[str, GroupSpec] = field(default_factory=dict)

    def all(self) -> Iterator[Merged]:
        """Return all groups, sorted by key."""
        for key in sorted({*self.static, *self.dynamic}):
            result = self.get(key)
            assert result is not None
            yield result

    def get(self, key: str) -> Merged | None:
        """Return a group as the server shows it; None if there is none."""
        static, dynamic = self.static.get(key), self.dynamic.get(key)
        if static is None:
            return None if dynamic is None else Merged(key, dynamic, is_static=False)
        if dynamic is None:
            return Merged(key, static, is_static=True)
        merged = replace(
            static,
            size=dynamic.size,
            instance_type=dynamic.instance_type or static.instance_type,
            vars={**static.vars, **dynamic.vars},
        )
        return Merged(key, merged, is_static=True)

    def upsert(self, key: str, wanted: GroupSpec) -> Merged:
        """Merge the operator's settings into a group, and return the group."""
        known = self.dynamic.get(key)
        if key in self.static:
            self._check_static(key, wanted)
        elif known is None:
            wanted = self._new(key, wanted)
        else:
            self._check_names(wanted)
        old = GroupSpec() if known is None else known
        self.dynamic[key] = GroupSpec(
            template=wanted.template or old.template,
            size=wanted.size,
            instance_type=wanted.instance_type or old.instance_type,
            subnet_pool=wanted.subnet_pool or old.subnet_pool,
            vars={**old.vars, **wanted.vars},
        )
        result = self.get(key)
        assert result is not None
        return result

    def delete(self, key: str) -> Merged | None:
        """Remove the operator's settings; return the static part of the group."""
        self.dynamic.pop(key, None)
        return self.get(key)

    def _check_static(self, key: str, wanted: GroupSpec) -> None:
        if wanted.template and wanted.template != self.static[key].template:
            raise GroupRefused(f'cannot override template for static group "{key}"')
        if wanted.subnet_pool:
            raise GroupRefused(f'cannot override subnet pool for static group "{key}"')

    def _check_names(self, wanted: GroupSpec) -> None:
        if wanted.template and wanted.template not in self.templates:
            raise GroupRefused(f'template "{wanted.template}" not found')
        if wanted.subnet_pool and wanted.subnet_pool not in self.subnet_pools:
            raise GroupRefused(f'subnet pool "{wanted.subnet_pool}" not found')

    def _new(self, key: str, wanted: GroupSpec) -> GroupSpec:
        if not wanted.template:
            raise GroupRefused(f'template is required for new group "{key}"')
        self._check_names(wanted)
        pool = wanted.subnet_pool or self.templates[wanted.template].subnet_pool
        if not pool:
            raise GroupRefused(f'template "{wanted.template}" has no subnet pool configured')
        return replace(wanted, subnet_pool=pool)
