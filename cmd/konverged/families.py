"""The families that the daemon hosts: found by entry points, with their settings and their installation in a manager.

Guarantees: uses only the library's public API. A distribution with a broken family is one ConfigError that names the distribution.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import Distribution, EntryPoint, entry_points
from typing import Any, ClassVar, TypeVar

import msgspec
from pydantic import BaseModel, create_model

from konverge.crds import crd_manifests, declaration_of
from konverge.daemon.settings import Settings
from konverge.errors import ConfigError, UsageError
from konverge.families import GROUP, Family
from konverge.runtime import Manager, ManagerSettings

__all__ = [
    "DaemonSettings",
    "HostedFamily",
    "at_home",
    "check_kinds",
    "daemon_settings",
    "definitions_of",
    "discover",
    "install_families",
    "installed_settings",
    "left_out",
]

S = TypeVar("S", bound=BaseModel)


class HostedFamily(msgspec.Struct, frozen=True):
    """A family, and the distribution that it is installed from."""

    family: Family[Any]
    distribution: str

    @property
    def name(self) -> str:
        """The family's name."""
        return self.family.name

    def __str__(self) -> str:
        return f"the family {self.name} of {self.distribution}"


class DaemonSettings(Settings):
    """The settings of the daemon: the settings of every operator. `daemon_settings` adds a group for each family."""

    families: ClassVar[tuple[HostedFamily, ...]] = ()

    def of(self, family: Family[S]) -> S:
        """Return the settings of a family."""
        group: S = getattr(self, family.name)
        return group


def discover() -> tuple[HostedFamily, ...]:
    """Return the families of all installed distributions, by name.

    The kinds of a family that has a function for them are not imported: `check_kinds` compares these too.

    Errors: ConfigError if no family is installed, an import of a family fails, or two families have the same name or kind.
    """
    distribution_of = functools.cache(_distribution_text)  # most families are of one distribution
    hosted = []
    for entry in entry_points(group=GROUP):
        distribution = distribution_of(entry.dist)
        hosted.append(HostedFamily(_family_of(entry, distribution), distribution))
    if not hosted:
        raise ConfigError(
            "no installed distribution has a family, konverge itself included: its installation is not complete; install konverge again"
        )
    _check_unique("name", hosted, lambda family: [family.name])
    check_kinds([entry for entry in hosted if not callable(entry.family.kinds)])
    return tuple(sorted(hosted, key=lambda entry: entry.name))


def _distribution_text(distribution: Distribution | None) -> str:
    if distribution is None:
        return "an unknown distribution"
    metadata = distribution.metadata  # each access parses the file, the long description included
    return f"{metadata['Name']} {metadata['Version']}"


def _family_of(entry: EntryPoint, distribution: str) -> Family[Any]:
    place = f"the family {entry.name} of {distribution}"
    try:
        family = entry.load()
    except Exception as error:  # an import raises anything
        raise ConfigError(
            f"{place}: {entry.value} cannot be imported ({type(error).__name__}: {error}); repair the distribution, or uninstall it"
        ) from error
    if not isinstance(family, Family):
        raise ConfigError(
            f"{place}: {entry.value} is of type {type(family).__name__}; the entry point must name a konverge.families.Family"
        )
    if family.name != entry.name:
        raise ConfigError(f"{place}: its object has the name {family.name}; give both the same name")
    if family.name in Settings.model_fields or hasattr(DaemonSettings, family.name):
        raise ConfigError(f"{place}: {family.name} is a setting of every operator; choose another name")
    try:
        family.settings()
    except ValueError as error:
        problem = " ".join(str(error).split())
        raise ConfigError(f"{place}: the defaults of its settings are not valid; correct them: {problem}") from error
    return family


def check_kinds(hosted: Sequence[HostedFamily]) -> None:
    """Import the kinds of these families.

    Errors: ConfigError if an import fails, a class has no declaration, or two families have the same kind.
    """
    for entry in hosted:
        try:
            models = tuple(entry.family.models())
        except Exception as error:  # an import raises anything
            raise ConfigError(
                f"{entry}: its kinds cannot be imported ({type(error).__name__}: {error}); repair the distribution, or uninstall it"
            ) from error
        if undeclared := [model.__name__ for model in models if not hasattr(model, "__konverge_declaration__")]:
            raise ConfigError(f"{entry}: declare {', '.join(undeclared)} with @kv.resource, or remove it from `kinds`")
    _check_unique("kind", hosted, _kind_names)


def _kind_names(family: Family[Any]) -> list[str]:
    return list(dict.fromkeys(declaration_of(model).crd_name for model in family.models()))


def _check_unique(word: str, hosted: Sequence[HostedFamily], names_of: Callable[[Family[Any]], Iterable[str]]) -> None:
    owners: dict[str, HostedFamily] = {}
    for entry in hosted:
        for name in names_of(entry.family):
            if (other := owners.setdefault(name, entry)) is not entry:
                raise ConfigError(
                    f"{other} and {entry} have the same {word}, {name}: rename it in one family, or uninstall one distribution"
                )


