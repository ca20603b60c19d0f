"""`konverge chart`: a Helm chart of the daemon with the installed families, or of a user's operator."""

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
    from konverge.daemon.families import DaemonSettings
    from konverge.daemon.programs import Build
    from konverge.daemon.settings import Settings
    from konverge.families import Family, FamilyChart
    from konverge.runtime import Rule

__all__ = ["chart", "chart_of", "daemon_chart", "daemon_chart_data", "settings_schema"]

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
OF_THE_CHART = frozenset(
    {
        *("kubeconfig", "context", "service_account", "namespace", "controllers", "health"),
        *("metrics", "metrics_secure", "metrics_certificates", "tracing"),
        *(f"election.{name}" for name in ("enabled", "name", "namespace", "identity")),
        *(f"sharding.{name}" for name in ("mode", "ring", "namespace")),
        *(f"webhooks.{name}" for name in ("address", "service", "url", "certificates", "secret", "configuration")),
    }
)
"""Settings that other values of the chart set, or that a pod has no use for; a family has more of them."""


@click.command()
@target_argument
@click.option("--output", "-o", metavar="DIR", default=None, help="The folder to write; without, the chart's name.")
@click.option("--name", metavar="NAME", default=None, help="The chart's name; without, the operator's.")
@click.option("--version", "version", metavar="VERSION", default="0.1.0", show_default=True, help="Its version.")
@click.option("--app-version", metavar="TAG", default=None, help="The tag of the operator's image; without, VERSION.")
def chart(target: str | None, output: str | None, name: str | None, version: str, app_version: str | None) -> None:
    """Write a Helm chart.

    With MODULE:BUILD the chart of an operator of yours: its definitions, rights and webhooks are those of your controllers, the rest (a
    Deployment, probes, monitors, alerts, network policy) is that of konverge's own chart. Without an argument the chart of the daemon, with
    a switch for each installed family. Only files of the chart are replaced, so that `git diff` shows the effect of a change.
    `konverge chart backup_operator:build -o chart && helm install backup-operator chart` installs it.
    """
    from konverge.charts import chart_files

    for problem in problems_of(name, version, app_version):
        raise click.UsageError(problem)
    operator, build = chosen_build(target)
    if build is None:
        files = asyncio.run(daemon_chart())
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
    from konverge.charts import own_chart

    if folder.exists() and any(folder.iterdir()) and not (folder / "Chart.yaml").is_file():
        raise FileExistsError(0, "the folder is not empty and holds no chart; name another one with -o")
    generated = {path.relative_to(folder).as_posix() for path in folder.glob("files/*/*")}
    for name in generated | {name for name in own_chart() if name.startswith("templates/")}:
        if name not in files:
            (folder / name).unlink(missing_ok=True)
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


async def daemon_chart() -> dict[str, str]:
    """Return the files of the daemon's chart: the files in the package, or others if a distribution adds a family."""
    import yaml

    from konverge.charts import daemon_files, own_chart
    from konverge.daemon.families import installed_settings

    files = own_chart()
    cls = installed_settings()
    if {hosted.name for hosted in cls.families} == yaml.safe_load(files["values.yaml"])["families"].keys():
        return files
    described = yaml.safe_load(files["Chart.yaml"])
    data = await daemon_chart_data(cls, described["version"], described["appVersion"], described["description"])
    return daemon_files(data, files)


async def daemon_chart_data(
    cls: type[DaemonSettings], version: str, app_version: str, description: str
) -> OperatorChart:
    """Return the chart of the daemon: a part for each family of these settings."""
    from konverge.charts import OperatorChart
    from konverge.daemon.families import left_out
    from konverge.daemon.programs import NAME

    return OperatorChart(
        name=NAME,
        version=version,
        app_version=app_version,
        description=description,
        manager=NAME,
        parts=tuple([await _family(hosted.family, cls) for hosted in cls.families]),
        cluster_wide=left_out(cls(namespace="one")),
        settings=settings_schema(cls),
    )


async def _family(family: Family[Any], cls: type[DaemonSettings]) -> Part:
    """Return the part of a family, with a variant for each of its semantics."""
    from konverge.charts import ChartPlaces
    from konverge.daemon.config import leaves

    name, chart = family.name, family.chart
    own = await part_of(name, None, cls(controllers=(name,)), family)
    choices = [leaf for leaf in leaves(family.settings) if leaf.path == "semantics"]
    others = [value for leaf in choices for value in get_args(leaf.annotation) if value != leaf.default]
    variants = {}
    for value in others:
        chosen: dict[str, Any] = {"controllers": (name,), name: {"semantics": value}}
        variants[value] = await part_of(name, None, cls(**chosen), family)
    first = getattr(family.settings(), chart.namespaces) if chart.namespaces else ""
    places = ChartPlaces(
        home=family.home, setting=chart.namespaces, default=first, values=chart.by_values, options=chart.options
    )
    described = replace(own, summary=family.summary, documentation=family.documentation)
    return replace(described, variants=variants, places=places, files=_files(chart))


def _files(chart: FamilyChart) -> dict[str, str]:
    """Return the files that a family brings for its part of the chart, by their names in its folder."""
    folder = chart.folder
    if folder is None:
        return {}
    if not folder.is_dir():
        raise UsageError(f"the chart folder {folder} does not exist: add it to the package data of its distribution")
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.suffix in {".yaml", ".json"}
    }


