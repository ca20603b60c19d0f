"""Which chart installs a version of Nextcloud.

`helm.version` wins over the map; a version is exact, an alias (stable, latest), or a prefix (33: the newest 33.x.y of the map).

Guarantees: pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["STABLE", "ResolvedChart", "VersionTable", "resolve"]

STABLE: Final = "stable"
"""The version of an instance that names none."""
_ALIASES: Final = frozenset({STABLE, "latest"})


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionTable:
    """Known versions with chart and image, and aliases of them."""

    charts: Mapping[str, str]
    images: Mapping[str, str]
    aliases: Mapping[str, str]
    fallback: str
    """The chart of a version that the table does not have."""


@dataclass(frozen=True, slots=True)
class ResolvedChart:
    """The chart, and the image or its tag if they differ from the chart's; `version` is "" if only the chart knows it."""

    chart: str
    version: str = ""
    image: str = ""
    tag: str = ""


def resolve(wanted: str, chart: str, table: VersionTable) -> ResolvedChart | None:
    """Return the chart of a version; None if the version is a prefix or alias that the table does not have."""
    version = _known(wanted or STABLE, table)
    if version:
        return ResolvedChart(chart or table.charts[version], version, table.images.get(version, ""))
    if not wanted or wanted in _ALIASES:
        return ResolvedChart(chart or table.fallback)
    if wanted.count(".") >= 2:
        return ResolvedChart(chart or table.fallback, wanted, tag=wanted)
    return ResolvedChart(chart) if chart else None


def _known(wanted: str, table: VersionTable) -> str:
    version = table.aliases.get(wanted, wanted)
    if version in table.charts:
        return version
    prefix = "" if version in _ALIASES else f"{version}."
    return max((known for known in table.charts if known.startswith(prefix)), key=_order, default="")


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in version.split("."))