@functools.cache
def daemon_settings(hosted: tuple[HostedFamily, ...]) -> type[DaemonSettings]:
    """Return the class of the daemon's settings with a group for each of these families."""
    groups: dict[str, Any] = {entry.name: (entry.family.settings, entry.family.settings()) for entry in hosted}
    composed: type[DaemonSettings] = create_model("DaemonSettings", __base__=DaemonSettings, **groups)
    composed.families = hosted
    return composed


def installed_settings() -> type[DaemonSettings]:
    """Return the class of the daemon's settings with the families of all installed distributions; raises ConfigError."""
    return daemon_settings(discover())


def at_home(settings: DaemonSettings, namespace: str) -> DaemonSettings:
    """Return settings with the operator's own namespace in each family that has none yet."""
    groups = {}
    for family in (hosted.family for hosted in settings.families if hosted.family.home):
        group = settings.of(family)
        groups[family.name] = group.model_copy(update={family.home: getattr(group, family.home) or namespace})
    return settings.model_copy(update=groups)


def definitions_of(
    family: Family[Any], settings: DaemonSettings, *, bundle: bytes = b"", plain: bool = False
) -> list[dict[str, Any]]:
    """Return the CustomResourceDefinitions of a family's kinds with these settings, sorted by name.

    `bundle` are the certificates of conversion webhooks; `plain` definitions have no webhook. Raises UsageError for a conversion without an
    address in the settings.
    """
    clients: dict[str, dict[str, Any]] = {}
    models = family.models()
    if not plain and len(_kind_names(family)) < len(models):
        manager = Manager("konverge", settings=ManagerSettings(webhooks=settings.webhooks))
        family.install(manager, settings.of(family))
        clients = manager.conversion_clients(bundle=bundle)
    manifests = crd_manifests(models, webhooks=clients)
    return manifests if family.definitions is None else family.definitions(manifests, settings.of(family))


def left_out(settings: Settings) -> tuple[str, ...]:
    """Return the families that cannot run in one namespace, if these settings name one."""
    if not (isinstance(settings, DaemonSettings) and settings.namespace):
        return ()
    return tuple(hosted.name for hosted in settings.families if hosted.family.cluster_wide)


def install_families(manager: Manager, settings: DaemonSettings) -> dict[str, tuple[str, ...]]:
    """Install all families; returns the names of the controllers and the background work of each, and the paths of its webhooks.

    A family that runs only by name is left out unless `controllers` chooses it. With one namespace a family of cluster-wide objects is
    left out.

    Errors: UsageError for a family of cluster-wide objects that was chosen by name in one namespace, and for families that clash;
    ConfigError for two families with the same kind.
    """
    without = left_out(settings)
    for name in without:
        if name in settings.controllers:
            raise UsageError(
                f"the family {name!r} reconciles cluster-wide objects: run it without --namespace "
                f"({settings.namespace!r} was given), or leave it out of --controllers"
            )
    names = {hosted.name for hosted in settings.families}
    if settings.controllers and names.issuperset(settings.controllers):
        names.intersection_update(settings.controllers)  # the modules of other families are not even imported
    names.difference_update(without)
    installed = [
        hosted
        for hosted in settings.families
        if hosted.name in names and (not hosted.family.by_name or _chosen(hosted, settings))
    ]
    check_kinds(installed)
    parts: dict[str, tuple[str, ...]] = {}
    for hosted in installed:
        before = _parts(manager)
        _install(manager, hosted, settings)
        parts[hosted.name] = tuple(part for part in _parts(manager) if part not in before)
    return parts


def _install(manager: Manager, hosted: HostedFamily, settings: DaemonSettings) -> None:
    try:
        hosted.family.install(manager, settings.of(hosted.family))
    except UsageError as error:
        rival = next((other for other in settings.families if _clash(other, hosted, settings)), None)
        if rival is None:
            raise
        raise UsageError(
            f"{hosted} cannot run beside {rival}: {error}. Rename it in one family, or uninstall one distribution"
        ) from error


def _clash(other: HostedFamily, hosted: HostedFamily, settings: DaemonSettings) -> bool:
    """Whether a family can be installed by itself, and not beside another."""
    if other.name == hosted.name:
        return False
    alone, both = Manager("konverge"), Manager("konverge")
    try:
        hosted.family.install(alone, settings.of(hosted.family))
        other.family.install(both, settings.of(other.family))
    except UsageError:
        return False
    try:
        hosted.family.install(both, settings.of(hosted.family))
    except UsageError:
        return True
    return False


def _chosen(hosted: HostedFamily, settings: DaemonSettings) -> bool:
    if not settings.controllers or hosted.name in settings.controllers:
        return hosted.name in settings.controllers
    alone = Manager("konverge")
    hosted.family.install(alone, settings.of(hosted.family))
    return not set(_parts(alone)).isdisjoint(settings.controllers)


def _parts(manager: Manager) -> tuple[str, ...]:
    controllers = (controller.name for controller in manager.controllers)
    webhooks = (webhook.path for webhook in manager.webhooks)
    return (*controllers, *webhooks, *(conversion.path for conversion in manager.conversions), *manager.background)
