"""The account of an S3 server, from the Secret that `s3.credentialsSecret` names.

Keys are the keys of ObjectBucketClaims and most tools: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; optional are endpoint, region and
ca.crt.

Guarantees: pure; only `S3Access` has the content, and its repr hides it. Credentials of the administrators are given to no server that
a tenant named; a tenant's server is checked by `EndpointPolicy`.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

from konverge.crds.pools_v1alpha1 import AppliedS3Config, InstanceSettings, NextcloudInstanceSpec
from konverge.objects import Object
from konverge.reconcilers.pools.buckets import BucketFailure, BucketReason, S3Access
from konverge.reconcilers.pools.instances.names import claim_name
from konverge.reconcilers.pools.instances.settings import MaterialSettings
from konverge.reconcilers.pools.tenant_fields import endpoint_policy

__all__ = ["NamedBy", "access_from", "bucket_named_by", "keys_secret", "server_problem", "uses_path_style"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedBy:
    """Who named the credentials and the server of a bucket: True for the tenant, False for the administrators."""

    credentials: bool = False
    server: bool = False


def bucket_named_by(spec: NextcloudInstanceSpec, applied: AppliedS3Config, settings: MaterialSettings) -> NamedBy:
    """Return who named credentials and server of the bucket in use.

    A created bucket stays at its server if the tenant removes its fields, so the status records who named the server. Without an endpoint
    of the administrators a tenant's Secret names the server.
    """
    if applied.auto_created and settings.bucket_provider == "objectbucketclaim":
        return NamedBy()
    fields = spec.tenant_fields or ()
    credentials = "s3.credentialsSecret" in fields
    if applied.named_by_tenant is not None:
        return NamedBy(credentials=credentials, server=applied.named_by_tenant)
    by_secret = credentials and not applied.endpoint and not settings.s3_endpoint
    return NamedBy(credentials=credentials, server="s3.endpoint" in fields or by_secret)


def server_problem(named_by: NamedBy) -> str:
    """Return why the credentials must not be given to the server, "" if they may be."""
    if named_by.server and not named_by.credentials:
        return (
            "the Nextcloud named the server of the bucket, and the credentials are not the Nextcloud's: "
            "name the Secret of this server in s3.credentialsSecret of the Nextcloud"
        )
    return ""


def keys_secret(instance: str, spec: InstanceSettings, applied: AppliedS3Config, settings: MaterialSettings) -> str:
    """Return the name of the Secret with the keys of the bucket: the Secret of its ObjectBucketClaim, or the Secret that the spec names."""
    named = spec.s3.credentials_secret if spec.s3 is not None else None
    claimed = applied.auto_created and settings.bucket_provider == "objectbucketclaim"
    return claim_name(instance) if claimed or not named else named


def uses_path_style(spec: InstanceSettings, settings: MaterialSettings) -> bool:
    """Tell whether the bucket of an instance is in the path of a URL: by the spec, merged with its profile, or else by the settings."""
    style = spec.s3.path_style if spec.s3 is not None else None
    return settings.s3_path_style if style is None else style


def access_from(
    secret: Object | None,
    applied: AppliedS3Config,
    settings: MaterialSettings,
    *,
    path_style: bool,
    named_by: NamedBy = NamedBy(),
) -> S3Access | None:
    """Return the account; None if the Secret is missing or incomplete, or no endpoint is known.

    Raises BucketFailure if these credentials must not be sent to this server.
    """
    content = _plain(secret)
    access_key, secret_key = content.get("AWS_ACCESS_KEY_ID", ""), content.get("AWS_SECRET_ACCESS_KEY", "")
    endpoint = applied.endpoint or content.get("endpoint") or settings.s3_endpoint
    if not (access_key and secret_key and endpoint):
        return None
    by_tenant = named_by.server if applied.endpoint else named_by.credentials and bool(content.get("endpoint"))
    policy = endpoint_policy(settings)
    problem = server_problem(NamedBy(credentials=named_by.credentials, server=by_tenant))
    if by_tenant and not problem:
        problem = policy.refusal(endpoint)
    if problem:
        raise BucketFailure(BucketReason.ENDPOINT, problem)
    return S3Access(
        endpoint=endpoint,
        region=applied.region or content.get("region") or settings.s3_region,
        access_key=access_key,
        secret_key=secret_key,
        path_style=path_style,
        ca_bundle=content.get("ca.crt", ""),
        public_only=by_tenant and policy.needs_public_address(endpoint),
    )


def _plain(secret: Object | None) -> dict[str, str]:
    data = {} if secret is None else secret.get("data", default={}) or {}
    try:
        return {str(key): base64.b64decode(value, validate=True).decode().strip() for key, value in data.items()}
    except (binascii.Error, ValueError, TypeError):
        return {}
