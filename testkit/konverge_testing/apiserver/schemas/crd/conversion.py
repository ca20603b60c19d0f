"""The conversion of a CustomResourceDefinition: None, or a complete webhook.

Guarantees: pure. Source: apiextensions `pkg/apis/apiextensions/validation/validation.go`, k8s.io/apiserver
`pkg/util/webhook/validation.go`.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from konverge_testing.apiserver.names import dns1035_label
from konverge_testing.apiserver.statuses import FieldError

__all__ = ["conversion_errors"]

Data = dict[str, Any]


def conversion_errors(conversion: Data | None, path: str) -> list[FieldError]:
    """Return the errors of spec.conversion; the paths follow the internal form."""
    if conversion is None:
        return []
    strategy, webhook = conversion.get("strategy") or "", conversion.get("webhook") or {}
    client, reviews = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    errors: list[FieldError] = []
    if not strategy:
        errors.append(FieldError("Required", f"{path}.strategy"))
    elif strategy not in ("None", "Webhook"):
        errors.append(FieldError("NotSupported", f"{path}.strategy", strategy, 'supported values: "None", "Webhook"'))
    if strategy == "Webhook":
        return (
            errors
            + _client(client, f"{path}.webhookClientConfig")
            + _reviews(reviews, f"{path}.conversionReviewVersions")
        )
    words = "should not be set when strategy is not set to Webhook"
    if client is not None:
        errors.append(FieldError("Forbidden", f"{path}.webhookClientConfig", "", words))
    if reviews:
        errors.append(FieldError("Forbidden", f"{path}.conversionReviewVersions", "", words))
    return errors


def _client(client: Data | None, path: str) -> list[FieldError]:
    if client is None:
        return [FieldError("Required", path, "", "required when strategy is set to Webhook")]
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        return [FieldError("Required", path, "", "exactly one of url or service is required")]
    if url is not None:
        return _url(url, f"{path}.url")
    found: Data = service or {}
    errors = [FieldError("Required", f"{path}.service.{name}") for name in ("name", "namespace") if not found.get(name)]
    port = found.get("port", 443)
    if not 1 <= port <= 65535:
        words = "port is not valid: must be between 1 and 65535, inclusive"
        errors.append(FieldError("Invalid", f"{path}.service.port", port, words))
    return errors


def _url(url: str, path: str) -> list[FieldError]:
    form = "; desired format: https://host[/path]"
    parts = urlsplit(url)
    errors: list[FieldError] = []
    if parts.scheme != "https":
        words = f"'https' is the only allowed URL scheme{form}"
        errors.append(FieldError("Invalid", path, parts.scheme, words))
    if not parts.netloc:
        errors.append(FieldError("Invalid", path, "", f"host must be specified{form}"))
    if parts.username is not None:
        errors.append(
            FieldError("Invalid", path, parts.netloc.rpartition("@")[0], "user information is not permitted in the URL")
        )
    if parts.fragment:
        errors.append(FieldError("Invalid", path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        errors.append(FieldError("Invalid", path, parts.query, "query parameters are not permitted in the URL"))
    return errors


def _reviews(versions: list[str], path: str) -> list[FieldError]:
    if not versions:
        return [FieldError("Required", path)]
    errors: list[FieldError] = []
    for index, version in enumerate(versions):
        if version in versions[:index]:
            errors.append(FieldError("Invalid", f"{path}[{index}]", version, "duplicate version"))
            continue
        errors += [FieldError("Invalid", f"{path}[{index}]", version, words) for words in dns1035_label(version)]
    if not {"v1", "v1beta1"} & set(versions):
        errors.append(FieldError("Invalid", path, versions, "must include at least one of v1, v1beta1"))
    return errors
