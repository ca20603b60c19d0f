"""The fields that a tenant may set, the Secrets that it may name, and the servers that get credentials: decisions, row by row."""

import base64
from typing import Any

import pytest

from konverge.crds.pools_v1alpha1 import (
    AppliedS3Config,
    InstanceSettings,
    Nextcloud,
    NextcloudInstanceSpec,
    TemplateSettings,
)
from konverge.objects import Object
from konverge.reconcilers.pools.buckets import BucketFailure
from konverge.reconcilers.pools.claims.render import tenant_intent
from konverge.reconcilers.pools.instances import MaterialSettings as Settings
from konverge.reconcilers.pools.instances.access import NamedBy, access_from, bucket_named_by
from konverge.reconcilers.pools.instances.decide import release_problem
from konverge.reconcilers.pools.instances.file_backups import copy_spec, copy_target
from konverge.reconcilers.pools.kinds import SECRET
from konverge.reconcilers.pools.tenant_fields import (
    TENANT_FIELDS,
    grants,
    policy_of,
    recorded_fields,
    refusal,
    secrets_of_tenant,
)

OWN = {"bucket": "files", "credentialsSecret": "mine"}


def backup(**s3: Any) -> dict[str, Any]:
    return {"database": {"managed": True, "postgres": {"backup": {"enabled": True, "s3": s3}}}}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"helm": {"version": "9.2.4"}}, "helm.version: only the administrators"),
        ({"helm": {"values": {"image": {"repository": "evil"}}}}, "helm.values: only the administrators"),
        ({"helm": {"values": {}, "version": "1"}}, "helm.version and helm.values: only the administrators"),
        ({"version": "33.0.1-evil"}, "version: write numbers"),
        ({"version": "a.b.c"}, "version: write numbers"),
        ({"ingress": {"host": "a.example.com\nprivileged: true"}}, "ingress.host"),
        ({"ingress": {"host": "a.example.com\n"}}, "ingress.host"),
        ({"ingress": {"host": "{{ .Values.x }}"}}, "ingress.host"),
        ({"ingress": {"annotations": {"nginx.ingress.kubernetes.io/server-snippet": "x"}}}, "server-snippet"),
        ({"ingress": {"annotations": {"cert-manager.io/issuer-kind": "x"}}}, "issuer-kind"),
        (
            {"ingress": {"annotations": {"nginx.ingress.kubernetes.io/proxy-body-size": "1m; load_module x"}}},
            "proxy-body-size: its value",
        ),
        ({"ingress": {"annotations": {"cert-manager.io/issuer": "a\nb"}}}, "its value"),
        ({"s3": {**OWN, "region": "$(SECRET)"}}, "s3.region"),
        ({"backups": {"data": {**OWN, "region": "$(SECRET)"}}}, "backups.data.region"),
        ({"s3": {**OWN, "endpoint": "http://s3.example.com"}}, "s3.endpoint"),
        ({"s3": {**OWN, "endpoint": "https://169.254.169.254"}}, "s3.endpoint"),
        ({"backups": {"data": {**OWN, "endpoint": "https://minio.minio.svc"}}}, "backups.data.endpoint"),
        (backup(**OWN, endpoint="https://10.0.0.1"), "database.postgres.backup.s3.endpoint"),
        ({"s3": {"endpoint": "https://s3.example.com"}}, "s3.endpoint: name a Secret of your own"),
        ({"s3": {"bucket": "of-another-tenant"}}, "s3.bucket: name a Secret of your own"),
        ({"backups": {"data": {"bucket": "files"}}}, "backups.data.bucket: name a Secret"),
        ({"backups": {"data": {"endpoint": "https://s3.example.com"}}}, "backups.data.endpoint: name a Secret"),
        (backup(bucket="files"), "database.postgres.backup.s3.bucket: name a Secret"),
    ],
)
def test_field_of_the_administrators_is_refused_with_its_name(spec: dict[str, Any], words: str) -> None:
    InstanceSettings.model_validate(spec)  # the definition does not reject a stored object

    assert words in refusal(spec, policy_of({}, Settings()))


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"version": "33.0.1"},
        {"version": "33"},
        {"version": "stable"},
        {"ingress": {"enabled": True, "host": "cloud.example.com", "tls": {"enabled": True}}},
        {"ingress": {"annotations": {"cert-manager.io/cluster-issuer": "letsencrypt"}}},
        {"s3": {"enabled": True}},
        {"s3": {**OWN, "endpoint": "https://s3.example.com", "region": "eu-central-1"}},
        {"s3": OWN},
        {"backups": {"data": {"enabled": True, "schedule": "0 3 * * *"}}},
        {"apps": ["mail"], "replicas": 2, "resources": {"limits": {"cpu": 1}}},
    ],
)
def test_field_of_the_tenant_is_allowed(spec: dict[str, Any]) -> None:
    assert refusal(spec, policy_of({}, Settings())) == ""


