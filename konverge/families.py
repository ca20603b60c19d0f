"""A family: kinds, reconcilers and settings that plug into the daemon by an entry point.

    [project.entry-points."konverge.families"]
    gardens = "acme_gardens.family:FAMILY"

`konverge run` hosts every installed family; `config`, `crds`, `rbac`, `webhooks` and `chart` include it. The guide:
docs/guide/families.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec
from pydantic import BaseModel

from konverge.errors import UsageError

if TYPE_CHECKING:
    from konverge.crds import CustomResource
    from konverge.runtime import Manager

__all__ = ["GROUP", "Family", "FamilyChart"]

GROUP: Final = "konverge.families"
"""The group of entry points that name families."""

_NAME: Final = re.compile(r"[a-z][a-z0-9]{0,30}")
_RESERVED: Final = frozenset({"daemon", "operator"})
"""Parts of every chart."""

S = TypeVar("S", bound=BaseModel)

Definitions = list[dict[str, Any]]


class FamilyChart(msgspec.Struct, frozen=True, kw_only=True):
    """The family's part of the daemon's Helm chart, beside the definitions, rules and webhooks, which follow from its controllers."""

    folder: Path | None = None
    """A folder with any of these files: `values.yaml` (the family's values, `enabled` among them), `values.schema.json` (the JSON schemas
    of values other than `enabled`, by name), `alerts.yaml` (groups of Prometheus), `dashboard.json` (of Grafana), and `templates/*.yaml`.
    Without `values.yaml` the family has the value `enabled: false`."""
    namespaces: str = ""
    """The setting with the namespace of most rules of the family; the chart writes these rules as Roles."""
    unwatched: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Settings that keep the family from watching Secrets; the chart then has the rules to watch Secrets in a file of their own."""
    options: Mapping[str, Mapping[str, Any]] = msgspec.field(default_factory=dict)
    """Settings that take more rules in `namespaces`, by the name of the file with these rules."""
    by_values: tuple[str, ...] = ()
    """Further settings that values of the family set; `settings` of the chart does not take them."""

    def text(self, name: str) -> str:
        """Return the content of a file of the folder; "" for a missing file."""
        path = None if self.folder is None else self.folder / name
        return path.read_text(encoding="utf-8") if path is not None and path.is_file() else ""


class Family(msgspec.Struct, Generic[S], frozen=True, kw_only=True, eq=False):
    """Kinds, reconcilers and settings that the daemon hosts under one name.

    Guarantees: the daemon creates the settings from its own sources, under the family's name, and calls `install` once for each manager.

    Caveats: the module of the object is imported at the start of each command that considers families; it should start nothing.

    Errors: UsageError for a name that cannot be a group of settings, and for settings that have a required field.

    >>> class GardenSettings(BaseModel):
    ...     beds: int = 3
    >>> family = Family(name="gardens", summary="Gardens", settings=GardenSettings, install=lambda manager, settings: None)
    >>> family.settings().beds
    3
    """

    name: str
    """The name in `--controllers`, in settings (`gardens.beds`, KONVERGE_GARDENS__BEDS) and in values of the chart: lower case letters and
    digits."""
    summary: str
    """The purpose in one line."""
    settings: type[S]
    """A pydantic model with a default for every field."""
    install: Callable[[Manager, S], None]
    """Adds the controllers, webhooks and background work to a manager that was not started."""
    kinds: tuple[type[CustomResource[Any, Any]], ...] | Callable[[], tuple[type[CustomResource[Any, Any]], ...]] = ()
    """The kinds of the family, also kinds without a controller. A function keeps their modules out of the imports of a daemon without
    the family."""
    documentation: str = ""
    """The page about the family: a URL. konverge's own families name a file of the repository."""
    cluster_wide: bool = False
    """Reconciles cluster-scoped objects: with `--namespace` the family does not run."""
    by_name: bool = False
    """Runs only if `controllers` names the family or a controller of it, for instance since it needs another product."""
    home: str = ""
    """The setting with the operator's own namespace, whose default is empty; `rbac --service-account` and the chart fill it in."""
    definitions: Callable[[Iterable[Mapping[str, Any]], S], Definitions] | None = None
    """Adapts CustomResourceDefinitions of `kinds` to settings, for instance their columns."""
    chart: FamilyChart = FamilyChart()
    samples: Path | None = None
    """A YAML file of objects for `konverge demo`."""

    def models(self) -> tuple[type[CustomResource[Any, Any]], ...]:
        """Return the classes of `kinds`."""
        return self.kinds() if callable(self.kinds) else self.kinds

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name in _RESERVED:
            raise UsageError(
                f"family {self.name!r}: use lower case letters and digits, beginning with a letter, at most 31, "
                f"and none of {', '.join(sorted(_RESERVED))}"
            )
        if required := [name for name, info in self.settings.model_fields.items() if info.is_required()]:
            raise UsageError(f"family {self.name}: give the settings {', '.join(required)} a default")
