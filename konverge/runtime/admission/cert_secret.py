"""Self-made certificates in a Secret that the replicas share, and their authority in the webhook configurations.

Guarantees:
- The Secret is written only if it differs, and by compare-and-swap: if replicas renew at once, the first write wins and the others
  use it. A Secret with data and without our label belongs to another writer and is never written.
- A CA bundle is written only into webhooks with our name and our `clientConfig`. The JSON patch tests both, so it fails after a
  change in between. A bundle with foreign certificates, and a configuration whose bundle cert-manager injects, are not changed; this
  is reported.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from konverge.clock import wall_clock
from konverge.errors import AlreadyExists, ConfigError, Conflict, Forbidden, Invalid, NotFound, NotOurs
from konverge.objects import Object
from konverge.runtime.admission.configurations import MUTATING, SECRET, VALIDATING, empty_secret
from konverge.runtime.admission.settings import Place, WebhookSettings
from konverge.runtime.admission.webhook import Webhook
from konverge.runtime.tls.certificates import Lives, Material, authority_name, is_of_authority, renewed
from konverge.words import Annotation, Label

if TYPE_CHECKING:
    from konverge.client import Client

__all__ = ["CertificateKeeper", "injection"]

_TRIES: Final = 5
_FILES: Final = ("ca.crt", "ca.key", "tls.crt", "tls.key")


def _held(secret: Object) -> Material | None:
    """Return the material in a Secret; None if a part is missing or not base64."""
    data = secret.get("data", default={})
    try:
        trusted, authority_key, certificate, key = (base64.b64decode(data[name], validate=True) for name in _FILES)
    except (KeyError, TypeError, binascii.Error):
        return None
    return Material(trusted, authority_key, certificate, key)


def _filled(secret: dict[str, Any], material: Material, manager: str) -> dict[str, Any]:
    parts = (material.trusted, material.authority_key, material.certificate, material.key)
    data = {name: base64.b64encode(part).decode() for name, part in zip(_FILES, parts, strict=True)}
    metadata = {
        **secret["metadata"],
        "labels": {**(secret["metadata"].get("labels") or {}), Label.CERTIFICATES: manager},
    }
    return {**secret, "metadata": metadata, "data": {**(secret.get("data") or {}), **data}}


class CertificateKeeper:
    """Keeps one Secret filled, and the CA bundles in step with it."""

    def __init__(self, client: Client, place: Place, settings: WebhookSettings, manager: str) -> None:
        self._client = client
        self._place = place
        self._manager = manager
        namespace, name = place.secret
        self._secret = (namespace or client.config.namespace or "default", name)
        self._authority = authority_name(self._secret)
        self._lives = Lives(
            certificate=timedelta(days=settings.certificate_days), authority=timedelta(days=settings.authority_days)
        )

    async def material(self) -> Material:
        """Return the certificates to serve and to trust now; creates or renews them if due."""
        for _ in range(_TRIES):
            secret = await self._find()
            held = None if secret is None else _held(secret)
            wanted = renewed(
                held, authority=self._authority, hosts=self._place.hosts, now=wall_clock(), lives=self._lives
            )
            if wanted is held:
                return wanted
            if await self._store(secret, wanted):
                return wanted
        raise ConfigError(f"Secret {'/'.join(self._secret)} changes faster than certificates can be put into it")

    async def _find(self) -> Object | None:
        namespace, name = self._secret
        try:
            return await self._client.get(SECRET, name, namespace)
        except NotFound:
            return None

    async def _store(self, secret: Object | None, material: Material) -> bool:
        """Write a Secret; returns False if another write won."""
        path = "/".join(self._secret)
        try:
            if secret is None:
                await self._client.create(Object(_filled(self._empty(), material, self._manager)))
            else:
                label = secret.metadata.label(Label.CERTIFICATES)
                if label != self._manager and (label or secret.get("data")):
                    raise NotOurs(
                        f"Secret {path} holds something and is not labelled {Label.CERTIFICATES}={self._manager}; "
                        "name another one in webhooks.secret, or delete it"
                    )
                await self._client.replace(Object(_filled(secret.data, material, self._manager)))
        except (AlreadyExists, Conflict):
            return False
        except Forbidden as error:
            if secret is not None:
                raise
            raise ConfigError(
                f"Secret {path} does not exist, and there is no right to create it: apply what `konverge webhooks` prints"
            ) from error
        return True

    def _empty(self) -> dict[str, Any]:
        namespace, name = self._secret
        return empty_secret(
            Place(self._place.configuration, (namespace, name), self._place.service, self._place.url), self._manager
        )

    async def inject(self, webhooks: Sequence[Webhook[Any]], trusted: bytes) -> list[str]:
        """Update the CA bundles of these webhooks; returns the obstacles, in words."""
        problems: list[str] = []
        for what, mutates in ((MUTATING, True), (VALIDATING, False)):
            ours = {one.name: self._place.client_config(one.path) for one in webhooks if one.mutates is mutates}
            if not ours:
                continue
            try:
                found = await self._client.get(what, self._place.configuration)
            except NotFound:
                problems.append(
                    f"there is no {what.kind} {self._place.configuration}: apply what `konverge webhooks` prints"
                )
                continue
            patch, odd = injection(found.data, ours, trusted, self._authority)
            problems += odd
            if patch:
                problems += await self._patch(what, patch)
        return problems

    async def _patch(self, what: Any, patch: Sequence[Mapping[str, Any]]) -> list[str]:
        name = self._place.configuration
        try:
            await self._client.patch(what, name, patch=patch, style="json")
        except (Conflict, Invalid) as error:
            return [
                f"{what.kind} {name} changed while the CA bundle was put into it; it is tried again ({error.message})"
            ]
        return []


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
        present = entry.get("clientConfig") or {}
        if _target(present) != _target(wanted):
            problems.append(
                f"{entry['name']} of {name} leads to {_target(present)} and not to {_target(wanted)}: it is left alone"
            )
            continue
        bundle = base64.b64decode(present.get("caBundle") or "")
        if bundle == trusted:
            continue
        if bundle.strip() and not is_of_authority(bundle, authority):
            problems.append(
                f"{entry['name']} of {name} trusts certificates that are not ours: remove its caBundle to have ours put in"
            )
            continue
        patch += [
            {"op": "test", "path": f"/webhooks/{index}/name", "value": entry["name"]},
            {"op": "test", "path": f"/webhooks/{index}/clientConfig", "value": present},
            {
                "op": "add",
                "path": f"/webhooks/{index}/clientConfig/caBundle",
                "value": base64.b64encode(trusted).decode(),
            },
        ]
    return patch, problems


def _target(client: Mapping[str, Any]) -> str:
    """Return the target of a `clientConfig`, with the API server's defaults."""
    service = client.get("service")
    if service is None:
        return str(client.get("url") or "nowhere")
    return f"{service['namespace']}/{service['name']}:{service.get('port') or 443}{service.get('path') or '/'}"
