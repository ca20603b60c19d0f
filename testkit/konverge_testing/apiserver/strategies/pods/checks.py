"""The rules of the spec of a pod and of a pod template.

Left out: certificates and trust bundles of projected volumes, scheduling groups, annotations about seccomp and AppArmor. Source:
`pkg/apis/core/validation/validation.go`.
"""

from __future__ import annotations

from typing import Final

from konverge_testing.apiserver import names
from konverge_testing.apiserver.golang import Struct
from konverge_testing.apiserver.strategies import texts
from konverge_testing.apiserver.strategies.addresses import legacy_ip_errors
from konverge_testing.apiserver.strategies.amounts import requirement_errors
from konverge_testing.apiserver.strategies.errors import Data, Errors, duplicate, forbidden, invalid, required
from konverge_testing.apiserver.strategies.labels import annotation_errors, label_errors
from konverge_testing.apiserver.strategies.pods.containers import (
    PodContext,
    container_errors,
    ephemeral_container_errors,
    init_container_errors,
)
from konverge_testing.apiserver.strategies.pods.env import file_reference_errors
from konverge_testing.apiserver.strategies.pods.resources import pod_resource_errors
from konverge_testing.apiserver.strategies.pods.scheduling import affinity, gates, spread_errors, tolerations
from konverge_testing.apiserver.strategies.pods.security import (
    host_process_errors,
    host_user_errors,
    os_errors,
    pod_security_errors,
)
from konverge_testing.apiserver.strategies.pods.volumes import volume_errors
from konverge_testing.apiserver.strategies.rules import (
    among,
    at,
    between,
    each,
    filled,
    given,
    length,
    must,
    need,
    struct,
    text,
    unset,
)

__all__ = ["spec_errors", "template_errors"]

_MOST_SERVERS: Final = 3
_MOST_SEARCHES: Final = 32
_LONGEST_SEARCHES: Final = 2048

_label: Final = text(names.dns1123_label)
_subdomain: Final = text(names.dns1123_subdomain)


def spec_errors(spec: Data, path: str, *, pod: str | None = None) -> Errors:
    """Check the spec of a pod of this name, or (None) of a template."""
    errors, volumes = volume_errors(spec.get("volumes") or [], f"{path}.volumes", pod=pod)
    claims = spec.get("resourceClaims") or []
    errors += _claims(claims, f"{path}.resourceClaims")
    context = PodContext(
        volumes,
        frozenset(claim["name"] for claim in claims if claim.get("name")),
        spec.get("terminationGracePeriodSeconds"),
        spec.get("restartPolicy", ""),
        spec.get("hostUsers", True),
    )
    regular = spec.get("containers") or []
    errors += container_errors(regular, f"{path}.containers", context)
    errors += init_container_errors(spec.get("initContainers") or [], f"{path}.initContainers", regular, context)
    errors += ephemeral_container_errors(spec, f"{path}.ephemeralContainers", context)
    errors += pod_resource_errors(spec, f"{path}.resources") + _host_network(
        spec, f"{path}.containers", pod is not None
    )
    return errors + _rest(spec, path)


template_errors: Final = struct(
    lambda template, path: at("labels", label_errors)(template.get("metadata"), path),
    lambda template, path: at("annotations", annotation_errors)(template.get("metadata"), path),
    at("spec", spec_errors, unset("ephemeralContainers", "ephemeral containers not allowed in pod template")),
)
"""The rules of a pod template."""


def _claims(claims: list[Data], path: str) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    sources = ("resourceClaimName", "resourceClaimTemplateName")
    for index, claim in enumerate(claims):
        here, name = f"{path}[{index}]", claim.get("name", "")
        if name in seen:
            errors.append(duplicate(f"{here}.name", name))
        else:
            errors += need("name", _label)(claim, here)
            seen |= {name} - {""}
        count = sum(claim.get(source) is not None for source in sources)
        if count != 1:
            words = (
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
                if count
                else "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            )
            shown = Struct(Name=name) | {f"R{source[1:]}": claim.get(source) for source in sources}
            errors.append(invalid(here, Struct(shown), words))
        errors += given("resourceClaimName resourceClaimTemplateName", _subdomain)(claim, here)
    return errors


def _host_name(spec: Data, path: str) -> Errors:
    where = f"{path}.hostnameOverride"
    if spec.get("hostnameOverride") is None:
        return []
    fields = [field for field in ("setHostnameAsFQDN", "hostNetwork") if spec.get(field)]
    errors = [forbidden(where, f"may not be specified when {field} is true") for field in fields]
    return errors + at("hostnameOverride", length(64), _subdomain)(spec, path)


def _search(search: str, path: str) -> Errors:
    return [] if search == "." else text(texts.underscored_subdomain)(search.removesuffix("."), path)


_dns_config: Final = struct(
    given(
        "nameservers",
        must(lambda servers: len(servers) <= _MOST_SERVERS, f"must not have more than {_MOST_SERVERS} nameservers"),
        each(legacy_ip_errors),
    ),
    given(
        "searches",
        must(lambda all_: len(all_) <= _MOST_SEARCHES, f"must not have more than {_MOST_SEARCHES} search paths"),
        must(
            lambda all_: len(" ".join(all_)) <= _LONGEST_SEARCHES,
            f"must not have more than {_LONGEST_SEARCHES} characters (including spaces) in the search list",
        ),
        each(_search),
    ),
    at(
        "options",
        each(lambda option, path: [] if option.get("name") else [required(path, "must not be empty")]),
    ),
)


def _dns(spec: Data, path: str) -> Errors:
    config, none = spec.get("dnsConfig"), spec.get("dnsPolicy") == "None"
    if config is None:
        words = "must provide `dnsConfig` when `dnsPolicy` is None"
        return [required(f"{path}.dnsConfig", words)] if none else []
    if none and not config.get("nameservers"):
        words = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        return [required(f"{path}.dnsConfig.nameservers", words)]
    return _dns_config(config, f"{path}.dnsConfig")


_rest: Final = struct(
    at("restartPolicy", among("Always", "OnFailure", "Never")),
    at("dnsPolicy", among("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")),
    at("nodeSelector", label_errors),
    pod_security_errors,
    at("affinity", affinity),
    _dns,
    at("readinessGates", each(at("conditionType", text(names.label_key)))),
    at("schedulingGates", gates),
    at("topologySpreadConstraints", spread_errors),
    host_process_errors,
    host_user_errors,
    _host_name,
    filled("serviceAccountName nodeName", _subdomain),
    given("activeDeadlineSeconds", between(1, 2**31 - 1)),
    filled("hostname subdomain", _label),
    at("tolerations", tolerations),
    at("hostAliases", each(at("ip", legacy_ip_errors), at("hostnames", each(_subdomain)))),
    filled("priorityClassName runtimeClassName", _subdomain),
    given("preemptionPolicy", among("PreemptLowerPriority", "Never")),
    lambda spec, path: requirement_errors({"limits": spec.get("overhead")}, f"{path}.overhead"),
    os_errors,
    file_reference_errors,
)


def _host_network(spec: Data, path: str, is_pod: bool) -> Errors:
    if not spec.get("hostNetwork"):
        return []
    words = "must match `containerPort` when `hostNetwork` is true"
    return [
        invalid(f"{path}[{index}].ports[{number}].hostPort", port.get("hostPort", 0), words)
        for index, container in enumerate(spec.get("containers") or ())
        for number, port in enumerate(container.get("ports") or ())
        if (is_pod or port.get("hostPort")) and port.get("hostPort", 0) != port.get("containerPort", 0)
    ]
