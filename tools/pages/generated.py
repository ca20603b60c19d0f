"""The reference pages whose text is in the code: public names, commands, settings, kinds, and metrics."""

from collections.abc import Iterator, Mapping
from typing import Any

import click
from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from konverge.crds.catalogue import all_manifests
from konverge.daemon.main import program
from konverge.metrics import Metrics
from pages import api


def pages() -> dict[str, str]:
    """Return the generated pages by their paths on the site."""
    kinds = {manifest["metadata"]["name"]: manifest for manifest in all_manifests()}
    return {
        **api.pages(),
        "reference/commands.md": _commands(),
        "reference/settings.md": _settings(),
        "reference/metrics.md": _metrics(),
        "reference/kinds/README.md": _kinds(kinds),
        **{f"reference/kinds/{name}.md": _kind(manifest) for name, manifest in kinds.items()},
    }


def _leaves(command: click.Command, context: click.Context) -> Iterator[tuple[str, click.Command, click.Context]]:
    yield context.command_path, command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None, f"{context.command_path} lists {name}"
            yield from _leaves(child, click.Context(child, info_name=name, parent=context))


def _commands() -> str:
    # A command keeps the names of its help option from its first help, so these must be the program's.
    settings = {**program.context_settings, "terminal_width": 120, "max_content_width": 120}
    root = click.Context(program, info_name="konverge", **settings)
    sections = [
        f"## {path}\n\n```text\n{command.get_help(context).rstrip()}\n```\n"
        for path, command, context in _leaves(program, root)
    ]
    return "# Commands\n\nThe help of each command, as `--help` prints it.\n\n" + "\n".join(sections)


def _settings() -> str:
    from click.testing import CliRunner

    table = CliRunner().invoke(program, ["config", "--reference"], catch_exceptions=False).output
    return f"# Settings\n\nThe output of `konverge config --reference`; [Deploying](../guide/deploy.md#settings) has the places of a setting.\n\n{table}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _metrics() -> str:
    metrics = Metrics(CollectorRegistry())
    collectors = [value for value in vars(metrics).values() if isinstance(value, MetricWrapperBase)]
    rows = sorted(
        f"| `{family.name}{'_total' if family.type == 'counter' else ''}` | {family.type} | {', '.join(f'`{label}`' for label in collector._labelnames)} | {_cell(family.documentation)} |"
        for collector in collectors
        for family in collector.describe()
    )
    return (
        "# Metrics\n\nThe metrics of each manager. [Monitoring](../guide/monitoring.md) has dashboards and alerts, and the metrics of the families.\n\n"
        "| Name | Type | Labels | Meaning |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"
    )


def _rows(schema: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str, str]]:
    required = set(schema.get("required", ()))
    for name, field in schema.get("properties", {}).items():
        path = f"{prefix}{name}"
        item = field.get("items", {}) if field.get("type") == "array" else field.get("additionalProperties") or {}
        item = item if isinstance(item, Mapping) else {}
        kind = field.get("type") or ("int or string" if field.get("x-kubernetes-int-or-string") else "any")
        if item:
            kind = f"{'list' if kind == 'array' else 'map'} of {item.get('type', 'any')}"
        yield path, kind + (", required" if name in required else ""), _meaning(field)
        yield from _rows(field, f"{path}.")
        if item:
            yield from _rows(item, f"{path}[]." if field.get("type") == "array" else f"{path}.*.")


def _meaning(field: Mapping[str, Any]) -> str:
    parts = [field.get("description", "")]
    if "enum" in field:
        parts.append("One of " + ", ".join(f"`{value}`" for value in field["enum"] if value is not None) + ".")
    if "default" in field:
        parts.append(f"Default: `{field['default']}`.")
    return _cell(" ".join(part for part in parts if part))


def _kinds(kinds: Mapping[str, Any]) -> str:
    rows = [
        f"| [{manifest['spec']['names']['kind']}]({name}.md) | `{manifest['spec']['group']}` | "
        f"{', '.join(version['name'] for version in manifest['spec']['versions'])} |"
        for name, manifest in kinds.items()
    ]
    return (
        "# Kinds\n\nThe fields of the custom resources of the families.\n\n| Kind | Group | Versions |\n|---|---|---|\n"
        + "\n".join(rows)
        + "\n"
    )


def _kind(manifest: Mapping[str, Any]) -> str:
    spec = manifest["spec"]
    names = spec["names"]
    text = [f"# {names['kind']}\n\n`{names['plural']}.{spec['group']}`, {spec['scope'].lower()}\n"]
    for version in spec["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        text.append(f"## {version['name']}\n\n{schema.get('description', '')}\n")
        for part in ("spec", "status"):
            rows = list(_rows(schema.get("properties", {}).get(part, {}), f"{part}."))
            if rows:
                text.append(f"### {version['name']}: {part}\n\n| Field | Type | Meaning |\n|---|---|---|")
                text.extend(f"| `{path}` | {kind} | {meaning} |" for path, kind, meaning in rows)
                text.append("")
    return "\n".join(text) + "\n"
