"""CustomResourceDefinitions of resource classes, as data and as YAML.

Guarantees: `crd` groups the versions of one kind and checks that all versions have the same names and scope and that exactly one version is
stored; the status subresource is always on. `to_yaml` writes the same text for the same data, keys in insertion order. Callers may change
the returned data.

Source: Kubernetes, CustomResourceDefinition v1; versions are ordered as by `kubectl` (v2, v1, v1beta1, v1alpha1).
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping
from typing import Any

from konverge.crds.declaration import AGE, Scope, plural_of
from konverge.crds.resource import CustomResource, declaration_of, schema_of
from konverge.errors import UsageError
from konverge.kinds import Kind

__all__ = ["check_versions", "crd", "crd_manifests", "crd_stub", "to_yaml"]

_STABILITY = {"": 2, "beta": 1, "alpha": 0}
_VERSION = re.compile(r"v(\d+)(alpha|beta)?(\d*)")


def crd(*versions: type[CustomResource[Any, Any]], webhook: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the CustomResourceDefinition of one kind, given the class of each of its versions.

    `webhook` is the `clientConfig` of the webhook that converts between the versions; without it the server changes only apiVersion.

    Raises UsageError if the classes are of several kinds, disagree on names or scope, or if not exactly one is stored.

    >>> from konverge.crds import Model, Status, resource
    >>> class BackupSpec(Model):
    ...     schedule: str
    >>> @resource("example.com/v1")
    ... class Backup(CustomResource[BackupSpec, Status]):
    ...     '''Nightly copies of a volume.'''
    >>> crd(Backup)["metadata"]["name"]
    'backups.example.com'
    """
    if not versions:
        raise UsageError("crd(...) needs at least one class made with @resource")
    ordered = sorted(versions, key=lambda cls: _age(declaration_of(cls).version), reverse=True)
    first = declaration_of(ordered[0])
    check_versions(*ordered)
    names: dict[str, Any] = {
        "kind": first.kind,
        "listKind": f"{first.kind}List",
        "plural": first.plural,
        "singular": first.singular,
    }
    if first.short_names:
        names["shortNames"] = list(first.short_names)
    if first.categories:
        names["categories"] = list(first.categories)
    definition = _definition(first.group, names, first.scope, [_version(cls) for cls in ordered])
    if first.labels:
        definition["metadata"]["labels"] = dict(first.labels)
    if webhook is not None:
        client = copy.deepcopy(dict(webhook))
        definition["spec"]["conversion"] = {
            "strategy": "Webhook",
            "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
        }
    return definition


def crd_manifests(
    classes: Iterable[type[CustomResource[Any, Any]]], *, webhooks: Mapping[str, Mapping[str, Any]] | None = None
) -> list[dict[str, Any]]:
    """Return the CustomResourceDefinitions of these classes, the versions of a kind in one, sorted by name.

    `webhooks` are the `clientConfig`s of conversion webhooks by the names of their definitions.
    """
    grouped: dict[str, list[type[CustomResource[Any, Any]]]] = {}
    for cls in classes:
        grouped.setdefault(declaration_of(cls).crd_name, []).append(cls)
    return [crd(*grouped[name], webhook=(webhooks or {}).get(name)) for name in sorted(grouped)]


def crd_stub(kind: Kind[Any], *, scope: Scope = "Namespaced", status: bool = True) -> dict[str, Any]:
    """Return a CustomResourceDefinition that accepts anything, for tests with foreign kinds.

    The plural is the kind's own, or the English plural. `status` enables the status subresource.

    >>> from konverge.kinds import kind
    >>> crd_stub(kind("velero.io/v1", "Backup"), status=False)["metadata"]["name"]
    'backups.velero.io'
    """
    names = {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural or plural_of(kind.kind),
        "singular": kind.kind.lower(),
    }
    version: dict[str, Any] = {"name": kind.version, "served": True, "storage": True}
    version["schema"] = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    if status:
        version["subresources"] = {"status": {}}
    return _definition(kind.group, names, "Cluster" if kind.namespaced is False else scope, [version])


def to_yaml(*documents: Mapping[str, Any], comment: str = "") -> str:
    r"""Write documents as YAML, each opened by `---`; `comment` becomes the first lines.

    >>> to_yaml({"kind": "Namespace", "metadata": {"name": "web"}}, comment="Generated.")
    '# Generated.\n---\nkind: Namespace\nmetadata:\n  name: web\n'
    """
    import yaml

    head = "".join(f"# {line}\n" for line in comment.splitlines())
    return head + "".join(
        "---\n"
        + yaml.dump(copy.deepcopy(dict(document)), Dumper=_dumper(), sort_keys=False, width=120, allow_unicode=True)
        for document in documents
    )


def _dumper() -> Any:
    import yaml

    class Plain(yaml.SafeDumper):
        """Repeats a shared part instead of writing a YAML alias."""

        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML calls it so
            return True

    return Plain


def _definition(group: str, names: dict[str, Any], scope: Scope, versions: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.{group}"},
        "spec": {"group": group, "names": names, "scope": scope, "versions": versions},
    }


def _version(cls: type[CustomResource[Any, Any]]) -> dict[str, Any]:
    declaration = declaration_of(cls)
    version: dict[str, Any] = {
        "name": declaration.version,
        "served": declaration.served,
        "storage": declaration.storage,
    }
    if declaration.deprecated is not None:
        version |= {"deprecated": True, "deprecationWarning": declaration.deprecated}
    columns = declaration.all_columns()
    # kubectl shows Age by default.
    if columns != (AGE,):
        version["additionalPrinterColumns"] = [column.entry() for column in columns]
    if declaration.selectable:
        version["selectableFields"] = [{"jsonPath": path} for path in declaration.selectable]
    version["schema"] = {"openAPIV3Schema": copy.deepcopy(schema_of(cls))}
    version["subresources"] = {"status": {}} | ({"scale": declaration.scale.entry()} if declaration.scale else {})
    return version


def check_versions(*versions: type[CustomResource[Any, Any]]) -> None:
    """Raise UsageError unless these classes are the versions of one kind, and exactly one of them is stored."""
    all_of_them = [declaration_of(cls) for cls in versions]
    first = all_of_them[0]
    said_once = (
        "group",
        "kind",
        "plural",
        "singular",
        "scope",
        "short_names",
        "categories",
        "labels",
        "written_by",
        "viewable",
    )
    for other in all_of_them:
        for name in said_once:
            if getattr(other, name) != getattr(first, name):
                raise UsageError(
                    f"{first.kind} {first.version} and {other.kind} {other.version} disagree on {name}: "
                    f"{getattr(first, name)!r} and {getattr(other, name)!r}; all versions of a kind must agree"
                )
    names = [declaration.version for declaration in all_of_them]
    if len(set(names)) < len(names):
        raise UsageError(f"{first.kind} is declared twice in one version: {', '.join(names)}")
    stored = [declaration.version for declaration in all_of_them if declaration.storage]
    if len(stored) != 1:
        raise UsageError(
            f"{first.kind} is stored in {', '.join(stored) or 'no version'}; exactly one of its versions has storage=True"
        )


def _age(version: str) -> tuple[int, int, int]:
    """Order versions as kubectl does: stable before beta before alpha, higher numbers first."""
    match = _VERSION.fullmatch(version)
    assert match is not None, "a Declaration has checked its version"
    major, stability, minor = match.groups()
    return _STABILITY[stability or ""], int(major), int(minor or 0)
