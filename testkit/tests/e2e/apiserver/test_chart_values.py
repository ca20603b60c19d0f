"""charts/konverge rendered by helm: values have effects, a bad value is rejected with its path, and the rights equal `konverge rbac`."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import render_deploy
import yaml
from helm_template import CHART, NAMESPACE, Rendered, Right, Template, check_names, deep, merged, rights_of
from hosted import NAMES

from konverge.charts.values import values_of
from konverge.crds import all_manifests
from konverge.daemon.config import load
from konverge.daemon.families import DaemonSettings, installed_settings
from konverge.daemon.rbac import manifests, rules_for
from konverge.daemon.webhooks import manifests_of as webhook_manifests
from konverge.reconcilers.machines.family import FAMILY as MACHINES
from konverge.reconcilers.quota import definitions
from konverge.reconcilers.quota.family import FAMILY as QUOTA

pytestmark = pytest.mark.timeout(
    60, func_only=True
)  # the first test waits for the build of helm, which has its own limit

ROOT = CHART.parents[1]
OFF = ("clusters", "machines", "pools", "workspaces")
"""The families that are off by default."""
NONE = {"families": {name: {"enabled": False} for name in NAMES}}
EVERY_FAMILY = merged(
    {"families": {name: {"enabled": True} for name in NAMES}},
    {"families": {"workspaces": {"namespace": "kcp"}}},
)
ALONE: dict[str, Any] = {"replicas": 1, "election": {"enabled": False}}
WEBHOOKS: dict[str, Any] = {"webhooks": {"enabled": True}}
CERT_MANAGER = {"webhooks": {"enabled": True, "certificates": "certManager"}}
MONITORS = {"metrics": {"podMonitor": {"enabled": True}, "serviceMonitor": {"enabled": True}}}
SERVICE_MONITOR = {"metrics": {"serviceMonitor": {"enabled": True}}}
SECURE: dict[str, Any] = {"metrics": {"secure": {"enabled": True}}}
SECURE_BY_CERT_MANAGER = {"metrics": {"secure": {"enabled": True, "certificates": "certManager"}}}
TRACED: dict[str, Any] = {"tracing": {"enabled": True}}
RULE = {"prometheusRule": {"enabled": True}}
DASHBOARDS = {"dashboards": {"enabled": True}}
POLICY = {"networkPolicy": {"enabled": True}}
EXTRA = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {
        "name": '{{ include "konverge.fullname" . }}-extra',
        "namespace": "{{ .Release.Namespace }}",
        "labels": {"app.kubernetes.io/instance": "{{ .Release.Name }}"},
    },
}
EVERYTHING = merged(CERT_MANAGER, MONITORS, RULE, DASHBOARDS, POLICY)


def monitor(name: str) -> dict[str, tuple[Any, dict[str, Any]]]:
    relabeling = [{"action": "labeldrop", "regex": "pod"}]
    below = f"metrics.{name}"
    return {
        f"{below}.enabled": (True, {}),
        f"{below}.labels": ({"release": "p"}, MONITORS),
        f"{below}.interval": ("15s", MONITORS),
        f"{below}.scrapeTimeout": ("5s", MONITORS),
        f"{below}.relabelings": (relabeling, MONITORS),
        f"{below}.metricRelabelings": (relabeling, MONITORS),
    }


CHANGES: dict[str, tuple[Any, dict[str, Any]]] = {
    **{f"families.{name}.enabled": (name in OFF, {}) for name in NAMES},
    "families.pools.namespaces": (["web"], {"families": {"pools": {"enabled": True}}}),
    "families.workspaces.namespace": ("kcp", {"families": {"workspaces": {"enabled": True}}}),
    "watchNamespace": ("web", {"families": {"quota": {"enabled": False}}}),
    "settings.log_format": ("console", {}),
    "args": (["run", "--log-level=debug"], {}),
    "extraArgs": (["--log-level=debug"], {}),
    "global.imageRegistry": ("registry.example.com", {}),
    "image.registry": ("registry.example.com", {}),
    "image.repository": ("registry.example.com/konverge", {}),
    "image.tag": ("2", {}),
    "image.digest": ("sha256:" + "0" * 64, {}),
    "image.pullPolicy": ("Always", {}),
    "imagePullSecrets": ([{"name": "registry"}], {}),
    "nameOverride": ("other", {}),
    "fullnameOverride": ("other", {}),
    "commonLabels": ({"team": "a"}, {}),
    "commonAnnotations": ({"team": "a"}, {}),
    "replicas": (3, {}),
    "strategy": ({"type": "Recreate"}, {}),
    "revisionHistoryLimit": (2, {}),
    "election.enabled": (False, {"replicas": 1}),
    "sharding.mode": ("hash", {}),
    "podDisruptionBudget.enabled": (False, {}),
    "podDisruptionBudget.maxUnavailable": ("50%", {}),
    "podDisruptionBudget.minAvailable": (0, {}),
    "topologySpreadConstraints": ([{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}], {}),
    "nodeSelector": ({"kubernetes.io/os": "linux"}, {}),
    "tolerations": ([{"operator": "Exists"}], {}),
    "affinity": ({"nodeAffinity": {}}, {}),
    "priorityClassName": ("system-cluster-critical", {}),
    "runtimeClassName": ("gvisor", {}),
    "hostNetwork": (True, {}),
    "dnsPolicy": ("Default", {}),
    "dnsConfig": ({"searches": ["example.com"]}, {}),
    "hostAliases": ([{"ip": "10.0.0.1", "hostnames": ["registry"]}], {}),
    "automountServiceAccountToken": (False, {}),
    "terminationGracePeriodSeconds": (60, {}),
    "resources.requests.cpu": ("1", {}),
    "resources.requests.memory": ("1Gi", {}),
    "resources.limits.memory": ("1Gi", {}),
    "podSecurityContext.runAsNonRoot": (False, {}),
    "podSecurityContext.runAsUser": (1, {}),
    "podSecurityContext.runAsGroup": (1, {}),
    "podSecurityContext.seccompProfile.type": ("Unconfined", {}),
    "securityContext.allowPrivilegeEscalation": (True, {}),
    "securityContext.readOnlyRootFilesystem": (False, {}),
    "securityContext.capabilities.drop": ([], {}),
    "podLabels": ({"a": "b"}, {}),
    "podAnnotations": ({"a": "b"}, {}),
    "deploymentAnnotations": ({"a": "b"}, {}),
    "extraEnv": ([{"name": "A", "value": "b"}], {}),
    "extraEnvFrom": ([{"configMapRef": {"name": "a"}}], {}),
    "extraVolumes": ([{"name": "a", "emptyDir": {}}], {}),
    "extraVolumeMounts": ([{"name": "a", "mountPath": "/a"}], {}),
    "initContainers": ([{"name": "a", "image": "a"}], {}),
    "extraContainers": ([{"name": "a", "image": "a"}], {}),
    "extraObjects": ([EXTRA], {}),
    "probes.startup.periodSeconds": (2, {}),
    "probes.startup.failureThreshold": (9, {}),
    **{
        f"probes.{probe}.{name}": (9, {})
        for probe in ("liveness", "readiness")
        for name in ("periodSeconds", "timeoutSeconds", "failureThreshold")
    },
    "serviceAccount.create": (False, {}),
    "serviceAccount.name": ("other", {}),
    "serviceAccount.annotations": ({"a": "b"}, {}),
    "rbac.create": (False, {}),
    "userRoles.create": (False, {}),
    "userRoles.aggregateToView": (False, {}),
    "userRoles.aggregateToEdit": (True, {}),
    "userRoles.aggregateToAdmin": (True, {}),
    "crds.install": (False, {}),
    "crds.keep": (False, {}),
    "crds.annotations": ({"a": "b"}, {}),
    "webhooks.enabled": (True, {}),
    "webhooks.port": (443, WEBHOOKS),
    "webhooks.certificates": ("certManager", WEBHOOKS),
    "webhooks.issuerRef": ({"name": "a", "kind": "ClusterIssuer"}, CERT_MANAGER),
    "webhooks.annotations": ({"a": "b"}, WEBHOOKS),
    "metrics.port": (9090, {}),
    "metrics.secure.enabled": (True, {}),
    "metrics.secure.certificates": ("certManager", SECURE),
    "metrics.secure.issuerRef": ({"name": "a", "kind": "ClusterIssuer"}, SECURE_BY_CERT_MANAGER),
    "metrics.service.enabled": (False, {}),
    "metrics.service.annotations": ({"a": "b"}, {}),
    **monitor("podMonitor"),
    **monitor("serviceMonitor"),
    "tracing.enabled": (True, {}),
    "tracing.endpoint": ("http://collector:4318", TRACED),
    "prometheusRule.enabled": (True, {}),
    "prometheusRule.labels": ({"release": "p"}, RULE),
    "prometheusRule.disabled": (["KonvergeReconcileErrors"], RULE),
    "dashboards.enabled": (True, {}),
    "dashboards.labels.grafana_dashboard": ("yes", DASHBOARDS),
    "dashboards.annotations": ({"grafana_folder": "k"}, DASHBOARDS),
    "health.port": (9091, {}),
    "networkPolicy.enabled": (True, {}),
    "networkPolicy.metricsFrom": ([{"namespaceSelector": {}}], POLICY),
    "networkPolicy.healthFrom": ([{"podSelector": {}}], POLICY),
    "networkPolicy.apiServerPorts": ([16443], POLICY),
    "networkPolicy.egress": ([{}], POLICY),
}
"""For each value another one, and the values without which it has no effect."""


def test_the_table_of_changes_names_every_value() -> None:
    assert CHANGES.keys() == {value.path for value in values_of((CHART / "values.yaml").read_text())}


def test_helm_finds_nothing_wrong(helm_program: Path) -> None:
    done = subprocess.run([helm_program, "lint", "--strict", CHART], capture_output=True, text=True, check=False)
    assert (done.returncode, "0 chart(s) failed" in done.stdout) == (0, True), done.stdout + done.stderr


@pytest.mark.parametrize("path", CHANGES)
def test_each_value_changes_the_objects(template: Template, path: str) -> None:
    value, others = CHANGES[path]
    others = others if path.startswith(("crds.", "common")) else merged(others, {"crds": {"install": False}})
    before, after = template(others), template(merged(others, deep(path, value)))
    assert before != after
    if not path.endswith("Override"):
        check_names(after)


def test_everything_at_once_has_every_kind(template: Template) -> None:
    rendered = template(EVERYTHING)
    check_names(rendered)
    assert rendered.kinds == {
        *("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "CustomResourceDefinition"),
        *("Deployment", "PodDisruptionBudget", "Service", "Pod", "NetworkPolicy", "ConfigMap"),
        *("PodMonitor", "ServiceMonitor", "PrometheusRule"),
        *("Issuer", "Certificate", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
    } - ({"MutatingWebhookConfiguration"} if not rendered.all("MutatingWebhookConfiguration") else set())


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"replica": 2}, "additional properties 'replica' not allowed"),
        ({"replicas": -1}, "at '/replicas': minimum: got -1, want 0"),
        ({"replicas": "two"}, "at '/replicas': got string, want integer"),
        ({"families": {"app": {"enabled": True}}}, "at '/families': additional properties 'app' not allowed"),
        ({"families": {"apps": {"enabled": "yes"}}}, "at '/families/apps/enabled': got string, want boolean"),
        ({"families": {"apps": True}}, "at '/families/apps': got boolean, want object"),
        ({"families": {"pools": {"namespaces": ["Web"]}}}, "at '/families/pools/namespaces/0': 'Web' does not match"),
        ({"families": {"apps": {"namespaces": []}}}, "at '/families/apps': additional properties 'namespaces'"),
        ({"settings": {"drains": 1}}, "at '/settings': additional properties 'drains' not allowed"),
        ({"settings": {"drain": -1}}, "at '/settings/drain': minimum: got -1, want 0"),
        ({"settings": {"log_level": "loud"}}, "at '/settings/log_level': value must be one of"),
        ({"settings": {"namespace": "web"}}, "at '/settings': additional properties 'namespace' not allowed"),
        ({"settings": {"webhooks": {"service": "a/b"}}}, "at '/settings/webhooks': additional properties 'service'"),
        ({"settings": {"apps": {"drift_detection": "x"}}}, "at '/settings/apps/drift_detection'"),
        ({"settings": {"controller": {"a": {"concurrency": 0}}}}, "at '/settings/controller/a/concurrency'"),
        ({"image": {"digest": "0123"}}, "at '/image/digest'"),
        ({"image": {"repository": ""}}, "at '/image/repository'"),
        ({"image": {"pullPolicy": "Sometimes"}}, "at '/image/pullPolicy': value must be one of"),
        ({"image": {"registry": "a b"}}, "at '/image/registry': 'a b' does not match pattern"),
        ({"dnsPolicy": "host"}, "at '/dnsPolicy': value must be one of"),
        ({"extraContainers": [{"image": "a"}]}, "at '/extraContainers/0': missing property 'name'"),
        ({"podDisruptionBudget": {"minAvailable": "most"}}, "at '/podDisruptionBudget/minAvailable'"),
        (
            merged(ALONE, {"strategy": {"rollingUpdate": {}}}),
            "strategy: the old and the new process would write at once",
        ),
        ({"imagePullSecrets": ["registry"]}, "at '/imagePullSecrets/0': got string, want object"),
        ({"watchNamespace": "Web"}, "at '/watchNamespace': 'Web' does not match pattern"),
        ({"podLabels": {"a": 1}}, "at '/podLabels/a': got number, want string"),
        ({"extraEnv": {"A": "b"}}, "at '/extraEnv': got object, want array"),
        ({"webhooks": {"certificates": "own"}}, "at '/webhooks/certificates': value must be one of"),
        ({"metrics": {"port": 0}}, "at '/metrics/port': minimum: got 0, want 1"),
        ({"metrics": {"podMonitor": {"interval": "often"}}}, "at '/metrics/podMonitor/interval'"),
        ({"podDisruptionBudget": {"maxUnavailable": "half"}}, "at '/podDisruptionBudget/maxUnavailable'"),
        ({"networkPolicy": {"apiServerPorts": []}}, "at '/networkPolicy/apiServerPorts': minItems: got 0, want 1"),
        (NONE, "families: switch on at least one of them"),
        ({"watchNamespace": "web"}, "quota reconciles cluster-wide objects; set families.quota.enabled=false"),
        (
            {"election": {"enabled": False}},
            "replicas: 2 processes would write at once; set election.enabled=true or sharding.mode=hash, or replicas=1",
        ),
        (
            {"sharding": {"mode": "vote"}},
            "at '/sharding/mode': value must be one of 'off', 'leader', 'hash', 'coordinator', 'ordinal'",
        ),
        ({"settings": {"drain": 30}}, "set it above settings.drain"),
        (merged(MONITORS, deep("metrics.service.enabled", False)), "set metrics.service.enabled=true"),
        ({"settings": {"metrics_secure": True}}, "at '/settings': additional properties 'metrics_secure' not allowed"),
        (merged(MONITORS, SECURE), "metrics.podMonitor: it cannot send the token of Prometheus"),
    ],
    ids=str,
)
def test_a_bad_value_is_refused_with_its_path(template: Template, values: dict[str, Any], complaint: str) -> None:
    assert complaint in template.refused(values)


# --- the rights and definitions are those that the command line prints -----------------------------------------------------------

APPS_ALONE = {"families": {"quota": {"enabled": False}}}
QUOTA_ALONE = {"families": {"apps": {"enabled": False}}}
SECRETS_IN_TWO = {"settings": {"apps": {"secret_namespaces": ["web", "shop"]}}}
NO_SECRETS = {"settings": {"apps": {"watch_secrets": False}}}
ONE_NAMESPACE = merged(APPS_ALONE, {"watchNamespace": "web"})
SHARED: dict[str, Any] = {"election": {"enabled": False}, "sharding": {"mode": "hash"}}
COORDINATED: dict[str, Any] = {"election": {"enabled": False}, "sharding": {"mode": "coordinator"}}
BY_ORDINALS: dict[str, Any] = {"election": {"enabled": False}, "sharding": {"mode": "ordinal"}}
WITH_WORKSPACES = {"families": {"workspaces": {"enabled": True}}}
WORKSPACES_APART = {"families": {"workspaces": {"enabled": True, "namespace": "kcp"}}}
WITH_CLUSTERS: dict[str, Any] = {"families": {"clusters": {"enabled": True}}}
WITH_MACHINES = {"families": {"machines": {"enabled": True}}}
NAMED: dict[str, Any] = {
    "settings": {"machines": {"cluster_id": "acme", "tenant": "blue", "workload_account": "capi"}},
}
WITH_POOLS = {"families": {"pools": {"enabled": True}}}
POOLS_IN_THREE: dict[str, Any] = {
    "families": {"pools": {"enabled": True, "namespaces": ["web", "shop"]}},
    "settings": {"pools": {"instance_namespace": "clouds"}},
}
POOLS_EVERYWHERE: dict[str, Any] = {"families": {"pools": {"enabled": True, "namespaces": ["*"]}}}
BUCKET_CLAIMS: dict[str, Any] = {"settings": {"pools": {"instances": {"bucket_provider": "objectbucketclaim"}}}}
V014: dict[str, Any] = {"settings": {"quota": {"semantics": "v0.14"}}}
V012: dict[str, Any] = {"settings": {"quota": {"semantics": "v0.12"}}}


def settings_of(rendered: Rendered) -> DaemonSettings:
    """Return the settings of the daemon that runs in the rendered pod."""
    loaded = load(installed_settings(), flags={}, environ=rendered.environment)
    assert loaded.warnings == ()
    return loaded.settings


def effective(rights: set[Right]) -> set[Right]:
    """Return the rights without rights on named objects that a right on all objects includes, such as the right on members' Leases."""
    return {right for right in rights if not right[3] or (*right[:3], (), right[4]) not in rights}


