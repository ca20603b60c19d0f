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
from konverge_testing.apiserver.strategies import texts
from konverge_testing.apiserver.strategies.base import (
    BuiltInStrategy,
    Data,
    Errors,
    duplicate,
    invalid,
    not_supported,
    required,
    selector_errors,
    text_errors,
)

__all__ = ["MutatingWebhooks", "ValidatingWebhooks"]

_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES: Final = ("*", "Cluster", "Namespaced")
_MOST_CONDITIONS: Final = 64
_FORM: Final = "; desired format: https://host[/path]"


class ValidatingWebhooks(BuiltInStrategy):
    """ValidatingWebhookConfiguration: webhooks that may refuse a change."""

    generation = True
    unconditional_update = False
    mutating = False

    def _intent_changed(self, new: Data, old: Data) -> bool:
        return bool(new.get("webhooks") != old.get("webhooks"))

    def _default(self, new: Data) -> None:
        for hook in new.get("webhooks") or ():
            hook.setdefault("failurePolicy", "Fail")
            hook.setdefault("matchPolicy", "Equivalent")
            hook.setdefault("namespaceSelector", {})
            hook.setdefault("objectSelector", {})
            hook.setdefault("timeoutSeconds", 10)
            if self.mutating:
                hook.setdefault("reinvocationPolicy", "Never")
            for rule in hook.get("rules") or ():
                rule.setdefault("scope", "*")
            service = (hook.get("clientConfig") or {}).get("service")
            if service is not None:
                service.setdefault("port", 443)

    def _errors(self, new: Data, old: Data | None) -> Errors:
        errors: Errors = []
        seen: set[str] = set()
        conditions = old is None or _conditions(new) != _conditions(old)
        for index, hook in enumerate(new.get("webhooks") or ()):
            path, name = f"webhooks[{index}]", hook.get("name", "")
            errors += _hook_errors(hook, path, self.mutating)
            if conditions:
                errors += _condition_errors(hook.get("matchConditions") or [], f"{path}.matchConditions")
            errors += _version_errors(hook.get("admissionReviewVersions") or [], f"{path}.admissionReviewVersions")
            if name and name in seen:
                errors.append(duplicate(f"{path}.name", name))
            seen.add(name)
        return errors


class MutatingWebhooks(ValidatingWebhooks):
    """Programs that may change what is being written."""

    mutating = True


def _hook_errors(hook: Data, path: str, mutating: bool) -> Errors:
    errors = _name_errors(hook.get("name", ""), f"{path}.name")
    for index, rule in enumerate(hook.get("rules") or ()):
        errors += _rule_errors(rule, f"{path}.rules[{index}]")
    for name, allowed in (("failurePolicy", ("Fail", "Ignore")), ("matchPolicy", ("Equivalent", "Exact"))):
        if hook.get(name) not in (None, *allowed):
            errors.append(not_supported(f"{path}.{name}", hook[name], allowed))
    effects, allowed = hook.get("sideEffects"), ("None", "NoneOnDryRun")
    if effects is None:
        errors.append(required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun"))
    elif effects not in allowed:
        errors.append(not_supported(f"{path}.sideEffects", effects, allowed))
    seconds = hook.get("timeoutSeconds", 10)
    if not 1 <= seconds <= 30:
        errors.append(invalid(f"{path}.timeoutSeconds", seconds, "the timeout value must be between 1 and 30 seconds"))
    for name in ("namespaceSelector", "objectSelector"):
        errors += selector_errors(hook.get(name), f"{path}.{name}")
    policy, allowed = hook.get("reinvocationPolicy"), ("IfNeeded", "Never")
    if mutating and policy not in (None, *allowed):
        errors.append(not_supported(f"{path}.reinvocationPolicy", policy, allowed))
    return errors + _client_errors(hook.get("clientConfig") or {}, f"{path}.clientConfig")


def _name_errors(name: str, path: str) -> Errors:
    if not name:
        return [required(path)]
    if found := names.dns1123_subdomain(name):
        return [invalid(path, name, ",".join(found))]
    if name.count(".") < 2:
        return [invalid(path, name, "should be a domain with at least three segments separated by dots")]
    return []


def _rule_errors(rule: Data, path: str) -> Errors:
    errors: Errors = []
    operations = rule.get("operations") or []
    if not operations:
        errors.append(required(f"{path}.operations"))
    if len(operations) > 1 and "*" in operations:
        errors.append(invalid(f"{path}.operations", operations, "if '*' is present, must not specify other operations"))
    for index, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            errors.append(not_supported(f"{path}.operations[{index}]", operation, _OPERATIONS))
    for name, what in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        values, where = rule.get(name) or [], f"{path}.{name}"
        if not values:
            errors.append(required(where))
        if len(values) > 1 and "*" in values:
            errors.append(invalid(where, values, f"if '*' is present, must not specify other {what}"))
        if name == "apiVersions":
            errors += [required(f"{where}[{index}]") for index, value in enumerate(values) if not value]
    errors += _resource_errors(rule.get("resources") or [], f"{path}.resources")
    if rule.get("scope") not in (None, *_SCOPES):
        errors.append(not_supported(f"{path}.scope", rule["scope"], _SCOPES))
    return errors


def _resource_errors(resources: list[str], path: str) -> Errors:
    errors: Errors = [] if resources else [required(path)]
    whole: set[str] = set()
    everywhere: set[str] = set()
    plain = False
    for index, each in enumerate(resources):
        here = f"{path}[{index}]"
        if not each:
            errors.append(required(here))
            continue
        resource, slash, sub = each.partition("/")
        if not slash:
            plain = each != "*"
            continue
        if resource in whole:
            errors.append(invalid(here, each, f"if '{resource}/*' is present, must not specify {each}"))
        if sub in everywhere:
            errors.append(invalid(here, each, f"if '*/{sub}' is present, must not specify {each}"))
        whole |= {resource} if sub == "*" else set()
        everywhere |= {sub} if resource == "*" else set()
    if len(resources) > 1 and "*/*" in resources:
        errors.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and plain:
        text = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid(path, resources, text))
    return errors


