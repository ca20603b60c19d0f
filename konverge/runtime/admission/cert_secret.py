"""Self-made certificates in a Secret that the replicas share, and their authority in the webhook configurations and definitions.

Guarantees:
- The Secret is written only if it differs, and by compare-and-swap: if replicas renew at once, the first write wins and the others
  use it. A Secret with data and without our label belongs to another writer and is never written.
- A CA bundle is written as `bundles.py` decides. Its JSON patch tests the place, so it fails after a change in between.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from konverge.clock import wall_clock
from konverge.crds import Conversion
from konverge.errors import AlreadyExists, ConfigError, Conflict, Forbidden, Invalid, NotFound, NotOurs
from konverge.objects import Object
from konverge.runtime.admission.bundles import definition_injection, injection
from konverge.runtime.admission.configurations import DEFINITION, MUTATING, SECRET, VALIDATING, empty_secret
from konverge.runtime.admission.settings import Place, WebhookSettings
from konverge.runtime.admission.webhook import Webhook
from konverge.runtime.tls.certificates import Lives, Material, authority_name, renewed
from konverge.words import Label

if TYPE_CHECKING:
    from konverge.client import Client

__all__ = ["CertificateKeeper"]

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

    async def inject(
        self, webhooks: Sequence[Webhook[Any]], trusted: bytes, conversions: Sequence[Conversion[Any]] = ()
    ) -> list[str]:
        """Update the CA bundles of these webhooks; returns the obstacles, in words."""
        problems = await self._inject_definitions(conversions, trusted)
        for what, mutates in ((MUTATING, True), (VALIDATING, False)):
            ours = {
                webhook.name: self._place.client_config(webhook.path)
                for webhook in webhooks
                if webhook.mutates is mutates
            }
            if not ours:
                continue
            try:
                configuration = await self._client.get(what, self._place.configuration)
            except NotFound:
                problems.append(
                    f"there is no {what.kind} {self._place.configuration}: apply what `konverge webhooks` prints"
                )
                continue
            patch, odd = injection(configuration.data, ours, trusted, self._authority)
            problems += odd
            if patch:
                problems += await self._patch(what, self._place.configuration, patch)
        return problems

    async def _inject_definitions(self, conversions: Sequence[Conversion[Any]], trusted: bytes) -> list[str]:
        problems: list[str] = []
        for conversion in conversions:
            try:
                definition = await self._client.get(DEFINITION, conversion.crd_name)
            except NotFound:
                problems.append(
                    f"there is no {DEFINITION.kind} {conversion.crd_name}: apply what `konverge crds` prints"
                )
                continue
            client = self._place.client_config(conversion.path)
            patch, odd = definition_injection(definition.data, client, trusted, self._authority)
            problems += odd
            if patch:
                problems += await self._patch(DEFINITION, conversion.crd_name, patch)
        return problems

    async def _patch(self, what: Any, name: str, patch: Sequence[Mapping[str, Any]]) -> list[str]:
        try:
            await self._client.patch(what, name, patch=patch, style="json")
        except (Conflict, Invalid) as error:
            return [
                f"{what.kind} {name} changed while the CA bundle was put into it; it is tried again ({error.message})"
            ]
        return []