@pytest.mark.parametrize(
    "values",
    [
        {},
        ALONE,
        APPS_ALONE,
        QUOTA_ALONE,
        SECRETS_IN_TWO,
        NO_SECRETS,
        ONE_NAMESPACE,
        WEBHOOKS,
        CERT_MANAGER,
        SECURE,
        merged(ONE_NAMESPACE, SECURE),
        V014,
        merged(V014, WEBHOOKS),
        merged(APPS_ALONE, WEBHOOKS),
        merged(QUOTA_ALONE, WEBHOOKS),
        merged(NO_SECRETS, WEBHOOKS),
        merged(ONE_NAMESPACE, WEBHOOKS),
        merged(ONE_NAMESPACE, SECRETS_IN_TWO),
        merged(ONE_NAMESPACE, {"settings": {"apps": {"secret_namespaces": ["shop"]}}}),
        SHARED,
        merged(APPS_ALONE, SHARED),
        merged(QUOTA_ALONE, SHARED),
        merged(ONE_NAMESPACE, SHARED),
        merged(WITH_POOLS, SHARED),
        merged(WITH_POOLS, BUCKET_CLAIMS),
        POOLS_IN_THREE,
        merged(POOLS_IN_THREE, BUCKET_CLAIMS),
        POOLS_EVERYWHERE,
        merged(POOLS_EVERYWHERE, BUCKET_CLAIMS),
        BUCKET_CLAIMS,
        WITH_MACHINES,
        merged(WITH_MACHINES, NAMED),
        merged(WITH_MACHINES, {"settings": {"machines": {"workload_account": ""}}}),
        WITH_CLUSTERS,
        merged(WITH_CLUSTERS, WEBHOOKS, {"settings": {"clusters": {"token_secrets": ["a", "b"]}}}),
        merged(
            WITH_CLUSTERS,
            {"settings": {"clusters": {"token_secrets": [], "credentials_secret": "c", "journal_secret": "j"}}},
        ),
        merged(WITH_WORKSPACES, SHARED),
        COORDINATED,
        merged(ONE_NAMESPACE, COORDINATED),
        merged(WITH_WORKSPACES, COORDINATED),
        merged(WITH_WORKSPACES, BY_ORDINALS),
        WORKSPACES_APART,
        merged(WORKSPACES_APART, WITH_CLUSTERS, WITH_MACHINES, POOLS_IN_THREE, WEBHOOKS),
        BY_ORDINALS,
        merged(APPS_ALONE, BY_ORDINALS),
        merged(ONE_NAMESPACE, BY_ORDINALS),
    ],
    ids=str,
)
def test_daemon_has_exactly_the_rights_that_the_rbac_command_prints(template: Template, values: dict[str, Any]) -> None:
    rendered = template(values)
    settings = settings_of(rendered)
    rules = asyncio.run(rules_for(None, settings, "konverge"))
    roles = manifests("konverge", rules, settings.namespace, None)
    printed = {right for role in roles for right in rights_of(role)}
    assert effective(rendered.rights) == effective(printed)
    for binding in (*rendered.all("RoleBinding"), *rendered.all("ClusterRoleBinding")):
        of_workload = binding["metadata"]["name"] == "konverge-cluster-api-workload"
        name = settings.of(MACHINES).workload_account if of_workload else "konverge"
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}]


