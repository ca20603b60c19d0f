"""MutatingWebhookConfiguration and ValidatingWebhookConfiguration.

Source: `pkg/apis/admissionregistration/{v1/defaults,validation/validation}.go`, k8s.io/apiserver `pkg/util/webhook/validation.go`. Match
conditions that no update changes are not validated again.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from konverge_testing.apiserver import names
from konverge_testing.apiserver.statuses import FieldError
from konverge_testing.apiserver.strategies.base import BuiltInStrategy
from konverge_testing.apiserver.strategies.defaulting import Defaults
from konverge_testing.apiserver.strategies.errors import Data, Errors, invalid, required
from konverge_testing.apiserver.strategies.labels import selector_errors
from konverge_testing.apiserver.strategies.rules import (
    Rule,
    among,
    at,
    between,
    each,
    given,
    must,
    need,
    present,
    struct,
    text,
    unique,
)

__all__ = ["MutatingWebhooks", "ValidatingWebhooks"]

_MOST_CONDITIONS: Final = 64
_FORM: Final = "; desired format: https://host[/path]"


def _name(name: str, path: str) -> Errors:
    if problems := names.dns1123_subdomain(name):
        return [invalid(path, name, ",".join(problems))]
    if name.count(".") < 2:
        return [invalid(path, name, "should be a domain with at least three segments separated by dots")]
    return []


def _only(what: str) -> Rule:
    return must(
        lambda values: len(values) < 2 or "*" not in values, f"if '*' is present, must not specify other {what}"
    )


def _resource_errors(resources: list[str], path: str) -> Errors:
    errors: Errors = []
    whole: set[str] = set()
    everywhere: set[str] = set()
    plain = False
    for index, named in enumerate(resources):
        here = f"{path}[{index}]"
        if not named:
            errors.append(required(here))
            continue
        resource, slash, sub = named.partition("/")
        if not slash:
            plain = named != "*"
            continue
        if resource in whole:
            errors.append(invalid(here, named, f"if '{resource}/*' is present, must not specify {named}"))
        if sub in everywhere:
            errors.append(invalid(here, named, f"if '*/{sub}' is present, must not specify {named}"))
        whole |= {resource} if sub == "*" else set()
        everywhere |= {sub} if resource == "*" else set()
    if len(resources) > 1 and "*/*" in resources:
        errors.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and plain:
        text = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid(path, resources, text))
    return errors


def _url_errors(url: str, path: str) -> Errors:
    parts = urlsplit(url)
    errors: Errors = []
    if parts.scheme != "https":
        errors.append(invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}"))
    user, _, host = parts.netloc.rpartition("@")
    if not host:
        errors.append(invalid(path, "", f"host must be specified{_FORM}"))
    if user:
        errors.append(invalid(path, user, "user information is not permitted in the URL"))
    if parts.fragment:
        errors.append(invalid(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        errors.append(invalid(path, parts.query, "query parameters are not permitted in the URL"))
    return errors


def _swapped(service: Data, path: str) -> Errors:
    # upstream swaps name and namespace, so each is reported as missing at the other's path
    pairs = (("namespace", "name"), ("name", "namespace"))
    return [required(f"{path}.{other}") for name, other in pairs if not service.get(name)]


def _service_port(service: Data, path: str) -> Errors:
    words = "port is not valid: must be between 1 and 65535, inclusive"
    return between(1, 65535, words)(service.get("port", 443), f"{path}.port")


def _service_path(target: str, path: str) -> Errors:
    if target in ("", "/"):
        return []
    if target == "//":
        return [invalid(path, target, "segment[0] may not be empty")]
    words = [] if target.startswith("/") else ["must start with a '/'"]
    for index, step in enumerate(target[1:].removesuffix("/").split("/")):
        problems = [f": {problem}" for problem in names.dns1123_subdomain(step)] if step else [" may not be empty"]
        words += [f"segment[{index}]{problem}" for problem in problems]
    return [invalid(path, target, word) for word in words]


def _version_errors(versions: list[str], path: str) -> Errors:
    errors: Errors = []
    for index, version in enumerate(versions):
        here = f"{path}[{index}]"
        repeated = version in versions[:index]
        errors += (
            [invalid(here, version, "duplicate version")] if repeated else text(names.dns1035_label)(version, here)
        )
    if not set(versions) & {"v1", "v1beta1"}:
        errors.append(invalid(path, versions, "must include at least one of v1, v1beta1"))
    return errors


def _conditions(configuration: Data) -> list[list[Data]]:
    return [hook.get("matchConditions") or [] for hook in configuration.get("webhooks") or ()]


def _expression(condition: Data, path: str) -> Errors:
    expression = condition.get("expression", "").strip()
    if not expression:
        return [required(f"{path}.expression")]
    problem = _uncompiled(expression)
    return [invalid(f"{path}.expression", expression, problem)] if problem else []


_each_condition: Final = each(_expression, need("name", text(names.label_key)), unique("name"))


def _condition_errors(conditions: list[Data], path: str) -> Errors:
    words = f"must have at most {_MOST_CONDITIONS} items"
    many = len(conditions) > _MOST_CONDITIONS
    errors = [FieldError("TooMany", path, len(conditions), words)] if many else []
    return errors + _each_condition(conditions, path)


@lru_cache(maxsize=256)
def _uncompiled(expression: str) -> str:
    """Return the error of a condition's expression, "" if it has none."""
    # Imported here: the compiler is slow to load, and few configurations have conditions.
    from konverge_testing.apiserver.cel import CompileError, Program, condition_types

    try:
        kind = Program(expression, condition_types()).kind
    except CompileError as error:
        return f"compilation failed: {error}"
    return "" if kind == "bool" else f"must evaluate to bool but got {kind}"


