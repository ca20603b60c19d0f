"""`konverge chart`: a Helm chart of our own daemon, or of a user's operator."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from konverge.daemon.options import chosen_build, target_argument
from konverge.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from konverge.charts import OperatorChart, Part, Rules
    from konverge.daemon.programs import Build
    from konverge.daemon.settings import Settings
    from konverge.runtime import Rule

__all__ = ["chart", "chart_of", "own_chart_data", "settings_schema"]

_SERVICE = "namespace/name"  # the chart fills in both
_MOUNTED = "/mounted"
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LONGEST_NAME = 53
"""As for a Helm release: the names of objects are longer than the chart's."""
_NUMBER = r"(?:0|[1-9][0-9]*)"
_PRE = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_SEMVER = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_PRE}(?:\.{_PRE})*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_HOME = "the-operators-own"
"""The placeholder for the operator's namespace, which is the namespace of the release."""
_LISTED = "the-listed"
"""The placeholder for each namespace that a list of the chart's values names."""
_LISTED_BY = {"pools": "instance_namespace", "workspaces": "namespace"}
"""The setting of a family that names one of these namespaces."""
OF_THE_CHART = frozenset(
    {
        *("kubeconfig", "context", "service_account", "namespace", "controllers", "health"),
        *("metrics", "metrics_secure", "metrics_certificates"),
        *("apps.namespace", "clusters.namespace", "machines.namespace", "workspaces.namespace", "pools.namespaces"),
        *(f"election.{name}" for name in ("enabled", "name", "namespace", "identity")),
        *(f"sharding.{name}" for name in ("mode", "ring", "namespace")),
        *(f"webhooks.{name}" for name in ("address", "service", "url", "certificates", "secret", "configuration")),
    }
)
"""Settings that other values of the chart set, or that a pod has no use for."""


@click.command()
@target_argument
@click.option("--output", "-o", metavar="DIR", default=None, help="The folder to write; without, the chart's name.")
@click.option("--name", metavar="NAME", default=None, help="The chart's name; without, the operator's.")
@click.option("--version", "version", metavar="VERSION", default="0.1.0", show_default=True, help="Its version.")
@click.option("--app-version", metavar="TAG", default=None, help="The tag of the operator's image; without, VERSION.")
def chart(target: str | None, output: str | None, name: str | None, version: str, app_version: str | None) -> None:
    """Write a Helm chart.

    With MODULE:BUILD the chart of your operator: your controllers give its definitions, rights and webhooks, our own chart gives the rest
    (a Deployment, probes, monitors, alerts, network policy). Without MODULE:BUILD our own chart. Writing again into the same folder
    replaces only the files of the chart, so that `git diff` shows the effect of a change to your controllers. `konverge chart
    backup_operator:build -o chart && helm install backup-operator chart` installs it.
    """
    from konverge.charts import chart_files, own_chart

    for problem in problems_of(name, version, app_version):
        raise click.UsageError(problem)
    operator, build = chosen_build(target)
    if build is None:
        files = own_chart()
    else:
        try:
            content = asyncio.run(
                chart_of(build, name or operator, operator, target or "", version, app_version or version)
            )
        except UsageError as error:
            raise click.UsageError(str(error)) from error
        files = chart_files(content)
    folder = Path(output or name or operator)
    try:
        write(folder, files)
    except OSError as error:
        raise click.ClickException(f"{folder}: {error.strerror or error}") from error
    click.echo(f"{folder}: {len(files)} files")


def problems_of(name: str | None, version: str, app_version: str | None) -> Iterator[str]:
    """Return what Helm, or the objects of the chart, would refuse of these names.

    https://helm.sh/docs/chart_best_practices/conventions/, https://semver.org
    """
    if name is not None and (len(name) > _LONGEST_NAME or not _NAME.fullmatch(name)):
        yield (
            f"--name {name!r}: write lower case letters, digits and dashes, beginning with a letter, at most {_LONGEST_NAME} characters: "
            "it is part of the names of objects"
        )
    if not _SEMVER.fullmatch(version):
        yield f"--version {version!r}: Helm takes a version of SemVer 2, for instance 1.4.0 or 1.4.0-rc.1"
    if app_version is not None and not _TAG.fullmatch(app_version):
        yield f"--app-version {app_version!r}: it is the tag of an image, of letters, digits, '.', '_' and '-'"
    if app_version is None and "+" in version:
        yield f"--version {version!r}: the tag of an image has no '+'; add --app-version"


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write a chart, and remove generated files that it no longer has. Raises OSError, also for a folder that holds something else."""
    if folder.exists() and any(folder.iterdir()) and not (folder / "Chart.yaml").is_file():
        raise FileExistsError(0, "the folder is not empty and holds no chart; name another one with -o")
    for path in folder.glob("files/*/*"):
        if path.relative_to(folder).as_posix() not in files:
            path.unlink()
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


async def chart_of(
    build: Build, name: str, manager: str, target: str, version: str = "0.1.0", app_version: str = "0.1.0"
) -> OperatorChart:
    """Return the chart of a user's operator."""
    from konverge.charts import OperatorChart
    from konverge.daemon.settings import Settings

    return OperatorChart(
        name=name,
        version=version,
        app_version=app_version,
        description=f"The operator {manager}: its definitions, rights, alerts and dashboard",
        manager=manager,
        parts=(await part_of("operator", build, Settings()),),
        settings=settings_schema(Settings),
        arguments=("run", target),
    )