HELM = {"helm": {"values": {"a": 1}, "version": "9.2.4"}, "version": "33.0.1-fpm"}


@pytest.mark.parametrize(
    ("instance", "settings", "words"),
    [
        ({"tenantHelm": True}, {}, "needs a service account"),
        ({}, {"tenant_helm": True}, "needs a service account"),
        ({"serviceAccountName": "installer"}, {}, "only the administrators"),
        ({"tenantHelm": False}, {"tenant_helm": True, "service_account": "installer"}, "only the administrators"),
        ({"tenantHelm": True, "serviceAccountName": "installer"}, {}, ""),
        ({"tenantHelm": True}, {"service_account": "installer"}, ""),
        ({}, {"tenant_helm": True, "service_account": "installer"}, ""),
    ],
)
def test_chart_of_a_tenant_needs_a_permission_and_a_service_account(
    instance: dict[str, Any], settings: dict[str, Any], words: str
) -> None:
    problem = refusal(HELM, policy_of(instance, Settings(**settings)))

    assert words in problem
    assert bool(problem) == bool(words)


def test_settings_open_endpoints_and_annotations() -> None:
    settings = Settings(s3_endpoints=("http://minio.minio.svc:9000",), tenant_annotations=("example.com/*",))
    spec = {
        "s3": {**OWN, "endpoint": "http://minio.minio.svc:9000"},
        "ingress": {"annotations": {"example.com/size": "1m"}},
    }

    assert refusal(spec, policy_of({}, settings)) == ""
    assert "cert-manager.io/issuer" in refusal(
        {"ingress": {"annotations": {"cert-manager.io/issuer": "x"}}}, policy_of({}, settings)
    )


def test_message_is_bounded_and_names_no_value() -> None:
    annotations = {f"evil.example.com/{number}": "hunter2" for number in range(1000)}
    problem = refusal({"ingress": {"annotations": annotations}}, policy_of({}, Settings()))

    assert len(problem) < 1100
    assert "hunter2" not in problem


def test_only_fields_of_a_nextcloud_reach_its_instance() -> None:
    own = {field.alias or name for name, field in NextcloudInstanceSpec.model_fields.items()}
    assert own - TENANT_FIELDS == {
        *("serviceAccountName", "tenantHelm", "tenantFields"),
        *("profile", "claimRef", "reclaimPolicy", "allowedNamespaces"),
    }
    spec = {"replicas": 2, "instanceRef": {"name": "a"}, "poolSelector": {}, "profile": "p"}
    claim = Nextcloud.decode({"metadata": {"name": "n", "namespace": "web", "uid": "u"}, "spec": spec})
    assert tenant_intent(claim, "i", "clouds").to_dict()["spec"].keys() == {"replicas", "claimRef"}


