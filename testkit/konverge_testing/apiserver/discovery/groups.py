"""The served groups, versions and resources in discovery's order.

Guarantees: pure. Built-in groups keep the given order, then follow the groups of CustomResourceDefinitions by name. The
versions of a custom group are sorted as Kubernetes sorts versions (GA before beta before alpha, newer first:
k8s.io/apimachinery `pkg/version/helpers.go`), their resources by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from konverge_testing.apiserver.resources import Resource, Version

__all__ = ["Group", "Served", "groups", "version_rank"]

_VERSION: Final = re.compile(r"^v(\d+)(?:(alpha|beta)(\d+))?$")
_STAGE: Final = {None: 0, "beta": 1, "alpha": 2}


@dataclass(frozen=True, slots=True)
class Served:
    """A resource in one of its versions."""

    resource: Resource
    version: Version


@dataclass(slots=True)
class Group:
    """A group with its versions, the preferred one first."""

    name: str
    versions: dict[str, list[Served]] = field(default_factory=dict)

    def api_version(self, version: str) -> str:
        """Return `group/version`, or only the version in the core group."""
        return f"{self.name}/{version}" if self.name else version


def version_rank(name: str) -> tuple[int, int, int, int, str]:
    """Return a sort key that puts the preferred version first; names outside Kubernetes' version pattern are last, by
    name.

    >>> sorted(["v1alpha1", "foo", "v2beta1", "v1", "v11", "v2"], key=version_rank)
    ['v11', 'v2', 'v1', 'v2beta1', 'v1alpha1', 'foo']
    """
    found = _VERSION.match(name)
    if found is None:
        return (1, 0, 0, 0, name)
    return (0, _STAGE[found[2]], -int(found[1]), -int(found[3] or 0), name)


def groups(resources: Sequence[Resource]) -> dict[str, Group]:
    """Return the groups by name, in discovery's order."""
    found: dict[str, Group] = {}
    _collect(found, (resource for resource in resources if not resource.custom))
    custom = sorted((resource for resource in resources if resource.custom), key=lambda each: (each.group, each.plural))
    touched = _collect(found, custom)
    for name in touched:
        versions = found[name].versions
        found[name].versions = {version: versions[version] for version in sorted(versions, key=version_rank)}
    return found


def _collect(found: dict[str, Group], resources: Iterable[Resource]) -> set[str]:
    touched = set()
    for resource in resources:
        for version in resource.versions:
            if version.served:
                group = found.setdefault(resource.group, Group(resource.group))
                group.versions.setdefault(version.name, []).append(Served(resource, version))
                touched.add(resource.group)
    return touched
