"""The account of an S3 server, from the Secret that `s3.credentialsSecret` names.

Keys are those that ObjectBucketClaims and most tools use: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; optional are endpoint, region and
ca.crt. Guarantees: pure; the content goes into `S3Access` alone, whose repr hides it.
"""

from __future__ import annotations

import base64
import binascii

from konverge.crds.pools_v1alpha1 import AppliedS3Config, InstanceSettings
from konverge.objects import Object
from konverge.reconcilers.pools.buckets import S3Access
from konverge.reconcilers.pools.instances.names import claim_name
from konverge.reconcilers.pools.instances.settings import MaterialSettings

__all__ = ["access_from", "keys_secret", "uses_path_style"]


def keys_secret(instance: str, spec: InstanceSettings, applied: AppliedS3Config, settings: MaterialSettings) -> str:
    """Return the name of the Secret with the keys of the bucket: that of its ObjectBucketClaim, or the one that the spec names."""
    named = spec.s3.credentials_secret if spec.s3 is not None else None
    claimed = applied.auto_created and settings.bucket_provider == "objectbucketclaim"
    return claim_name(instance) if claimed or not named else named


def uses_path_style(spec: InstanceSettings, settings: MaterialSettings) -> bool:
    """Tell whether the bucket of an instance is in the path of a URL: the spec says it, with its profile below it, or else the settings."""
    said = spec.s3.path_style if spec.s3 is not None else None
    return settings.s3_path_style if said is None else said


def access_from(
    secret: Object | None, applied: AppliedS3Config, settings: MaterialSettings, *, path_style: bool
) -> S3Access | None:
    """Return the account; None if the Secret is missing or incomplete, or no endpoint is known."""
    found = _plain(secret)
    access_key, secret_key = found.get("AWS_ACCESS_KEY_ID", ""), found.get("AWS_SECRET_ACCESS_KEY", "")
    endpoint = applied.endpoint or found.get("endpoint") or settings.s3_endpoint
    if not (access_key and secret_key and endpoint):
        return None
    return S3Access(
        endpoint=endpoint,
        region=applied.region or found.get("region") or settings.s3_region,
        access_key=access_key,
        secret_key=secret_key,
        path_style=path_style,
        ca_bundle=found.get("ca.crt", ""),
    )


def _plain(secret: Object | None) -> dict[str, str]:
    data = {} if secret is None else secret.get("data", default={}) or {}
    try:
        return {str(key): base64.b64decode(value, validate=True).decode().strip() for key, value in data.items()}
    except (binascii.Error, ValueError, TypeError):
        return {}