@pytest.mark.parametrize(
    "values", [{}, APPS_ALONE, QUOTA_ALONE, WITH_MACHINES, WITH_POOLS, WITH_WORKSPACES, V012, V014], ids=str
)
def test_chart_installs_and_keeps_the_definitions_of_enabled_families(
    template: Template, values: dict[str, Any]
) -> None:
    settings = settings_of(template(values)).of(QUOTA)
    rendered = template(values).all("CustomResourceDefinition")
    groups = {
        "apps.vworkspace.io": "apps",
        "ops.vworkspace.io": "apps",
        "capsule.clastix.io": "quota",
        "infrastructure.cluster.x-k8s.io": "machines",
        "k8s.bnerd.com": "pools",
        "cloudapi.team-orca.dev": "workspaces",
    }
    switched = {name: family["enabled"] for name, family in values.get("families", {}).items()}
    off = {name for name in NAMES if not switched.get(name, name not in OFF)}
    family_of = {
        one["metadata"]["name"]: "clusters"
        if one["spec"]["names"]["kind"] == "Cluster"
        else groups[one["spec"]["group"]]
        for one in all_manifests()
    }
    printed = {
        one["metadata"]["name"]: one["spec"]
        for one in definitions(all_manifests(), settings)
        if family_of[one["metadata"]["name"]] not in off
    }
    assert {one["metadata"]["name"]: one["spec"] for one in rendered} == printed
    assert {one["metadata"]["annotations"]["helm.sh/resource-policy"] for one in rendered} == {"keep"}


