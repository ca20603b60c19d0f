"""The content of a chart that depends on its operator: for each part definitions, rules and webhooks. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from konverge.charts.other_names import OTHER_NAMES
from konverge.crds import to_yaml

__all__ = ["ChartPlaces", "OperatorChart", "Part", "Rules", "difference", "files_of"]

_COMMENT = "Generated; in the repository by: make generate"
_COPIED = ("alerts.yaml", "dashboard.json")


@dataclass(frozen=True, slots=True)
class Rules:
    """The RBAC rules of a part, as RBAC writes them: the first field always, each other field if a value enables it."""

    always: tuple[dict[str, Any], ...] = ()
    secrets: tuple[dict[str, Any], ...] = ()
    """While Secrets are watched."""
    webhooks: tuple[dict[str, Any], ...] = ()
    """While webhooks are served."""
    certificates: tuple[dict[str, Any], ...] = ()
    """While their certificates are self-made; names of objects are filled in by the chart."""
    election: tuple[dict[str, Any], ...] = ()
    """While replicas elect a leader, in the namespace of its Lease."""
    members: tuple[dict[str, Any], ...] = ()
    """While replicas share the objects, in the namespace of their Leases: the members' Leases, and the leader's for the rest."""
    ordinals: tuple[dict[str, Any], ...] = ()
    """While replicas share the objects by the ordinals of a StatefulSet, in its namespace."""
    stamps: tuple[dict[str, Any], ...] = ()
    """While replicas share the objects, for the objects with stamps."""
    metrics: tuple[dict[str, Any], ...] = ()
    """While callers who read metrics are reviewed."""

    namespaces: tuple[dict[str, Any], ...] = ()
    """In each of the namespaces that values of the part name, or in the whole cluster if the values name `*`."""
    options: Mapping[str, tuple[dict[str, Any], ...]] = field(default_factory=dict)
    """While a setting chooses the option, in the same namespaces; by the name of the option."""
    home: tuple[dict[str, Any], ...] = ()
    """Only in the operator's own namespace."""

    def by_file(self) -> dict[str, tuple[dict[str, Any], ...]]:
        """Return the rules by the name of their file."""
        return {
            "rules.yaml": self.always,
            "rules-secrets.yaml": self.secrets,
            "rules-webhooks.yaml": self.webhooks,
            "rules-certificates.yaml": self.certificates,
            "rules-election.yaml": self.election,
            "rules-members.yaml": self.members,
            "rules-ordinals.yaml": self.ordinals,
            "rules-stamps.yaml": self.stamps,
            "rules-namespaces.yaml": self.namespaces,
            **{f"rules-{option}.yaml": rules for option, rules in self.options.items()},
            "rules-home.yaml": self.home,
            "rules-metrics.yaml": self.metrics,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartPlaces:
    """The namespaces and options of a family, as the templates read them from `files/operator.yaml`."""

    home: str = ""
    """The setting with the operator's own namespace: the namespace of the release."""
    setting: str = ""
    """The setting with the namespace of `Rules.namespaces`; a value of the family with the same name wins."""
    default: str = ""
    """The default of that setting; empty: the namespace of the release."""
    values: tuple[str, ...] = ()
    """The settings that values of the family set."""
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The settings of `Rules.options`."""

    def data(self) -> dict[str, Any]:
        """Return what is not empty, as YAML holds it."""
        options = {name: {"path": path, "value": value} for name, (path, value) in self._choices().items()}
        namespaces = {"setting": self.setting, "default": self.default} if self.setting else {}
        entries = {"home": self.home, "namespaces": namespaces, "options": options, "values": list(self.values)}
        return {key: value for key, value in entries.items() if value}

    def _choices(self) -> dict[str, tuple[list[str], Any]]:
        """Return the path and the value of each option's setting."""
        choices: dict[str, tuple[list[str], Any]] = {}
        for name, setting in self.options.items():
            path: list[str] = []
            value: Any = setting
            while isinstance(value, Mapping):
                ((key, value),) = value.items()
                path.append(key)
            choices[name] = (path, value)
        return choices


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part that can be switched on: a family of the daemon, or the whole of an operator without families."""

    name: str
    summary: str = ""
    documentation: str = ""
    """A URL, or a file of konverge's repository."""
    rules: Rules = Rules()
    definitions: tuple[dict[str, Any], ...] = ()
    mutating: tuple[dict[str, Any], ...] = ()
    """Entries of a MutatingWebhookConfiguration."""
    validating: tuple[dict[str, Any], ...] = ()
    """Entries of a ValidatingWebhookConfiguration."""
    users: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    """The rules of the ClusterRoles for users, by role (`user_rules`)."""
    variants: Mapping[str, Part] = field(default_factory=dict)
    """The same part by the other values of its setting `semantics`."""
    places: ChartPlaces = ChartPlaces()
    files: Mapping[str, str] = field(default_factory=dict)
    """Files that the family brings, by name: `values.yaml`, `values.schema.json`, `alerts.yaml`, `dashboard.json`, `templates/*`."""

    @property
    def converting(self) -> tuple[str, ...]:
        """The names of the definitions with a conversion webhook."""
        return tuple(each["metadata"]["name"] for each in self.definitions if "conversion" in each["spec"])

    @property
    def has_webhooks(self) -> bool:
        """Whether the part serves a webhook, of admission or of conversion."""
        return bool(self.mutating or self.validating or self.converting)

    @property
    def values(self) -> str:
        """The family's values with their comments."""
        return self.files.get("values.yaml", "enabled: false\n")

    @property
    def schemas(self) -> dict[str, Any]:
        """The JSON schemas of the family's values."""
        more: dict[str, Any] = json.loads(self.files.get("values.schema.json", "{}"))
        return {"enabled": {"type": "boolean"}, **more}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorChart:
    """A chart and its operator."""

    name: str
    version: str
    app_version: str
    description: str
    manager: str
    """The name of the operator's manager."""
    parts: tuple[Part, ...]
    cluster_wide: tuple[str, ...] = ()
    """The parts that cannot run in one namespace."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The JSON schema of the operator's settings."""
    arguments: tuple[str, ...] = ("run",)
    """The arguments of its container."""


def files_of(chart: OperatorChart) -> dict[str, str]:
    """Return the generated files below `files/`, and the templates of families: path and content.

    Parts without rules of a kind, or webhooks, have no such file.

    Files of a variant are in a folder of their own, `PART-SEMANTICS`, if they differ from the files of the part.
    """
    families = {part.name: places for part in chart.parts if (places := part.places.data())}
    facts = {"clusterWide": sorted(chart.cluster_wide), "families": families}
    operator = {
        "manager": chart.manager,
        **{key: value for key, value in facts.items() if value},
        "otherNames": dict(OTHER_NAMES),
    }
    files = {"operator.yaml": _yaml(operator)}
    for part in chart.parts:
        own = _files_of_part(part) | {name: part.files[name] for name in _COPIED if name in part.files}
        files |= {f"{part.name}/{name}": content for name, content in own.items()}
        for semantics, variant in part.variants.items():
            other = _files_of_part(variant)
            if lacking := sorted(own.keys() - other.keys() - {*_COPIED}):
                raise ValueError(f"the templates would take {lacking} of {part.name} for {semantics} too")
            differing = {name: content for name, content in other.items() if own.get(name) != content}
            files |= {f"{part.name}-{semantics}/{name}": content for name, content in differing.items()}
    templates = {
        f"templates/{part.name}-{name.removeprefix('templates/')}": content
        for part in chart.parts
        for name, content in part.files.items()
        if name.startswith("templates/")
    }
    return {**{f"files/{name}": content for name, content in files.items()}, **templates}


def _files_of_part(part: Part) -> dict[str, str]:
    files = {name: _yaml({"rules": list(rules)}) for name, rules in part.rules.by_file().items() if rules}
    if part.users:
        files["users.yaml"] = _yaml(dict(part.users))
    for definition in part.definitions:
        files[f"crd-{definition['metadata']['name']}.yaml"] = _yaml(definition)
    if part.has_webhooks:
        converting = {"converting": list(part.converting)} if part.converting else {}
        admission = {"mutating": list(part.mutating), "validating": list(part.validating)}
        files["webhooks.yaml"] = _yaml({**admission, **converting})
    return files


def _yaml(document: dict[str, Any]) -> str:
    return to_yaml(document, comment=_COMMENT)


Right = tuple[str, str, tuple[str, ...], str]


def _rights(rules: Iterable[Mapping[str, Any]]) -> dict[Right, None]:
    return {
        (group, resource, tuple(rule.get("resourceNames", ())), verb): None
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def difference(rules: Iterable[Mapping[str, Any]], without: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Return the rights of `rules` that `without` does not give, one rule for each resource.

    >>> both = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]}
    >>> difference([both], [{**both, "verbs": ["get"]}])
    ({'apiGroups': [''], 'resources': ['secrets'], 'verbs': ['list']},)
    """
    fewer = _rights(without)
    verbs: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for group, resource, names, verb in _rights(rules):
        if (group, resource, names, verb) not in fewer:
            verbs.setdefault((group, resource, names), []).append(verb)
    return tuple(
        {
            "apiGroups": [group],
            "resources": [resource],
            "verbs": sorted(allowed),
            **({"resourceNames": list(names)} if names else {}),
        }
        for (group, resource, names), allowed in sorted(verbs.items())
    )