async def own_chart_data(version: str, app_version: str, description: str) -> OperatorChart:
    """Return the chart of our own daemon: a part for each family."""
    from konverge.charts import OperatorChart
    from konverge.daemon.families import DaemonSettings, families, left_out
    from konverge.daemon.programs import NAME

    names = list(families(DaemonSettings()))
    return OperatorChart(
        name=NAME,
        version=version,
        app_version=app_version,
        description=description,
        manager=NAME,
        parts=tuple([await _family(name) for name in names]),
        cluster_wide=left_out(DaemonSettings(namespace="one")),
        settings=settings_schema(DaemonSettings),
    )


async def _family(name: str) -> Part:
    """Return the part of one of our families, with a variant for each of its semantics."""
    from konverge.daemon.config import leaves
    from konverge.daemon.families import DaemonSettings

    own = await part_of(name, None, DaemonSettings(controllers=(name,)))
    choices = [leaf for leaf in leaves(DaemonSettings) if leaf.path == f"{name}.semantics"]
    others = [value for leaf in choices for value in get_args(leaf.annotation) if value != leaf.default]
    variants = {}
    for value in others:
        chosen: dict[str, Any] = {"controllers": (name,), name: {"semantics": value}}
        variants[value] = await part_of(name, None, DaemonSettings(**chosen))
    return replace(own, variants=variants)


async def part_of(name: str, build: Build | None, settings: Settings) -> Part:
    """Return the definitions, rules and webhooks of the controllers that these settings choose."""
    from konverge.charts import Part, user_rules
    from konverge.crds import crd_manifests
    from konverge.crds.resource import declaration_of
    from konverge.daemon.engine import manager_settings
    from konverge.daemon.families import DaemonSettings
    from konverge.daemon.programs import fill
    from konverge.reconcilers import machines, pools, quota
    from konverge.runtime import Manager

    served = _changed(settings, {"webhooks": {"service": _SERVICE}})
    manager = Manager(name, settings=manager_settings(served))
    await fill(manager, build, served)
    parts: list[Any] = [*manager.controllers, *manager.webhooks]
    models = [part.model for part in parts]
    declared = dict.fromkeys(model for model in models if hasattr(model, "__konverge_declaration__"))
    if isinstance(settings, DaemonSettings):
        others = {"pools": pools.OTHER_KINDS, "machines": machines.OTHER_KINDS}
        declared |= dict.fromkeys(model for family in settings.controllers for model in others.get(family, ()))
    definitions = crd_manifests(declared)
    if isinstance(settings, DaemonSettings):
        definitions = quota.definitions(definitions, settings.quota)
    configurations = {
        configuration["kind"]: _paths_alone(configuration["webhooks"])
        for configuration in manager.webhook_configurations()
    }
    return Part(
        name=name,
        rules=await _rules(name, build, settings),
        definitions=tuple(definitions),
        mutating=configurations.get("MutatingWebhookConfiguration", ()),
        validating=configurations.get("ValidatingWebhookConfiguration", ()),
        users=user_rules(declaration_of(model) for model in declared),
    )