def _client(config: Data, path: str) -> Errors:
    if (config.get("url") is None) == (config.get("service") is None):
        return [required(path, "exactly one of url or service is required")]
    return given("service", _swapped, _service_port, given("path", _service_path))(config, path) + given(
        "url", _url_errors
    )(config, path)


_hook: Final = struct(
    need("name", _name),
    at(
        "rules",
        each(
            need("operations", _only("operations")),
            at("operations", each(among("*", "CONNECT", "CREATE", "DELETE", "UPDATE"))),
            need("apiGroups", _only("API groups")),
            need("apiVersions", _only("API versions"), each(lambda version, path: [] if version else [required(path)])),
            need("resources", _resource_errors),
            given("scope", among("*", "Cluster", "Namespaced")),
        ),
    ),
    given("failurePolicy", among("Fail", "Ignore")),
    given("matchPolicy", among("Equivalent", "Exact")),
    present("sideEffects", among("None", "NoneOnDryRun"), detail="must specify one of None, NoneOnDryRun"),
    given("timeoutSeconds", between(1, 30, "the timeout value must be between 1 and 30 seconds")),
    given("namespaceSelector objectSelector", selector_errors),
)
_mutating: Final = given("reinvocationPolicy", among("IfNeeded", "Never"))
_client_config: Final = at("clientConfig", _client)
_versions: Final = need("admissionReviewVersions", _version_errors, detail="must specify one of v1, v1beta1")


class ValidatingWebhooks(BuiltInStrategy):
    """ValidatingWebhookConfiguration: webhooks that may reject a change."""

    generation = True
    unconditional_update = False
    hook_rules = struct(_hook, _client_config)
    defaults: Defaults = (
        ("webhooks[].failurePolicy", "Fail"),
        ("webhooks[].matchPolicy", "Equivalent"),
        ("webhooks[].namespaceSelector", {}),
        ("webhooks[].objectSelector", {}),
        ("webhooks[].timeoutSeconds", 10),
        ("webhooks[].rules[].scope", "*"),
        ("webhooks[].clientConfig?.service?.port", 443),
    )

    def _intent_changed(self, new: Data, old: Data) -> bool:
        return bool(new.get("webhooks") != old.get("webhooks"))

    def _errors(self, new: Data, old: Data | None) -> Errors:
        conditions = given("matchConditions", _condition_errors)
        changed = old is None or _conditions(new) != _conditions(old)
        rows = (self.hook_rules, *((conditions,) if changed else ()), _versions, unique("name"))
        return at("webhooks", each(*rows))(new, "")


class MutatingWebhooks(ValidatingWebhooks):
    """MutatingWebhookConfiguration: webhooks that may change an object."""

    hook_rules = struct(_hook, _mutating, _client_config)
    defaults = (*ValidatingWebhooks.defaults, ("webhooks[].reinvocationPolicy", "Never"))
