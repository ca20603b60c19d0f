"""CA bundles: the JSON patches that write our authority into webhook configurations and into definitions with a conversion webhook. Pure.

Guarantees: only an entry with our `clientConfig` is changed, and the patch tests it. A bundle with foreign certificates is not changed, nor
an object whose bundle cert-manager injects; the obstacles name them.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from konverge.runtime.tls.certificates import is_of_authority
from konverge.words import Annotation

__all__ = ["definition_injection", "injection"]

Patch = list[dict[str, Any]]


def injection(
    configuration: Mapping[str, Any], ours: Mapping[str, Mapping[str, Any]], trusted: bytes, authority: str
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the JSON patch that writes these certificates into a configuration, and the obstacles, in words. Pure.

    `ours` are our webhooks by name, each with its desired `clientConfig`.
    """
    name = f"{configuration.get('kind')} {configuration['metadata']['name']}"
    if Annotation.INJECT_CA_FROM in (configuration["metadata"].get("annotations") or {}):
        words = f"the CA bundle of {name} is cert-manager's ({Annotation.INJECT_CA_FROM}): set webhooks.certificates, or remove that"
        return [], [words]
    entries = configuration.get("webhooks") or []
    missing = sorted(ours.keys() - {entry["name"] for entry in entries})
    problems = [f"{name} has no webhook {', '.join(missing)}: apply what `konverge webhooks` prints"] if missing else []
    patch: list[dict[str, Any]] = []
    for index, entry in enumerate(entries):
        wanted = ours.get(entry["name"])
        if wanted is None:
            continue
        change, odd = _entry(
            f"{entry['name']} of {name}",
            f"/webhooks/{index}",
            entry.get("clientConfig") or {},
            wanted,
            trusted,
            authority,
        )
        problems += odd
        if change:
            patch += [{"op": "test", "path": f"/webhooks/{index}/name", "value": entry["name"]}, *change]
    return patch, problems


def definition_injection(
    definition: Mapping[str, Any], wanted: Mapping[str, Any], trusted: bytes, authority: str
) -> tuple[Patch, list[str]]:
    """Return the JSON patch that writes these certificates into a definition with our conversion webhook, and the obstacles, in words."""
    name = f"CustomResourceDefinition {definition['metadata']['name']}"
    if Annotation.INJECT_CA_FROM in (definition["metadata"].get("annotations") or {}):
        words = f"the CA bundle of {name} is cert-manager's ({Annotation.INJECT_CA_FROM}): set webhooks.certificates, or remove that"
        return [], [words]
    conversion = definition["spec"].get("conversion") or {}
    if conversion.get("strategy") != "Webhook":
        return [], [f"{name} has no conversion webhook: apply what `konverge crds` prints"]
    present = (conversion.get("webhook") or {}).get("clientConfig") or {}
    return _entry(f"the conversion of {name}", "/spec/conversion/webhook", present, wanted, trusted, authority)


def _entry(
    what: str, path: str, present: Mapping[str, Any], wanted: Mapping[str, Any], trusted: bytes, authority: str
) -> tuple[Patch, list[str]]:
    """Return the operations for the `clientConfig` below a path."""
    if _target(present) != _target(wanted):
        return [], [f"{what} leads to {_target(present)} and not to {_target(wanted)}: it is left alone"]
    bundle = base64.b64decode(present.get("caBundle") or "")
    if bundle == trusted:
        return [], []
    if bundle.strip() and not is_of_authority(bundle, authority):
        return [], [f"{what} trusts certificates that are not ours: remove its caBundle to have ours put in"]
    return [
        {"op": "test", "path": f"{path}/clientConfig", "value": present},
        {"op": "add", "path": f"{path}/clientConfig/caBundle", "value": base64.b64encode(trusted).decode()},
    ], []


def _target(client: Mapping[str, Any]) -> str:
    """Return the target of a `clientConfig`, with the API server's defaults."""
    service = client.get("service")
    if service is None:
        return str(client.get("url") or "nowhere")
    return f"{service['namespace']}/{service['name']}:{service.get('port') or 443}{service.get('path') or '/'}"
