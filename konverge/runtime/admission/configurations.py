"""Webhook configurations as data, generated from the webhooks. Pure.

Guarantees: one MutatingWebhookConfiguration and one ValidatingWebhookConfiguration for all webhooks of a manager, each only if it has a
webhook; the same webhooks give the same bytes. Defaults that have a meaning of their own (policy, timeout) are written out. The
configuration of a manager that watches one namespace selects only objects of that namespace.

`caBundle` is left out: the owner of the certificates adds it (the running manager, cert-manager's cainjector, or `bundle`).

Source: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import Any, Final

from konverge.crds import Conversion
from konverge.crds.manifest import check_versions
from konverge.errors import UsageError
from konverge.kinds import Kind, kind
from konverge.objects import Object
from konverge.rbac import READ, Rule, merged, plural_of
from konverge.runtime.admission.settings import Place
from konverge.runtime.admission.webhook import Webhook
from konverge.selectors import LabelSelector, Requirement
from konverge.words import Annotation, Label

__all__ = [
    "DEFINITION",
    "MUTATING",
    "SECRET",
    "VALIDATING",
    "check_conversion",
    "check_distinct",
    "client_of",
    "configurations",
    "empty_secret",
    "rules_of_webhooks",
]

_API: Final = "admissionregistration.k8s.io/v1"
_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
_OPERATORS: Final = {"exists": "Exists", "absent": "DoesNotExist", "in": "In", "notin": "NotIn"}

MUTATING: Final[Kind[Object]] = kind(
    _API, "MutatingWebhookConfiguration", namespaced=False, plural="mutatingwebhookconfigurations"
)
VALIDATING: Final[Kind[Object]] = kind(
    _API, "ValidatingWebhookConfiguration", namespaced=False, plural="validatingwebhookconfigurations"
)
DEFINITION: Final[Kind[Object]] = kind(
    "apiextensions.k8s.io/v1", "CustomResourceDefinition", namespaced=False, plural="customresourcedefinitions"
)
SECRET: Final[Kind[Object]] = kind("v1", "Secret", namespaced=True, plural="secrets")


def check_distinct(webhooks: Iterable[Webhook[Any]]) -> None:
    """Raise UsageError if two webhooks have one path, or one name in a configuration."""
    seen: set[object] = set()
    for webhook in webhooks:
        name = (webhook.mutates, webhook.name)
        if webhook.path in seen or name in seen:
            raise UsageError(
                f"two webhooks are served under {webhook.path} or named {webhook.name}; give one of them another name with .named(...)"
            )
        seen.update((name, webhook.path))


def check_conversion(conversion: Conversion[Any], others: Iterable[Conversion[Any]]) -> None:
    """Raise UsageError if a conversion has no second version, if its versions do not agree, or if its kind has a conversion already."""
    if not conversion.spokes:
        raise UsageError(
            f"the conversion {conversion.path} has one version; add the others with .version(Old, up=..., down=...)"
        )
    check_versions(*conversion.models)
    if any(other.crd_name == conversion.crd_name for other in others):
        raise UsageError(f"{conversion.crd_name} has two conversions; write one with all its versions")


def configurations(
    webhooks: Sequence[Webhook[Any]],
    place: Place,
    *,
    namespace: str | None = None,
    bundle: bytes = b"",
    inject_from: str = "",
) -> list[dict[str, Any]]:
    """Return the configuration objects of these webhooks.

    `bundle` are PEM certificates that the API server is to trust, `inject_from` the cert-manager Certificate (namespace/name) whose
    authority the cainjector writes. Raises UsageError for a place without a target.
    """
    check_distinct(webhooks)
    documents = []
    for what, mutates in ((MUTATING, True), (VALIDATING, False)):
        entries = [_entry(webhook, place, namespace, bundle) for webhook in webhooks if webhook.mutates is mutates]
        if not entries:
            continue
        metadata: dict[str, Any] = {"name": place.configuration}
        if inject_from:
            metadata["annotations"] = {Annotation.INJECT_CA_FROM: inject_from}
        documents.append({"apiVersion": _API, "kind": what.kind, "metadata": metadata, "webhooks": entries})
    return documents


def _entry(webhook: Webhook[Any], place: Place, namespace: str | None, bundle: bytes) -> dict[str, Any]:
    client = client_of(place, webhook.path, bundle)
    entry: dict[str, Any] = {
        "name": webhook.name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": client,
        "failurePolicy": webhook.failure,
        "matchPolicy": "Exact" if webhook.exact else "Equivalent",
        "rules": [_rule(webhook)],
        "sideEffects": "NoneOnDryRun" if webhook.effects else "None",
        "timeoutSeconds": webhook.timeout,
    }
    if webhook.reinvoked:
        entry["reinvocationPolicy"] = "IfNeeded"
    if webhook.objects:
        entry["objectSelector"] = _selector(webhook.objects)
    where = ",".join(filter(str.strip, (webhook.namespaces, f"{_NAMESPACE_NAME}={namespace}" if namespace else "")))
    if where:
        entry["namespaceSelector"] = _selector(where)
    if webhook.conditions:
        entry["matchConditions"] = [{"name": name, "expression": text} for name, text in webhook.conditions]
    return entry


def client_of(place: Place, path: str, bundle: bytes = b"") -> dict[str, object]:
    """Return the `clientConfig` of a webhook, with the certificates to trust, if any. Raises UsageError for a place without a target."""
    client = place.client_config(path)
    return {**client, "caBundle": base64.b64encode(bundle).decode()} if bundle else client


def _rule(webhook: Webhook[Any]) -> dict[str, Any]:
    resource = plural_of(webhook.kind)
    scope = {True: "Namespaced", False: "Cluster", None: "*"}[webhook.kind.namespaced]
    return {
        "apiGroups": [webhook.kind.group],
        "apiVersions": [webhook.kind.version],
        "operations": list(webhook.operations),
        "resources": [f"{resource}/{webhook.subresource}" if webhook.subresource else resource],
        "scope": scope,
    }


def _selector(text: str) -> dict[str, Any]:
    """Return a selector in the form of a LabelSelector object."""
    requirements = LabelSelector.parse(text).requirements
    equal = {
        requirement.key: next(iter(requirement.values)) for requirement in requirements if _is_equality(requirement)
    }
    others = []
    for requirement in requirements:
        if requirement.key in equal and _is_equality(requirement) and equal[requirement.key] in requirement.values:
            continue
        expression: dict[str, Any] = {"key": requirement.key, "operator": _OPERATORS[requirement.operator]}
        if requirement.values:
            expression["values"] = sorted(requirement.values)
        others.append(expression)
    selector: dict[str, Any] = {}
    if equal:
        selector["matchLabels"] = equal
    if others:
        selector["matchExpressions"] = others
    return selector


def _is_equality(requirement: Requirement) -> bool:
    return requirement.operator == "in" and len(requirement.values) == 1


def empty_secret(place: Place, manager: str) -> dict[str, Any]:
    """Return the Secret of self-made certificates, still empty: if it exists, the manager needs no right to create Secrets."""
    namespace, name = place.secret
    metadata = {
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        "labels": {Label.CERTIFICATES: manager},
    }
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque"}


def rules_of_webhooks(
    webhooks: Sequence[Webhook[Any]], place: Place, *, self_made: bool, conversions: Sequence[Conversion[Any]] = ()
) -> tuple[Rule, ...]:
    """Return the rights that webhooks need: their handlers' reads and, for self-made certificates, one Secret and the CA bundles.

    Secrets cannot be created with these rights: `konverge webhooks` prints an empty one to be applied with the configurations.
    """
    rules = [
        Rule(source.kind.group, (plural_of(source.kind),), READ) for webhook in webhooks for source in webhook.read
    ]
    rules += [rule for webhook in webhooks for rule in webhook.rules]
    if (webhooks or conversions) and self_made:
        namespace, name = place.secret
        rules.append(Rule("", ("secrets",), ("get", "update"), (name,), namespace))
        for what, mutates in ((MUTATING, True), (VALIDATING, False)):
            if any(webhook.mutates is mutates for webhook in webhooks):
                names = (place.configuration,)
                rules.append(Rule(what.group, (plural_of(what),), ("get", "patch"), names, cluster_wide=True))
        if definitions := tuple(sorted(conversion.crd_name for conversion in conversions)):
            rules.append(
                Rule(DEFINITION.group, (plural_of(DEFINITION),), ("get", "patch"), definitions, cluster_wide=True)
            )
    return merged(rules)
