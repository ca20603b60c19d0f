"""The Secrets of an instance: which Secrets it needs, which are generated, and their content.

A Secret is generated once, before the release exists. A Secret that is deleted later is reported and not generated again, because the
database and the volume of Nextcloud have the old password.

Guarantees: pure; randomness is an argument, and the daemon passes `random.SystemRandom()`. A password is in no repr.
"""

from __future__ import annotations

import base64
import string
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

from konverge.crds.pools_v1alpha1 import InstanceSettings, NextcloudInstance
from konverge.objects import Object
from konverge.reconcilers.pools.instances.backups import backup_target
from konverge.reconcilers.pools.instances.databases import engine_of
from konverge.reconcilers.pools.instances.file_backups import copy_target
from konverge.reconcilers.pools.instances.names import secret_name
from konverge.reconcilers.pools.kinds import SECRET
from konverge.runtime import back_reference

__all__ = [
    "NeededSecret",
    "content_of",
    "external_database",
    "generated_secret",
    "needed_secrets",
    "password",
]

_LETTERS: Final = string.ascii_letters + string.digits
_LENGTH: Final = 32


@dataclass(frozen=True, slots=True)
class NeededSecret:
    """A Secret of the instance. `generated`: we create it if it is missing; otherwise its author does."""

    purpose: str
    name: str
    generated: bool = False


def needed_secrets(instance: str, spec: InstanceSettings) -> Iterator[NeededSecret]:
    """Yield the Secrets that must exist before the database; CloudNativePG creates the Secret of a managed database."""
    admin = spec.admin.credentials_secret if spec.admin else None
    yield NeededSecret("admin", admin or secret_name(instance, "admin"), generated=admin is None)
    if external_database(spec):
        assert spec.database is not None, "checked by external_database"
        yield NeededSecret("db", spec.database.credentials_secret or secret_name(instance, "db"))
    if spec.redis and spec.redis.enabled:
        given = spec.redis.credentials_secret
        yield NeededSecret("redis", given or secret_name(instance, "redis"), generated=given is None)
    if spec.s3 and spec.s3.enabled and spec.s3.credentials_secret:
        yield NeededSecret("s3", spec.s3.credentials_secret)
    target = backup_target(spec)
    if target is not None and target.credentials_secret:
        yield NeededSecret("backup", target.credentials_secret)
    copies = copy_target(spec)
    if copies is not None and copies.credentials_secret:
        yield NeededSecret("backup", copies.credentials_secret)
    if spec.mail and spec.mail.enabled:
        given = spec.mail.credentials_secret
        yield NeededSecret("mail", given or secret_name(instance, "mail"))


def external_database(spec: InstanceSettings) -> bool:
    """Tell whether the database exists elsewhere, and its Secret has the address."""
    return spec.database is not None and engine_of(spec) != "sqlite" and not spec.database.managed


def generated_secret(instance: NextcloudInstance, needed: NeededSecret, rng: Random) -> Object:
    """Return a new Secret of an instance."""
    labels, annotations = back_reference(instance)
    data = content_of(needed.purpose, rng)
    return SECRET.new(needed.name, instance.namespace, labels=labels, annotations=annotations, type="Opaque", data=data)


def password(rng: Random) -> str:
    """Return a password of 32 letters and digits: 190 bits.

    >>> len(password(Random(1)))
    32
    """
    return "".join(rng.choice(_LETTERS) for _ in range(_LENGTH))


def content_of(purpose: str, rng: Random) -> dict[str, str]:
    """Return the data of a generated Secret, in base64."""
    plain = {"redis-password": password(rng)}
    if purpose == "admin":
        plain = {"username": "admin", "password": password(rng)}
    return {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