def test_fields_about_secrets_and_servers_are_recorded_on_the_instance() -> None:
    spec = {
        "admin": {"credentialsSecret": "a"},
        "ingress": {"tls": {"secretName": "t"}},
        "s3": {"endpoint": "https://s3.example.com", **OWN},
        "mail": {"enabled": True},
    }
    claim = Nextcloud.decode({"metadata": {"name": "n", "namespace": "web", "uid": "u"}, "spec": spec})
    recorded = tenant_intent(claim, "i", "clouds").to_dict()["spec"]["tenantFields"]

    assert set(recorded) == {"admin.credentialsSecret", "ingress.tls.secretName", "s3.endpoint", "s3.credentialsSecret"}
    assert recorded == recorded_fields(spec)


def _secret_fields(model: type[Any], path: str = "") -> set[str]:
    """Return the paths of all fields of a model whose name ends with Secret or secretName."""
    paths: set[str] = set()
    for name, field in model.model_fields.items():
        alias = field.alias or name
        for part in (field.annotation, *getattr(field.annotation, "__args__", ())):
            inner = getattr(part, "__origin__", part)
            if isinstance(inner, type) and hasattr(inner, "model_fields"):
                paths |= _secret_fields(inner, f"{path}{alias}.")
        if alias.lower().endswith(("secret", "secretname")):
            paths.add(f"{path}{alias}")
    return paths


def test_each_field_that_names_a_secret_needs_a_grant() -> None:
    paths = _secret_fields(InstanceSettings)
    assert len(paths) >= 8
    for path in paths:
        spec: Any = "named"
        for name in reversed(path.split(".")):
            spec = {name: spec}
        assert recorded_fields(spec) == [path]
        given = NextcloudInstanceSpec.model_validate({**spec, "tenantFields": [path]})
        assert secrets_of_tenant(given) == ["named"]
        assert secrets_of_tenant(NextcloudInstanceSpec.model_validate(spec)) == []


@pytest.mark.parametrize(
    ("labels", "tenant", "granted"),
    [
        ({"k8s.bnerd.com/tenant": "web"}, "web", True),
        ({"k8s.bnerd.com/tenant": "shop"}, "web", False),
        ({"k8s.bnerd.com/tenant": ""}, "", False),
        ({}, "web", False),
    ],
)
def test_a_secret_is_granted_by_its_own_label(labels: dict[str, str], tenant: str, granted: bool) -> None:
    assert grants(SECRET.new("s", "clouds", labels=labels), tenant) is granted
    assert not grants(None, tenant)


def keys(**data: str) -> Object:
    content = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key", **data}
    return SECRET.new("s", "a", data={key: base64.b64encode(value.encode()).decode() for key, value in content.items()})


PRIVATE, PUBLIC = "http://minio.minio.svc:9000", "https://s3.example.com"


@pytest.mark.parametrize(
    ("secret", "endpoint", "named_by", "settings", "expected"),
    [
        (keys(), PRIVATE, NamedBy(), {}, (PRIVATE, False)),
        (keys(endpoint=PRIVATE), None, NamedBy(), {}, (PRIVATE, False)),
        (keys(), None, NamedBy(credentials=True), {"s3_endpoint": PRIVATE}, (PRIVATE, False)),
        (keys(), PUBLIC, NamedBy(credentials=True, server=True), {}, (PUBLIC, True)),
        (
            keys(),
            PUBLIC,
            NamedBy(credentials=True, server=True),
            {"s3_endpoints": ("s3.example.com",)},
            (PUBLIC, False),
        ),
        (keys(), PUBLIC, NamedBy(server=True), {}, None),
        (keys(), PRIVATE, NamedBy(credentials=True, server=True), {}, None),
        (keys(), PRIVATE, NamedBy(credentials=True, server=True), {"s3_endpoints": (PRIVATE,)}, (PRIVATE, False)),
        (keys(endpoint=PRIVATE), None, NamedBy(credentials=True), {"s3_endpoint": PUBLIC}, None),
        (keys(endpoint=PUBLIC), None, NamedBy(credentials=True), {}, (PUBLIC, True)),
        (keys(endpoint=PRIVATE), PUBLIC, NamedBy(credentials=True, server=True), {}, (PUBLIC, True)),
    ],
)
def test_credentials_go_to_the_server_of_the_side_that_named_them(
    secret: Object,
    endpoint: str | None,
    named_by: NamedBy,
    settings: dict[str, Any],
    expected: tuple[str, bool] | None,
) -> None:
    def access() -> Any:
        applied = AppliedS3Config(endpoint=endpoint)
        return access_from(secret, applied, Settings(**settings), path_style=True, named_by=named_by)

    if expected is None:
        with pytest.raises(BucketFailure) as caught:
            access()
        assert caught.value.reason == "BucketEndpointRefused"
    else:
        assert (access().endpoint, access().public_only) == expected