def _client_errors(config: Data, path: str) -> Errors:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(path, "exactly one of url or service is required")]
    return _service_errors(service, f"{path}.service") if service is not None else _url_errors(str(url), f"{path}.url")


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


def _service_errors(service: Data, path: str) -> Errors:
    # upstream hands name and namespace over in the wrong order, so each is missed at the other's place
    errors = [
        required(f"{path}.{other}")
        for name, other in (("namespace", "name"), ("name", "namespace"))
        if not service.get(name)
    ]
    port, target = service.get("port", 443), service.get("path")
    if found := texts.between(port, 1, 65535):
        errors.append(invalid(f"{path}.port", port, f"port is not valid: {found[0]}"))
    if target in (None, "", "/"):
        return errors
    where = f"{path}.path"
    if target == "//":
        return [*errors, invalid(where, target, "segment[0] may not be empty")]
    if not target.startswith("/"):
        errors.append(invalid(where, target, "must start with a '/'"))
    for index, step in enumerate(target[1:].removesuffix("/").split("/")):
        if not step:
            errors.append(invalid(where, target, f"segment[{index}] may not be empty"))
            continue
        errors += [invalid(where, target, f"segment[{index}]: {text}") for text in names.dns1123_subdomain(step)]
    return errors


def _version_errors(versions: list[str], path: str) -> Errors:
    if not versions:
        return [required(path, "must specify one of v1, v1beta1")]
    errors: Errors = []
    for index, version in enumerate(versions):
        if version in versions[:index]:
            errors.append(invalid(f"{path}[{index}]", version, "duplicate version"))
            continue
        errors += text_errors(f"{path}[{index}]", version, names.dns1035_label)
    if not set(versions) & {"v1", "v1beta1"}:
        errors.append(invalid(path, versions, "must include at least one of v1, v1beta1"))
    return errors


def _conditions(found: Data) -> list[list[Data]]:
    return [hook.get("matchConditions") or [] for hook in found.get("webhooks") or ()]


def _condition_errors(conditions: list[Data], path: str) -> Errors:
    errors: Errors = []
    if len(conditions) > _MOST_CONDITIONS:
        errors.append(FieldError("TooMany", path, len(conditions), f"must have at most {_MOST_CONDITIONS} items"))
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        here, name = f"{path}[{index}]", condition.get("name", "")
        expression = condition.get("expression", "").strip()
        if not expression:
            errors.append(required(f"{here}.expression"))
        elif problem := _uncompiled(expression):
            errors.append(invalid(f"{here}.expression", expression, problem))
        errors += text_errors(f"{here}.name", name, names.label_key) if name else [required(f"{here}.name")]
        if name and name in seen:
            errors.append(duplicate(f"{here}.name", name))
        seen.add(name)
    return errors


@lru_cache(maxsize=256)
def _uncompiled(expression: str) -> str:
    """Return the problem of an expression of a condition, "" if it has none."""
    # Here, because the compiler takes long to load, and few configurations have conditions.
    from konverge_testing.apiserver.cel import CompileError, Program, condition_types

    try:
        kind = Program(expression, condition_types()).kind
    except CompileError as error:
        return f"compilation failed: {error}"
    return "" if kind == "bool" else f"must evaluate to bool but got {kind}"