async def part_of(name: str, build: Build | None, settings: Settings, family: Family[Any] | None = None) -> Part:
    """Return the definitions, rules and webhooks of a family, or of the controllers of a build."""
    from konverge.charts import Part, user_rules
    from konverge.crds import crd_manifests
    from konverge.crds.resource import declaration_of
    from konverge.daemon.engine import manager_settings
    from konverge.daemon.families import DaemonSettings, definitions_of
    from konverge.daemon.programs import fill, models_of
    from konverge.runtime import Manager

    served = _changed(settings, {"webhooks": {"service": _SERVICE}})
    manager = Manager(name, settings=manager_settings(served))
    await fill(manager, build, served)
    if family is not None and isinstance(served, DaemonSettings):
        models: list[Any] = list(family.models())
        definitions = definitions_of(family, served)
    else:
        models = models_of(manager)
        definitions = crd_manifests(models, webhooks=manager.conversion_clients())
    configurations = {each["kind"]: _paths_alone(each["webhooks"]) for each in manager.webhook_configurations()}
    return Part(
        name=name,
        rules=await _rules(name, build, settings, family),
        definitions=tuple(map(_path_alone, definitions)),
        mutating=configurations.get("MutatingWebhookConfiguration", ()),
        validating=configurations.get("ValidatingWebhookConfiguration", ()),
        users=user_rules(declaration_of(model) for model in models),
    )


def _path_alone(definition: dict[str, Any]) -> dict[str, Any]:
    """Return a definition whose conversion webhook has no Service, which the chart fills in."""
    if "conversion" in definition["spec"]:
        webhook = definition["spec"]["conversion"]["webhook"]
        webhook["clientConfig"] = {"service": {"path": webhook["clientConfig"]["service"]["path"]}}
    return definition


def _paths_alone(entries: list[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Return webhooks without the Service, which the chart fills in."""
    return tuple(
        {**entry, "clientConfig": {"service": {"path": entry["clientConfig"]["service"]["path"]}}} for entry in entries
    )


async def _rules(name: str, build: Build | None, settings: Settings, family: Family[Any] | None) -> Rules:
    from konverge.charts import Rules, difference
    from konverge.runtime import ElectionSettings, Manager, ManagerSettings
    from konverge.runtime.admission.settings import IN_PROCESS

    placed: dict[str, Any] = {}
    if family is not None and family.home:
        placed[family.home] = _HOME
    if family is not None and family.chart.namespaces:
        placed[family.chart.namespaces] = _LISTED

    def group(more: Mapping[str, Any]) -> dict[str, Any]:
        if family is None:
            return {}
        given = getattr(settings, name).model_dump(exclude_unset=True)
        return {name: {**given, **placed, **more}}

    seeing = group({})
    blind = group(family.chart.unwatched if family is not None else {})

    async def needed(changes: Mapping[str, Any], place: str = "") -> list[dict[str, Any]]:
        rules = await _rules_with(build, _changed(settings, {**seeing, **changes}), name)
        # The certificates name another namespace, which the chart fills in.
        return [
            rule.to_dict() for rule in rules if (rule.namespace if rule.namespace in (_HOME, _LISTED) else "") == place
        ]

    # All of them: what the controllers may do with Leases holds in the watched namespace, and this Lease is in the chart's own.
    lease = Manager(name, settings=ManagerSettings(election=ElectionSettings(enabled=True))).rules()
    unserved = {"webhooks": {"address": IN_PROCESS}}
    always = await needed({**blind, **unserved})
    mounted = await needed({**blind, "webhooks": {"service": _SERVICE, "certificates": _MOUNTED}})
    self_made = await needed({**blind, "webhooks": {"service": _SERVICE}})
    home = await needed({**blind, **unserved}, _HOME)
    listed = await needed({**blind, **unserved}, _LISTED)
    ordinals = {"election": {"namespace": _HOME}, "sharding": {"mode": "ordinal", "namespace": _HOME}}
    leases = {"election": {"namespace": _HOME}, "sharding": {"mode": "hash", "namespace": _HOME}}
    options = family.chart.options.items() if family is not None else ()
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
        options={
            option: difference(await needed({**blind, **unserved, **group(changes)}, _LISTED), listed)
            for option, changes in options
        },
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
    return _group(whole, whole["$defs"], docs, "", OF_THE_CHART | _of_families(cls))


def _of_families(cls: type[Settings]) -> set[str]:
    """Return the settings of families that other values of the chart set."""
    families = [hosted.family for hosted in getattr(cls, "families", ())]
    return {f"{family.name}.{name}" for family in families for name in (family.home, *family.chart.by_values) if name}


def _group(
    schema: Mapping[str, Any],
    definitions: Mapping[str, Any],
    docs: Mapping[str, str],
    prefix: str,
    without: frozenset[str],
) -> dict[str, Any]:
    """Return the schema of a group of settings; `without` holds the paths of settings to leave out."""
    properties = {}
    for name, value in schema["properties"].items():
        path = f"{prefix}{name}"
        if path in without:
            continue
        below = definitions[value["$ref"].rpartition("/")[2]] if "$ref" in value else value
        if "properties" in below:
            properties[name] = _group(below, definitions, docs, f"{path}.", without)
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