BOTH, KEYS = ("s3.endpoint", "s3.credentialsSecret"), ("s3.credentialsSecret",)


@pytest.mark.parametrize(
    ("fields", "applied", "settings", "expected"),
    [
        ((), {}, {}, (False, False)),
        (BOTH, {}, {}, (True, True)),
        (KEYS, {}, {}, (True, True)),
        (KEYS, {}, {"s3_endpoint": PRIVATE}, (True, False)),
        (KEYS, {"endpoint": PRIVATE}, {}, (True, False)),
        ((), {"auto_created": True, "endpoint": PUBLIC, "named_by_tenant": True}, {}, (False, True)),
        (BOTH, {"auto_created": True, "endpoint": PRIVATE, "named_by_tenant": False}, {}, (True, False)),
        (BOTH, {"auto_created": True}, {"bucket_provider": "objectbucketclaim"}, (False, False)),
    ],
)
def test_a_created_bucket_stays_with_the_side_that_named_its_server(
    fields: tuple[str, ...], applied: dict[str, Any], settings: dict[str, Any], expected: tuple[bool, bool]
) -> None:
    spec = NextcloudInstanceSpec(tenant_fields=fields)
    found = bucket_named_by(spec, AppliedS3Config(**applied), Settings(**settings))

    assert (found.credentials, found.server) == expected


def test_variables_of_a_copy_expand_no_reference_to_a_key() -> None:
    reference = "$(RCLONE_CONFIG_FILES_SECRET_ACCESS_KEY)"
    data = {**OWN, "enabled": True, "endpoint": f"https://s3.example.com/{reference}", "region": reference}
    target = copy_target(InstanceSettings.model_validate({"s3": {"enabled": True}, "backups": {"data": data}}))
    assert target is not None
    source = AppliedS3Config(bucket="files", endpoint=f"https://{reference}.example.com", region=reference)
    spec = copy_spec(source, "keys", target, "folder", Settings(), path_style=True)
    (container,) = spec["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    texts = [variable.get("value", "") for variable in container["env"]] + container["args"]

    assert sum(reference in text for text in texts) == 4
    assert not any(text.replace("$$", "").count("$(") for text in texts)


@pytest.mark.parametrize(
    ("spec", "settings", "reason"),
    [
        ({}, {}, ""),
        ({"serviceAccountName": "installer"}, {}, "ServiceAccountNotAllowed"),
        ({"serviceAccountName": "installer"}, {"service_account": "installer"}, ""),
        ({"serviceAccountName": "other"}, {"service_account": "installer"}, "ServiceAccountNotAllowed"),
        ({"serviceAccountName": "other"}, {"allowed_service_accounts": ("other",)}, ""),
        ({"serviceAccountName": "other"}, {"allowed_service_accounts": ("*",)}, ""),
        ({"ingress": {"host": "a\nb"}}, {}, "HostInvalid"),
        ({"ingress": {"host": "cloud.example.com"}}, {}, ""),
    ],
)
def test_release_needs_an_allowed_account_and_a_host_name(
    spec: dict[str, Any], settings: dict[str, Any], reason: str
) -> None:
    problem = release_problem(TemplateSettings.model_validate(spec), Settings(**settings))

    assert ("" if problem is None else problem.reason) == reason