@pytest.mark.parametrize(
    "values",
    [WEBHOOKS, merged(APPS_ALONE, WEBHOOKS), merged(ONE_NAMESPACE, WEBHOOKS), merged(V014, WEBHOOKS)],
    ids=str,
)
def test_webhooks_are_registered_as_the_command_prints_them(template: Template, values: dict[str, Any]) -> None:
    rendered = template(values)
    printed = asyncio.run(webhook_manifests(None, settings_of(rendered), "konverge"))
    secret, *configurations = printed
    for one in configurations:
        assert rendered.one(one["kind"])["metadata"]["name"] == one["metadata"]["name"]
        assert by_name(rendered.one(one["kind"])["webhooks"]) == by_name(one["webhooks"])
    assert len(configurations) == len([one for one in rendered.objects if one["kind"].endswith("WebhookConfiguration")])
    made = rendered.one("Secret")
    assert (made["metadata"]["name"], made["metadata"]["namespace"]) == (
        secret["metadata"]["name"],
        secret["metadata"]["namespace"],
    )
    assert secret["metadata"]["labels"].items() <= made["metadata"]["labels"].items()
    assert "data" not in made, "an upgrade would take the certificates away"
    assert {"name": "tmp", "mountPath": "/tmp"} in rendered.container["volumeMounts"]