def _paths_alone(entries: list[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Return webhooks without the Service, which the chart fills in."""
    return tuple(
        {**entry, "clientConfig": {"service": {"path": entry["clientConfig"]["service"]["path"]}}} for entry in entries
    )


async def _rules(name: str, build: Build | None, settings: Settings) -> Rules:
    from konverge.charts import Rules, difference
    from konverge.runtime.admission.settings import IN_PROCESS
    from konverge.runtime.election.rights import rules_of_election
    from konverge.runtime.election.settings import ElectionSettings

    group = getattr(settings, name, None)
    at_home = {"namespace": _HOME} if hasattr(group, "namespace") else {}
    if name in _LISTED_BY:
        at_home = {_LISTED_BY[name]: _LISTED}
    seeing: dict[str, Any] = {name: at_home} if at_home else {}
    blind = {name: {**at_home, "watch_secrets": False}} if hasattr(group, "watch_secrets") else seeing

    async def needed(changes: Mapping[str, Any], place: str = "") -> list[dict[str, Any]]:
        rules = await _rules_with(build, _changed(settings, {**seeing, **changes}), name)
        # The certificates name another namespace, which the chart fills in.
        return [
            rule.to_dict() for rule in rules if (rule.namespace if rule.namespace in (_HOME, _LISTED) else "") == place
        ]

    # All of them: what the controllers may do with Leases holds in the watched namespace, and this Lease is in the chart's own.
    lease = rules_of_election(ElectionSettings(enabled=True), name)
    unserved = {"webhooks": {"address": IN_PROCESS}}
    always = await needed({**blind, **unserved})
    mounted = await needed({**blind, "webhooks": {"service": _SERVICE, "certificates": _MOUNTED}})
    self_made = await needed({**blind, "webhooks": {"service": _SERVICE}})
    home = await needed({**blind, **unserved}, _HOME)
    listed = await needed({**blind, **unserved}, _LISTED)
    ordinals = {"election": {"namespace": _HOME}, "sharding": {"mode": "ordinal", "namespace": _HOME}}
    leases = {"election": {"namespace": _HOME}, "sharding": {"mode": "hash", "namespace": _HOME}}
    # Only for the family whose buckets have providers; the value that chooses this provider also grants its rights.
    claims = {name: {**at_home, "instances": {"bucket_provider": "objectbucketclaim"}}} if name == "pools" else seeing
    return Rules(
        always=tuple(always),
        secrets=difference(await needed(unserved), always),
        webhooks=difference(mounted, always),
        certificates=difference(self_made, mounted),
        election=tuple(rule.to_dict() for rule in lease),
        members=difference(await needed({**blind, **unserved, **leases}, _HOME), home),
        ordinals=difference(await needed({**blind, **unserved, **ordinals}, _HOME), home),
        stamps=difference(await needed({**blind, **unserved, **leases}), always),
        metrics=difference(await needed({**blind, **unserved, "metrics_secure": True}), always),
        namespaces=tuple(listed),
        object_bucket_claims=difference(await needed({**blind, **unserved, **claims}, _LISTED), listed),
        home=tuple(home),
    )


async def _rules_with(build: Build | None, settings: Settings, name: str) -> tuple[Rule, ...]:
    from konverge.daemon.rbac import rules_for

    return await rules_for(build, settings, name)


def _changed(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """Return settings with some values changed."""
    return type(settings)(**{**settings.model_dump(exclude_unset=True), **changes})


def settings_schema(cls: type[Settings]) -> dict[str, Any]:
    """Return the JSON schema of the settings that a chart's `settings` take."""
    from konverge.daemon.config import leaves

    docs = {leaf.path: leaf.doc for leaf in leaves(cls)}
    whole = cls.model_json_schema()
    return _group(whole, whole["$defs"], docs, "")


def _group(
    schema: Mapping[str, Any], definitions: Mapping[str, Any], docs: Mapping[str, str], prefix: str
) -> dict[str, Any]:
    """Return the schema of a group of settings, without the chart's own settings."""
    properties = {}
    for name, value in schema["properties"].items():
        path = f"{prefix}{name}"
        if path in OF_THE_CHART:
            continue
        below = definitions[value["$ref"].rpartition("/")[2]] if "$ref" in value else value
        if "properties" in below:
            properties[name] = _group(below, definitions, docs, f"{path}.")
        else:
            properties[name] = {**_plain(below, definitions), "description": docs.get(path, "")}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _plain(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """Return a schema with references resolved, and without the keywords that describe Python."""
    if isinstance(schema, list):
        return [_plain(part, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _plain(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if schema.get("format") == "duration":
        return {"type": ["string", "number"]}
    plain = {
        key: {name: _plain(part, definitions) for name, part in value.items()}
        if key == "properties"
        else _plain(value, definitions)
        for key, value in schema.items()
        if key not in {"$defs", "title", "default", "description"}
    }
    return {**plain, "additionalProperties": False} if "properties" in plain else plain