def by_name(entries: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {entry["name"]: entry for entry in entries}


def test_with_cert_manager_the_certificate_is_mounted_where_the_daemon_reads_it(template: Template) -> None:
    rendered = template(CERT_MANAGER)
    certificate = rendered.one("Certificate")
    settings = settings_of(rendered).webhooks
    [mount] = [one for one in rendered.container["volumeMounts"] if one["mountPath"] == settings.certificates]
    [volume] = [one for one in rendered.pod["volumes"] if one["name"] == mount["name"]]
    assert volume["secret"]["secretName"] == certificate["spec"]["secretName"]
    assert settings.service == f"{NAMESPACE}/{rendered.one('Service', 'konverge-webhooks')['metadata']['name']}"
    assert certificate["spec"]["dnsNames"][0] == f"konverge-webhooks.{NAMESPACE}.svc"
    injected = {
        one["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
        for one in rendered.objects
        if one["kind"].endswith("WebhookConfiguration")
    }
    assert injected == {f"{NAMESPACE}/{certificate['metadata']['name']}"}


def test_tls_metrics_are_readable_with_prometheus_token_and_by_bound_users(template: Template) -> None:
    plain = template(merged(SERVICE_MONITOR, SECURE))
    [endpoint] = plain.one("ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["scheme"] == "https"
    assert endpoint["bearerTokenFile"] == "/var/run/secrets/kubernetes.io/serviceaccount/token"
    assert endpoint["tlsConfig"] == {"insecureSkipVerify": True}
    assert settings_of(plain).metrics_secure
    assert settings_of(plain).metrics_certificates == ""
    assert {"name": "tmp", "mountPath": "/tmp"} in plain.container["volumeMounts"]
    reader = plain.one("ClusterRole", "konverge-metrics-reader")
    assert reader["rules"] == [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    verified = template(merged(SERVICE_MONITOR, SECURE_BY_CERT_MANAGER))
    [endpoint] = verified.one("ServiceMonitor")["spec"]["endpoints"]
    certificate = verified.one("Certificate")["spec"]
    assert endpoint["tlsConfig"] == {
        "serverName": certificate["dnsNames"][0],
        "ca": {"secret": {"name": certificate["secretName"], "key": "ca.crt"}},
    }
    assert certificate["dnsNames"][0] == f"{verified.one('Service')['metadata']['name']}.{NAMESPACE}.svc"
    folder = settings_of(verified).metrics_certificates
    [mount] = [one for one in verified.container["volumeMounts"] if one["mountPath"] == folder]
    [volume] = [one for one in verified.pod["volumes"] if one["name"] == mount["name"]]
    assert volume["secret"]["secretName"] == certificate["secretName"]
    assert not [one for one in template(SERVICE_MONITOR).objects if "metrics" in one["metadata"]["name"]]


def test_settings_reach_the_daemon_as_they_are_written(template: Template, tmp_path: Path) -> None:
    settings = {
        "drain": 20.5,
        "log_level": "debug",
        "log_format": "json",
        "client": {"max_line_bytes": 67108864, "compression": True},
        "informers": {"watch_timeout": [100, 200]},
        "controller": {"applicationinstance": {"concurrency": 4}},
        "apps": {
            "interval": "10m",
            "insecure_registries": ["registry.example.com:5000"],
            "allowed_service_accounts": ["a", "b"],
            "forbidden_versions": [{"chart": "*", "versions": ">1.0.0 <2.0.0"}],
            "cluster_id": 'a, "b" & {c}',
            "watch_secrets": True,
        },
        "quota": {"semantics": "v0.14"},
        "election": {"lease_seconds": 30, "renew_seconds": 20.5},
    }
    file = tmp_path / "settings.yaml"
    file.write_text(yaml.safe_dump(settings))
    read = load(installed_settings(), flags={}, environ={}, file=file).settings
    ran = settings_of(template({"settings": settings}))
    of_the_chart = {"controllers", "metrics", "health", "webhooks", "election"}
    placed = {**read.model_dump(exclude=of_the_chart)}
    placed["apps"]["namespace"] = ran.election.namespace  # both are the namespace of the release
    assert ran.model_dump(exclude=of_the_chart) == placed
    assert (ran.election.lease_seconds, ran.election.renew_seconds) == (30, 20.5)
    assert ran.controllers == tuple(name for name in NAMES if name not in OFF)


def test_network_policy_has_a_rule_for_each_port_except_debug(template: Template) -> None:
    peers = {name: [{"podSelector": {"matchLabels": {"reads": name}}}] for name in ("metrics", "health")}
    given = {"metricsFrom": peers["metrics"], "healthFrom": peers["health"]}
    rendered = template(merged(POLICY, WEBHOOKS, {"networkPolicy": given}))
    rules = rendered.one("NetworkPolicy")["spec"]["ingress"]
    assert [(rule["ports"], rule.get("from")) for rule in rules] == [
        ([{"port": "metrics"}], peers["metrics"]),
        ([{"port": "health"}], peers["health"]),
        ([{"port": "webhooks"}], None),
    ]
    ports = {port["name"]: port["containerPort"] for port in rendered.container["ports"]}
    assert ports == {"metrics": 8080, "health": 8081, "webhooks": 9443}
    host, _, port = settings_of(rendered).debug.rpartition(":")
    assert host == "127.0.0.1"
    assert int(port) not in ports.values()


def test_alerts_and_dashboards_are_those_under_deploy(template: Template) -> None:
    rendered = template(merged(RULE, DASHBOARDS, EVERY_FAMILY))
    alerts = {
        group["name"]: group["rules"]
        for path in (ROOT / "deploy/alerts").glob("*.yaml")
        for group in yaml.safe_load(path.read_text())["groups"]
    }
    assert {group["name"]: group["rules"] for group in rendered.one("PrometheusRule")["spec"]["groups"]} == alerts
    dashboards = {name: json.loads(text) for one in rendered.all("ConfigMap") for name, text in one["data"].items()}
    stored = (ROOT / "deploy/dashboards").glob("*.json")
    assert dashboards == {f"konverge-{path.name}": json.loads(path.read_text()) for path in stored}


def test_deploy_manifests_equal_the_chart_rendered_with_default_values(helm_program: Path) -> None:
    rendered = render_deploy.render(helm_program)
    assert {name: (ROOT / name).read_text() for name in rendered} == rendered, "make generate"


def test_the_test_pod_is_not_behind_the_service(template: Template) -> None:
    rendered = template()
    selector = rendered.one("Service")["spec"]["selector"]
    assert not selector.items() <= rendered.one("Pod")["metadata"]["labels"].items()
    assert selector.items() <= rendered.one("Deployment")["spec"]["template"]["metadata"]["labels"].items()


def aggregated(role: dict[str, Any]) -> set[str]:
    """Return the ClusterRoles of the cluster that a role joins."""
    return {label.rpartition("-")[2] for label in role["metadata"]["labels"] if "aggregate-to" in label}


def test_users_may_read_all_and_write_nothing_unless_a_value_says_so(template: Template) -> None:
    roles = {one["metadata"]["name"]: one for one in template().all("ClusterRole")}
    assert {name: aggregated(role) for name, role in roles.items()} == {
        "konverge": set(),
        "konverge-view": {"view", "edit", "admin"},
        "konverge-edit": set(),
        "konverge-admin": set(),
    }
    written = {name: {right[2] for right in rights_of(roles[name])} for name in ("konverge-edit", "konverge-admin")}
    assert written == {
        "konverge-edit": {"applicationinstances", "operations", "resourcepoolclaims"},
        "konverge-admin": {"resourcepools"},
    }


@pytest.mark.parametrize("family", ["*", *NAMES])
def test_the_roles_for_users_hold_exactly_the_generated_rules(template: Template, family: str) -> None:
    """tests/unit/charts/test_users.py pins these rules by kind and verb."""
    chosen = [name for name in NAMES if family in ("*", name)]
    aggregate = {"userRoles": {"aggregateToEdit": True, "aggregateToAdmin": True}}
    on = merged(EVERY_FAMILY, {"families": {name: {"enabled": name in chosen} for name in NAMES}})
    roles = {one["metadata"]["name"]: one for one in template(merged(on, aggregate)).all("ClusterRole")}
    for role, joined in (
        ("view", {"view", "edit", "admin"}),
        ("edit", {"edit", "admin"}),
        ("admin", set()),
        ("aggregate-to-admin", {"admin"}),
    ):
        files = [yaml.safe_load((CHART / f"files/{name}/users.yaml").read_text()) for name in chosen]
        rules = [rule for file in files for rule in file["cluster" if role == "aggregate-to-admin" else role]]
        if rules:
            assert roles[f"konverge-{role}"]["rules"] == rules
            assert aggregated(roles[f"konverge-{role}"]) == joined
        else:
            assert f"konverge-{role}" not in roles


def test_replicas_are_spread_and_take_turns_only_if_they_elect_a_leader(template: Template) -> None:
    one, two = template(ALONE), template()
    assert one.one("Deployment")["spec"]["strategy"] == {"type": "Recreate"}
    assert two.one("Deployment")["spec"]["strategy"]["type"] == "RollingUpdate"
    [spread] = two.pod["topologySpreadConstraints"]
    assert spread["topologyKey"] == "kubernetes.io/hostname"
    assert spread["labelSelector"] == two.one("PodDisruptionBudget")["spec"]["selector"]
    elected = settings_of(two).election
    assert (elected.enabled, elected.namespace, elected.name) == (True, NAMESPACE, "konverge")
    assert not settings_of(one).election.enabled
    for values in (SHARED, COORDINATED):
        shared = template(values)
        assert shared.one("Deployment")["spec"]["strategy"]["type"] == "RollingUpdate"
        ring = settings_of(shared).sharding
        assert (ring.mode, ring.namespace, ring.ring) == (values["sharding"]["mode"], NAMESPACE, "konverge")
    by_ordinals = template(BY_ORDINALS)
    assert not by_ordinals.all("Deployment")
    spec = by_ordinals.one("StatefulSet")["spec"]
    assert (spec["serviceName"], spec["podManagementPolicy"], "strategy" in spec) == ("konverge", "Parallel", False)
    bare = template({"replicas": 1, "election": {"enabled": False}, "sharding": {"mode": False}})
    assert settings_of(bare).sharding.mode == "off"
    assert not [one for one in one.objects if "election" in one["metadata"]["name"]]


# --- what Cluster API needs of the family machines -------------------------------------------------------------------------------


def test_cluster_api_gets_its_rights_and_an_account_with_recorded_node_rights(template: Template) -> None:
    rendered = template(WITH_MACHINES)
    roles = {one["metadata"]["name"]: one for one in rendered.all("ClusterRole")}
    collected = roles["konverge-cluster-api"]
    assert collected["metadata"]["labels"]["cluster.x-k8s.io/aggregate-to-manager"] == "true"
    kinds = {one["spec"]["names"]["plural"] for one in rendered.all("CustomResourceDefinition")}
    assert set(collected["rules"][0]["resources"]) == {one for one in kinds if one.startswith("nstance")} - {
        "nstanceshardgroups"
    }
    assert set(collected["rules"][0]["verbs"]) == {"create", "delete", "get", "list", "patch", "update", "watch"}
    rules = roles["konverge-cluster-api-workload"]["rules"]
    nodes = [verb for rule in rules if rule.get("resources") == ["nodes"] for verb in rule["verbs"]]
    assert nodes == ["get", "list", "watch", "patch", "delete"], "as recorded in workload-kubeconfig-rbac"
    assert {"nonResourceURLs": ["/"], "verbs": ["get"]} in rules
    assert "nstance-capi-workload" in {one["metadata"]["name"] for one in rendered.all("ServiceAccount")}


@pytest.mark.parametrize(
    ("values", "accounts"),
    [
        ({}, {"konverge"}),
        (WITH_MACHINES, {"konverge", "nstance-capi-workload"}),
        (merged(WITH_MACHINES, NAMED), {"konverge", "capi"}),
        (merged(WITH_MACHINES, {"settings": {"machines": {"workload_account": ""}}}), {"konverge"}),
    ],
    ids=["no machines", "the default", "another one", "none"],
)
def test_the_account_of_cluster_api_is_that_of_the_settings(
    template: Template, values: dict[str, Any], accounts: set[str]
) -> None:
    rendered = template(values)
    assert {one["metadata"]["name"] for one in rendered.all("ServiceAccount")} == accounts
    check_names(rendered)
