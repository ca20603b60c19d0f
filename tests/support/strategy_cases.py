"""What is asked of a real kube-apiserver for `record_strategies.py`: objects to create, and changes of objects. Pure data."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any

__all__ = ["CASES", "Case"]

Data = dict[str, Any]

_GROUPS = {
    "ConfigMap": ("", "v1", "configmaps"),
    "Secret": ("", "v1", "secrets"),
    "Namespace": ("", "v1", "namespaces"),
    "ServiceAccount": ("", "v1", "serviceaccounts"),
    "Pod": ("", "v1", "pods"),
    "PodTemplate": ("", "v1", "podtemplates"),
    "Service": ("", "v1", "services"),
    "Endpoints": ("", "v1", "endpoints"),
    "CoreEvent": ("", "v1", "events"),
    "LimitRange": ("", "v1", "limitranges"),
    "ResourceQuota": ("", "v1", "resourcequotas"),
    "PersistentVolumeClaim": ("", "v1", "persistentvolumeclaims"),
    "PersistentVolume": ("", "v1", "persistentvolumes"),
    "ReplicationController": ("", "v1", "replicationcontrollers"),
    "Node": ("", "v1", "nodes"),
    "Deployment": ("apps", "v1", "deployments"),
    "ReplicaSet": ("apps", "v1", "replicasets"),
    "StatefulSet": ("apps", "v1", "statefulsets"),
    "DaemonSet": ("apps", "v1", "daemonsets"),
    "ControllerRevision": ("apps", "v1", "controllerrevisions"),
    "Job": ("batch", "v1", "jobs"),
    "CronJob": ("batch", "v1", "cronjobs"),
    "Lease": ("coordination.k8s.io", "v1", "leases"),
    "Event": ("events.k8s.io", "v1", "events"),
    "PodDisruptionBudget": ("policy", "v1", "poddisruptionbudgets"),
    "EndpointSlice": ("discovery.k8s.io", "v1", "endpointslices"),
    "Role": ("rbac.authorization.k8s.io", "v1", "roles"),
    "ClusterRole": ("rbac.authorization.k8s.io", "v1", "clusterroles"),
    "RoleBinding": ("rbac.authorization.k8s.io", "v1", "rolebindings"),
    "ClusterRoleBinding": ("rbac.authorization.k8s.io", "v1", "clusterrolebindings"),
    "HorizontalPodAutoscaler": ("autoscaling", "v2", "horizontalpodautoscalers"),
    "Ingress": ("networking.k8s.io", "v1", "ingresses"),
    "IngressClass": ("networking.k8s.io", "v1", "ingressclasses"),
    "NetworkPolicy": ("networking.k8s.io", "v1", "networkpolicies"),
    "StorageClass": ("storage.k8s.io", "v1", "storageclasses"),
    "PriorityClass": ("scheduling.k8s.io", "v1", "priorityclasses"),
    "MutatingWebhookConfiguration": ("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations"),
    "ValidatingWebhookConfiguration": ("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations"),
}
_CLUSTER = {
    "Namespace",
    "PersistentVolume",
    "Node",
    "ClusterRole",
    "ClusterRoleBinding",
    "IngressClass",
    "StorageClass",
    "PriorityClass",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
}


@dataclass(frozen=True)
class Case:
    """An object to create and, where `patch` is given, a change of it (a merge patch, sent as a whole object)."""

    name: str
    kind: str
    object: Data
    patch: Data | None = None
    subresource: str = ""
    group: str = field(init=False)
    version: str = field(init=False)
    plural: str = field(init=False)

    def __post_init__(self) -> None:
        for name, value in zip(("group", "version", "plural"), _GROUPS[self.kind], strict=True):
            object.__setattr__(self, name, value)

    @property
    def namespaced(self) -> bool:
        return self.kind not in _CLUSTER

    @property
    def body(self) -> Data:
        version = f"{self.group}/{self.version}" if self.group else self.version
        metadata = {"name": "subject", **self.object.get("metadata", {})}
        return {"apiVersion": version, "kind": "Event" if self.kind == "CoreEvent" else self.kind, **self.object, "metadata": metadata}


def _template(labels: Data | None = None, **spec: Any) -> Data:
    return {"metadata": {"labels": labels or {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "nginx:1.27"}], **spec}}


def _workload(**spec: Any) -> Data:
    return {"spec": {"selector": {"matchLabels": {"app": "a"}}, "template": _template(), **spec}}


def _container(**fields: Any) -> Data:
    return {"spec": {"containers": [{"name": "c", "image": "nginx", **fields}]}}


def _job(**spec: Any) -> Data:
    return {"spec": {"template": _template(restartPolicy="Never"), **spec}}


def _cron(**spec: Any) -> Data:
    return {"spec": {"schedule": "*/5 * * * *", "jobTemplate": _job(), **spec}}


def _hook(**fields: Any) -> Data:
    service = {"namespace": "default", "name": "hook"}
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    hook = {"name": "a.example.com", "clientConfig": {"service": service}, "rules": [rule], "sideEffects": "None"}
    return {"webhooks": [{**hook, "admissionReviewVersions": ["v1"], **fields}]}


def _event(**fields: Any) -> Data:
    about = {"kind": "Pod", "namespace": "default", "name": "p"}
    event = {"eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "example.com/c", "reportingInstance": "i", "action": "Do"}
    return {**event, "reason": "Because", "regarding": about, "type": "Normal", "note": "n", **fields}


def _claim(**spec: Any) -> Data:
    return {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}}


def _service(**spec: Any) -> Data:
    return {"spec": {"selector": {"app": "a"}, "ports": [{"port": 80}], **spec}}


def _path(**fields: Any) -> Data:
    backend = {"service": {"name": "s", "port": {"number": 80}}}
    return {"path": "/", "pathType": "Prefix", "backend": backend, **fields}


def _ingress(*paths: Data, **rule: Any) -> Data:
    return {"spec": {"rules": [{"host": "a.example.com", "http": {"paths": list(paths) or [_path()]}, **rule}]}}


def _scaler(**spec: Any) -> Data:
    return {"spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "maxReplicas": 3, **spec}}


def _text(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


_CONFIG = [
    Case("config map", "ConfigMap", {"data": {"a": "b"}, "binaryData": {"c": "YWI="}}),
    Case("config map with empty things", "ConfigMap", {"data": {}, "binaryData": {}, "immutable": False}),
    Case("config map with nulls", "ConfigMap", {"data": {"a": None, "b": "c"}, "binaryData": None}),
    Case("config map with bad keys", "ConfigMap", {"data": {"a b": "c", "..": "d"}}),
    Case("config map with a key twice", "ConfigMap", {"data": {"a": "c"}, "binaryData": {"a": "YWI="}}),
    Case("config map of a string", "ConfigMap", {"data": "x"}),
    Case("config map of numbers", "ConfigMap", {"data": {"a": 1}}),
    Case("config map that is no base64", "ConfigMap", {"binaryData": {"a": "YWJ"}}),
    Case("config map frozen", "ConfigMap", {"data": {"a": "b"}, "immutable": True}, {"data": {"a": "c"}, "immutable": None}),
    Case("config map with metadata of wrong types", "ConfigMap", {"metadata": {"labels": {"a": 1}}}),
    Case("config map with a finalizer string", "ConfigMap", {"metadata": {"finalizers": "x"}}),
    Case("secret", "Secret", {"data": {"a": "YQ=="}, "stringData": {"a": "b", "c": "d"}}),
    Case("secret with a newline in base64", "Secret", {"data": {"a": "Y\nQ==", "b": ""}}),
    Case("secret that is no base64", "Secret", {"data": {"a": "YWI=", "b": "!"}}),
    Case("secret with trailing garbage", "Secret", {"data": {"a": "YWI=="}}),
    Case("secret with too short base64", "Secret", {"data": {"a": "YWFhYQ"}}),
    Case("secret without tls keys", "Secret", {"type": "kubernetes.io/tls", "data": {"tls.crt": ""}}),
    Case("secret without basic keys", "Secret", {"type": "kubernetes.io/basic-auth"}),
    Case("secret without ssh key", "Secret", {"type": "kubernetes.io/ssh-auth"}),
    Case("secret with broken docker json", "Secret", {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": _text("x")}}),
    Case("secret with a docker list", "Secret", {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": _text("[]")}}),
    Case("secret without docker json", "Secret", {"type": "kubernetes.io/dockerconfigjson"}),
    Case("secret of another type", "Secret", {"data": {"a": "YQ=="}}, {"type": "example.com/t"}),
    Case("secret frozen", "Secret", {"data": {"a": "YQ=="}, "immutable": True}, {"data": {"a": "Yg=="}}),
    Case("secret with a key that is none", "Secret", {"data": {"a/b": "YQ=="}}),
    Case("namespace", "Namespace", {}),
    Case("namespace with finalizers", "Namespace", {"spec": {"finalizers": ["example.com/a"]}, "status": {"phase": "Terminating"}}),
    Case("namespace with a bad finalizer", "Namespace", {"spec": {"finalizers": ["a"]}}),
    Case("namespace relabelled", "Namespace", {}, {"metadata": {"labels": {"kubernetes.io/metadata.name": None, "a": "b"}}, "spec": None}),
    Case("namespace said to be ending", "Namespace", {}, {"status": {"phase": "Terminating"}}, "status"),
    Case("service account", "ServiceAccount", {"secrets": [{"name": "a", "namespace": "b"}], "imagePullSecrets": [{"name": "c"}]}),
]

_PODS = [
    Case("pod", "Pod", _container()),
    Case(
        "pod with everything that has defaults",
        "Pod",
        {
            "spec": {
                "containers": [
                    {
                        "name": "c",
                        "image": "example.com:5000/a/b",
                        "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP", "name": "dns"}],
                        "livenessProbe": {"httpGet": {"port": 80}},
                        "readinessProbe": {"grpc": {"port": 5}, "timeoutSeconds": 3},
                        "lifecycle": {"preStop": {"httpGet": {"port": "dns"}}},
                        "env": [
                            {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                            {"name": "B", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                            {"name": "C", "value": ""},
                        ],
                        "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}, "requests": {"cpu": 0.5}},
                        "volumeMounts": [{"name": "a", "mountPath": "/a", "readOnly": False}],
                    }
                ],
                "initContainers": [{"name": "i", "image": "x:latest"}],
                "volumes": [
                    {"name": "a"},
                    {"name": "b", "secret": {"secretName": "s"}},
                    {"name": "d", "configMap": {"name": "m"}},
                    {"name": "e", "hostPath": {"path": "/x"}},
                    {"name": "f", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
                    {"name": "g", "downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
                    {"name": "h", "emptyDir": {"sizeLimit": "0.5Gi"}},
                ],
                "serviceAccount": "other",
                "nodeSelector": {},
                "hostAliases": [],
            }
        },
    ),
    Case("pod guaranteed", "Pod", _container(resources={"limits": {"cpu": 1, "memory": "1Gi"}})),
    Case("pod with its own tolerations", "Pod", {"spec": {**_container()["spec"], "tolerations": [{"operator": "Exists"}]}}),
    Case("pod on the host network", "Pod", {"spec": {"hostNetwork": True, "containers": [{"name": "c", "image": "a:1", "ports": [{"containerPort": 8}]}]}}),
    Case("pod gated", "Pod", {"spec": {**_container()["spec"], "schedulingGates": [{"name": "example.com/g"}]}}),
    Case("pod without containers", "Pod", {"spec": {}}),
    Case("pod with nothing", "Pod", {}),
    Case("pod with bad containers", "Pod", {"spec": {"containers": [{"name": "A", "image": ""}, {"name": "b", "image": "x"}, {"name": "b", "image": "x"}]}}),
    Case("pod with bad ports", "Pod", _container(ports=[{"containerPort": 0}, {"containerPort": 70000, "name": "A--b"}, {"containerPort": 5, "protocol": "X"}])),
    Case("pod with bad env", "Pod", _container(env=[{"name": ""}, {"name": "a=b"}, {"name": "x", "valueFrom": {}}, {"name": "y", "value": "v", "valueFrom": {"secretKeyRef": {"name": "s", "key": ""}}}])),
    Case("pod with an unknown field path", "Pod", _container(env=[{"name": "x", "valueFrom": {"fieldRef": {"fieldPath": "a.b"}}}, {"name": "y", "valueFrom": {"fieldRef": {"fieldPath": "status.phase"}}}])),
    Case("pod with bad mounts", "Pod", _container(volumeMounts=[{"name": "x", "mountPath": "/a"}, {"name": "", "mountPath": ""}])),
    Case("pod with bad resources", "Pod", _container(resources={"limits": {"cpu": "1", "foo": "1"}, "requests": {"cpu": "2", "memory": "-1", "example.com/x": "1"}})),
    Case("pod with quantities that are none", "Pod", _container(resources={"limits": {"cpu": "lots"}})),
    Case("pod with a wrong suffix", "Pod", _container(resources={"limits": {"cpu": "1kk"}})),
    Case("pod with odd quantities", "Pod", _container(resources={"requests": {"cpu": "0.0001", "memory": "1e3", "ephemeral-storage": "1000"}})),
    Case("pod with bad probes", "Pod", _container(livenessProbe={"successThreshold": 2}, readinessProbe={"httpGet": {"port": "", "scheme": "x"}, "tcpSocket": {"port": 1}, "periodSeconds": -1})),
    Case("pod with bad volumes", "Pod", {"spec": {**_container()["spec"], "volumes": [{"name": "a", "emptyDir": {}, "secret": {"secretName": "x"}}, {"name": "A_"}, {"name": "c", "configMap": {}}, {"name": "d", "hostPath": {"path": "/a/../b", "type": "x"}}]}}),
    Case("pod with bad policies", "Pod", {"spec": {**_container(imagePullPolicy="x")["spec"], "restartPolicy": "x", "dnsPolicy": "y", "terminationGracePeriodSeconds": 0}}),
    Case("pod with bad tolerations", "Pod", {"spec": {**_container()["spec"], "tolerations": [{"key": "a", "operator": "x"}, {"operator": "Equal"}, {"key": "b", "effect": "z", "tolerationSeconds": 3}]}}),
    Case("pod with bad names", "Pod", {"spec": {**_container()["spec"], "hostname": "A", "nodeName": "B_", "nodeSelector": {"-": "x"}, "activeDeadlineSeconds": 0, "serviceAccountName": "X"}}),
    Case("pod with bad affinity", "Pod", {"spec": {**_container()["spec"], "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}]}, "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "x"}]}]}}}}}),
    Case("pod with bad spread", "Pod", {"spec": {**_container()["spec"], "topologySpreadConstraints": [{"maxSkew": 0, "whenUnsatisfiable": "x"}]}}),
    Case("pod with warnings", "Pod", _container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}], ports=[{"containerPort": 80, "name": "a"}, {"containerPort": 80, "name": "b"}], resources={"limits": {"memory": "100m"}})),
    Case("pod with a command string", "Pod", _container(command="sh")),
    Case("pod with a port string", "Pod", _container(ports=[{"containerPort": "80"}])),
    Case("pod with a volume string", "Pod", {"spec": {**_container()["spec"], "volumes": [{"name": "x", "emptyDir": "x"}]}}),
    Case("pod with a probe number", "Pod", _container(livenessProbe={"httpGet": {"port": True}})),
    Case("pod with an exec string", "Pod", _container(livenessProbe={"exec": "x"})),
    Case("pod with a field selector number", "Pod", _container(env=[{"name": "A", "value": 5}])),
    Case("pod given another image", "Pod", _container(), {"spec": {"containers": [{"name": "c", "image": "nginx:2", "imagePullPolicy": "Always"}]}}),
    Case("pod given more containers", "Pod", _container(), {"spec": {"containers": [{"name": "c", "image": "nginx"}, {"name": "d", "image": "nginx"}]}}),
    Case("pod without its tolerations", "Pod", {"spec": {**_container()["spec"], "tolerations": [{"key": "a", "operator": "Exists"}]}}, {"spec": {"tolerations": None}}),
    Case("pod given a deadline", "Pod", _container(), {"spec": {"activeDeadlineSeconds": 5}}),
    Case("pod running", "Pod", _container(), {"status": {"phase": "Running", "podIP": "10.1.1.1", "conditions": [{"type": "Ready", "status": "True"}]}}, "status"),
    Case("pod of another quality", "Pod", _container(), {"status": {"qosClass": "Guaranteed", "conditions": [{"type": "a b", "status": "x"}]}}, "status"),
    Case("pod template", "PodTemplate", {"template": _template()}),
    Case("pod template with nothing", "PodTemplate", {}),
]

_SERVICES = [
    Case("service", "Service", _service()),
    Case("service headless", "Service", _service(clusterIP="None")),
    Case("service headless without selector", "Service", {"spec": {"clusterIP": "None"}}),
    Case("service on nodes", "Service", _service(type="NodePort", ports=[{"name": "a", "port": 80, "targetPort": "http"}, {"name": "b", "port": 81, "protocol": "UDP"}])),
    Case("service balanced", "Service", _service(type="LoadBalancer")),
    Case("service elsewhere", "Service", {"spec": {"type": "ExternalName", "externalName": "a.example.com"}}),
    Case("service sticky", "Service", _service(sessionAffinity="ClientIP")),
    Case("service with nothing", "Service", {}),
    Case("service with bad ports", "Service", _service(ports=[{"port": 0}, {"name": "A", "port": 80, "protocol": "x"}, {"name": "b", "port": 80}, {"name": "b", "port": 80, "nodePort": 30000, "targetPort": "a--b"}])),
    Case("service with bad words", "Service", _service(type="x", sessionAffinity="y", selector={"a": "b c"}, externalTrafficPolicy="Local", internalTrafficPolicy="z")),
    Case("service with bad families", "Service", _service(ipFamilies=["IPv6", "x"], ipFamilyPolicy="y", clusterIP="10.0.0.300")),
    Case("service in the other family", "Service", _service(ipFamilies=["IPv6"])),
    Case("service in both families", "Service", _service(ipFamilyPolicy="RequireDualStack")),
    Case("service outside the range", "Service", _service(clusterIP="10.99.0.1")),
    Case("service outside the port range", "Service", _service(type="NodePort", ports=[{"port": 80, "nodePort": 80}])),
    Case("service at a known address", "Service", _service(clusterIP="10.0.0.77")),
    Case("service elsewhere without a name", "Service", {"spec": {"type": "ExternalName", "clusterIP": "None", "externalName": "A"}}),
    Case("service with outer addresses", "Service", _service(externalIPs=["127.0.0.1", "x", "1.2.3.4"])),
    Case("service with other warnings", "Service", _service(externalName="a.example.com", trafficDistribution="PreferClose", clusterIP="None", sessionAffinity="ClientIP")),
    Case("service moved", "Service", _service(clusterIP="10.0.0.78"), {"spec": {"clusterIP": "10.0.0.79"}}),
    Case("service without its address", "Service", _service(clusterIP="10.0.0.80"), {"spec": {"clusterIP": None, "clusterIPs": None}}),
    Case("service turned outside", "Service", _service(clusterIP="10.0.0.81"), {"spec": {"type": "ExternalName", "externalName": "a.example.com"}}),
    Case("service with ingress", "Service", _service(), {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}, "status"),
    Case("endpoints", "Endpoints", {"subsets": [{"addresses": [{"ip": "10.1.1.1"}], "ports": [{"port": 80}]}]}),
    Case("endpoints that cannot be", "Endpoints", {"subsets": [{}, {"addresses": [{"ip": "127.0.0.1"}, {"ip": "x"}], "ports": [{"port": 0}, {"port": 1, "protocol": "x"}]}]}),
    Case("endpoint slice", "EndpointSlice", {"addressType": "IPv4", "endpoints": [{"addresses": ["10.1.1.1"]}], "ports": [{"port": 80}]}),
    Case("endpoint slice that cannot be", "EndpointSlice", {"addressType": "IPv4", "endpoints": [{"addresses": []}, {"addresses": ["::1", "10.1.1.x"], "nodeName": "A"}], "ports": [{"name": "a"}, {"name": "a", "protocol": "x"}]}),
    Case("endpoint slice without a type", "EndpointSlice", {"endpoints": []}),
    Case("endpoint slice of another type", "EndpointSlice", {"addressType": "IPv4", "endpoints": []}, {"addressType": "IPv6"}),
]

_WORKLOADS = [
    Case("deployment", "Deployment", _workload()),
    Case("deployment recreated", "Deployment", _workload(strategy={"type": "Recreate"}, replicas=0, minReadySeconds=0, paused=False)),
    Case("deployment with nothing", "Deployment", {}),
    Case("deployment with a selector for others", "Deployment", _workload(selector={"matchLabels": {"app": "b"}})),
    Case("deployment with an empty selector", "Deployment", _workload(selector={})),
    Case("deployment with a bad selector", "Deployment", _workload(selector={"matchExpressions": [{"key": "a", "operator": "x"}]})),
    Case("deployment with bad numbers", "Deployment", _workload(replicas=-1, minReadySeconds=5, progressDeadlineSeconds=5, revisionHistoryLimit=-1, strategy={"rollingUpdate": {"maxSurge": "5", "maxUnavailable": "101%"}})),
    Case("deployment that cannot roll", "Deployment", _workload(strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}})),
    Case("deployment with both strategies", "Deployment", _workload(strategy={"type": "Recreate", "rollingUpdate": {"maxSurge": 1}})),
    Case("deployment with another strategy", "Deployment", _workload(strategy={"type": "x"})),
    Case("deployment that never restarts", "Deployment", _workload(template=_template(restartPolicy="Never", activeDeadlineSeconds=5))),
    Case("deployment with a replica string", "Deployment", _workload(replicas="3")),
    Case("deployment with half a replica", "Deployment", _workload(replicas=1.5)),
    Case("deployment with too many replicas", "Deployment", _workload(replicas=3000000000)),
    Case("deployment with a list for a spec", "Deployment", {"spec": []}),
    Case("deployment with a type number", "Deployment", _workload(strategy={"type": 5})),
    Case("deployment with a surge of truth", "Deployment", _workload(strategy={"rollingUpdate": {"maxSurge": True}})),
    Case("deployment with a long name", "Deployment", {"metadata": {"name": "a.b"}, **_workload()}),
    Case("deployment scaled", "Deployment", _workload(), {"spec": {"replicas": 3}}),
    Case("deployment annotated", "Deployment", _workload(), {"metadata": {"annotations": {"a": "b"}}, "status": {"replicas": 5}}),
    Case("deployment with another selector", "Deployment", _workload(), {"spec": {"selector": {"matchLabels": {"app": "b"}}, "template": {"metadata": {"labels": {"app": "b"}}}}}),
    Case("deployment with a status", "Deployment", _workload(), {"metadata": {"labels": {"a": "b"}}, "spec": {"replicas": 9}, "status": {"replicas": 3, "conditions": [{"type": "Available", "status": "True"}]}}, "status"),
    Case("deployment with a bad status", "Deployment", _workload(), {"status": {"replicas": 1, "readyReplicas": 2, "availableReplicas": 3, "collisionCount": -1}}, "status"),
    Case("replica set", "ReplicaSet", _workload()),
    Case("replica set with nothing", "ReplicaSet", {}),
    Case("replica set with a bad status", "ReplicaSet", _workload(), {"status": {"replicas": 1, "fullyLabeledReplicas": 2}}, "status"),
    Case("stateful set", "StatefulSet", _workload(serviceName="s", volumeClaimTemplates=[{"metadata": {"name": "v"}, **_claim()}])),
    Case("stateful set with nothing", "StatefulSet", {}),
    Case("stateful set with bad words", "StatefulSet", _workload(serviceName="A_", podManagementPolicy="x", updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": -1}}, persistentVolumeClaimRetentionPolicy={"whenDeleted": "x"}, volumeClaimTemplates=[{"metadata": {"name": "v"}, "spec": {}}])),
    Case("stateful set with another service", "StatefulSet", _workload(serviceName="s"), {"spec": {"serviceName": "t"}}),
    Case("daemon set", "DaemonSet", _workload()),
    Case("daemon set with nothing", "DaemonSet", {}),
    Case("daemon set that surges", "DaemonSet", _workload(updateStrategy={"rollingUpdate": {"maxSurge": 1}})),
    Case("daemon set changed", "DaemonSet", _workload(), {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 5}}}}),
    Case("daemon set with another selector", "DaemonSet", _workload(), {"spec": {"selector": {"matchLabels": {"app": "b"}}, "template": {"metadata": {"labels": {"app": "b"}}}}}),
    Case("replication controller", "ReplicationController", {"spec": {"template": _template()}}),
    Case("replication controller with nothing", "ReplicationController", {}),
    Case("replication controller with bad numbers", "ReplicationController", {"spec": {"replicas": -1, "minReadySeconds": -1, "selector": {"app": "b"}, "template": _template()}}),
    Case("controller revision", "ControllerRevision", {"revision": 1, "data": {"a": 1}}),
    Case("controller revision without data", "ControllerRevision", {"revision": -1}),
    Case("controller revision changed", "ControllerRevision", {"revision": 1, "data": {"a": 1}}, {"data": {"a": 2}}),
    Case("job", "Job", _job()),
    Case("job indexed", "Job", _job(completionMode="Indexed", completions=3, backoffLimitPerIndex=1)),
    Case("job with nothing", "Job", {}),
    Case("job with bad numbers", "Job", _job(parallelism=-1, completions=-1, backoffLimit=-1, maxFailedIndexes=1, completionMode="x", podReplacementPolicy="y")),
    Case("job with a selector", "Job", _job(selector={"matchLabels": {"app": "a"}})),
    Case("job with a manual selector", "Job", _job(selector={"matchLabels": {"app": "a"}}, manualSelector=True)),
    Case("job that restarts", "Job", {"spec": {"template": _template()}}),
    Case("job changed", "Job", _job(), {"spec": {"completions": 5, "parallelism": 2}}),
    Case("job more parallel", "Job", _job(), {"spec": {"parallelism": 2}}),
    Case("cron job", "CronJob", _cron()),
    Case("cron job with nothing", "CronJob", {}),
    Case("cron job with a bad schedule", "CronJob", _cron(schedule="61 * * * *", concurrencyPolicy="x", successfulJobsHistoryLimit=-1, timeZone="Nowhere/Town")),
    Case("cron job with too few fields", "CronJob", _cron(schedule="* * * *")),
    Case("cron job with words", "CronJob", _cron(schedule="a * * * foo")),
    Case("cron job with a range backwards", "CronJob", _cron(schedule="0 5-1 * * mon-fri")),
    Case("cron job with a zone in its schedule", "CronJob", _cron(schedule="TZ=UTC 0 * * * *", timeZone="Europe/Berlin")),
    Case("cron job by name", "CronJob", _cron(schedule="@hourly", suspend=True)),
    Case("cron job by an unknown name", "CronJob", _cron(schedule="@never")),
    Case("cron job with a long name", "CronJob", {"metadata": {"name": "a" * 53}, **_cron()}),
]

_POLICIES = [
    Case("lease", "Lease", {"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.123456Z"}}),
    Case("lease with nothing", "Lease", {}),
    Case("lease with bad numbers", "Lease", {"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}}),
    Case("lease with too coarse a time", "Lease", {"spec": {"renewTime": "2026-01-01T00:00:00Z"}}),
    Case("lease with a time that is none", "Lease", {"spec": {"renewTime": "now"}}),
    Case("lease in another zone", "Lease", {"spec": {"renewTime": "2026-01-01T02:00:00.000001+02:00"}}),
    Case("lease renewed", "Lease", {"spec": {"holderIdentity": "a"}}, {"spec": {"holderIdentity": "b", "leaseTransitions": 1}}),
    Case("event", "Event", _event()),
    Case("event with nothing", "Event", {}),
    Case("event with bad words", "Event", _event(type="x", action="", reason="", reportingController="a b", reportingInstance="", series={"count": 1})),
    Case("event with old fields", "Event", _event(deprecatedCount=1, deprecatedSource={"component": "a"})),
    Case("event changed", "Event", _event(), {"note": "m", "reason": "x"}),
    Case("event in a series", "Event", _event(), {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}}),
    Case("old event", "CoreEvent", {"involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}, "reason": "a", "count": 1, "firstTimestamp": "2026-01-01T00:00:00Z"}),
    Case("old event elsewhere", "CoreEvent", {"involvedObject": {"namespace": "other"}}),
    Case("old event of the new kind", "CoreEvent", {"involvedObject": {"namespace": "default"}, "eventTime": "2026-01-01T00:00:00.000000Z"}),
    Case("budget", "PodDisruptionBudget", {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}),
    Case("budget with both", "PodDisruptionBudget", {"spec": {"minAvailable": "x", "maxUnavailable": "101%"}}),
    Case("budget with bad words", "PodDisruptionBudget", {"spec": {"maxUnavailable": -1, "unhealthyPodEvictionPolicy": "x", "selector": {"matchLabels": {"a b": "c"}}}}),
    Case("budget used", "PodDisruptionBudget", {"spec": {"minAvailable": 1}}, {"status": {"disruptionsAllowed": -1, "currentHealthy": 2}}, "status"),
    Case("quota", "ResourceQuota", {"spec": {"hard": {"pods": "10", "requests.cpu": "1000m", "count/deployments.apps": "5"}}}),
    Case("quota with bad names", "ResourceQuota", {"spec": {"hard": {"foo": "1", "pods": "0.5", "cpu": "-1"}}}),
    Case("quota with bad scopes", "ResourceQuota", {"spec": {"hard": {"pods": "1", "services": "1"}, "scopes": ["BestEffort", "NotBestEffort", "x"]}}),
    Case("quota with a bad selector", "ResourceQuota", {"spec": {"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}, {"scopeName": "BestEffort", "operator": "In", "values": ["a"]}]}}}),
    Case("quota with other scopes", "ResourceQuota", {"spec": {"hard": {"pods": "1"}, "scopes": ["BestEffort"]}}, {"spec": {"scopes": ["Terminating"]}}),
    Case("quota with a warning", "ResourceQuota", {"spec": {"hard": {"requests.cpu": "2", "limits.cpu": "1"}}}),
    Case("limit range", "LimitRange", {"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}}]}}),
    Case("limit range with bad limits", "LimitRange", {"spec": {"limits": [{"type": "Pod", "default": {"cpu": "1"}, "min": {"cpu": "2"}, "max": {"cpu": "1"}}, {"type": "x"}, {"type": "PersistentVolumeClaim"}]}}),
    Case("limit range with a wrong order", "LimitRange", {"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1"}, "default": {"cpu": "3"}, "defaultRequest": {"cpu": "500m"}, "maxLimitRequestRatio": {"cpu": "4"}}]}}),
    Case("priority class", "PriorityClass", {"value": 5}),
    Case("priority class too high", "PriorityClass", {"value": 1000000001, "preemptionPolicy": "x"}),
    Case("priority class of the system", "PriorityClass", {"metadata": {"name": "system-mine"}, "value": 5}),
    Case("priority class changed", "PriorityClass", {"value": 5}, {"value": 6, "preemptionPolicy": "Never"}),
    Case("claim", "PersistentVolumeClaim", _claim()),
    Case("claim with nothing", "PersistentVolumeClaim", {}),
    Case("claim with bad words", "PersistentVolumeClaim", _claim(accessModes=["x", "ReadWriteOncePod", "ReadWriteOnce"], resources={"requests": {"storage": "0"}}, volumeMode="y", storageClassName="A")),
    Case("volume", "PersistentVolume", {"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}}),
    Case("volume with nothing", "PersistentVolume", {}),
    Case("storage class", "StorageClass", {"provisioner": "example.com/p"}),
    Case("storage class with nothing", "StorageClass", {}),
    Case("storage class changed", "StorageClass", {"provisioner": "example.com/p"}, {"provisioner": "example.com/q", "parameters": {"a": "b"}, "reclaimPolicy": "Retain", "volumeBindingMode": "WaitForFirstConsumer"}),
    Case("node", "Node", {"status": {"capacity": {"cpu": "1000m"}}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}),
    Case("node with bad taints", "Node", {"spec": {"taints": [{"key": "a b", "value": "c d", "effect": "x"}, {"key": "a", "effect": "NoExecute"}, {"key": "a", "effect": "NoExecute"}, {"key": "b"}]}}),
    Case("node provided for", "Node", {"spec": {"providerID": "a", "podCIDR": "10.1.0.0/24"}}, {"spec": {"providerID": "b", "podCIDR": "10.2.0.0/24", "podCIDRs": ["10.2.0.0/24"]}}),
]

_NETWORK = [
    Case("role", "Role", {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}),
    Case("role with nothing", "Role", {}),
    Case("role with no rules", "Role", {"rules": []}),
    Case("role with bad rules", "Role", {"rules": [{"verbs": []}, {"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": ["a"]}]}),
    Case("cluster role", "ClusterRole", {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}], "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}),
    Case("cluster role that gathers nothing", "ClusterRole", {"aggregationRule": {}}),
    Case("role binding", "RoleBinding", {"roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}, "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s"}]}),
    Case("role binding with nothing", "RoleBinding", {}),
    Case("role binding with bad subjects", "RoleBinding", {"roleRef": {"kind": "x", "name": "a/b", "apiGroup": "y"}, "subjects": [{"kind": "z", "name": ""}, {"kind": "ServiceAccount", "name": "A", "apiGroup": "g"}, {"kind": "User", "name": "u", "apiGroup": "g"}]}),
    Case("role binding to another role", "RoleBinding", {"roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}}, {"roleRef": {"name": "view"}}),
    Case("cluster role binding with bad subjects", "ClusterRoleBinding", {"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "ServiceAccount", "name": "s"}]}),
    Case("scaler", "HorizontalPodAutoscaler", _scaler()),
    Case("scaler with behavior", "HorizontalPodAutoscaler", _scaler(behavior={"scaleDown": {"stabilizationWindowSeconds": 60}}, metrics=[{"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1024Mi"}}}])),
    Case("scaler with nothing", "HorizontalPodAutoscaler", {}),
    Case("scaler with bad numbers", "HorizontalPodAutoscaler", _scaler(minReplicas=0, maxReplicas=-1, metrics=[{"type": "x"}, {"type": "Pods", "resource": {"name": "", "target": {"type": "y"}}}], behavior={"scaleUp": {"policies": [], "selectPolicy": "z"}})),
    Case("ingress", "Ingress", _ingress()),
    Case("ingress with nothing", "Ingress", {}),
    Case("ingress with bad paths", "Ingress", _ingress(_path(path="x"), _path(path="/a//b/.."), _path(pathType="z"), _path(pathType=None), _path(backend={}), _path(backend={"service": {"name": "A", "port": {}}}))),
    Case("ingress with bad hosts", "Ingress", {"spec": {"rules": [{"host": "1.2.3.4"}, {"host": "a.*.b"}, {"host": "A"}], "tls": [{"hosts": ["X"], "secretName": "Y"}], "ingressClassName": "Z"}}),
    Case("ingress class", "IngressClass", {"spec": {"controller": "example.com/c", "parameters": {"kind": "k", "name": "n"}}}),
    Case("ingress class with bad words", "IngressClass", {"spec": {"controller": "c", "parameters": {"scope": "Namespace", "apiGroup": "A"}}}),
    Case("ingress class for another", "IngressClass", {"spec": {"controller": "example.com/c"}}, {"spec": {"controller": "example.com/d"}}),
    Case("network policy", "NetworkPolicy", {"spec": {"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}], "ports": [{"port": 80}]}], "egress": [{}]}}),
    Case("network policy with nothing", "NetworkPolicy", {}),
    Case("network policy with bad peers", "NetworkPolicy", {"spec": {"ingress": [{"from": [{}, {"ipBlock": {"cidr": "x"}}, {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}, "podSelector": {}}], "ports": [{"port": 0, "endPort": 5}, {"endPort": 5}, {"port": "a", "protocol": "x"}]}], "policyTypes": ["x"]}}),
    Case("webhooks", "ValidatingWebhookConfiguration", _hook()),
    Case("mutating webhooks", "MutatingWebhookConfiguration", _hook(clientConfig={"url": "https://a.example.com/x"})),
    Case("webhooks with nothing", "ValidatingWebhookConfiguration", {"webhooks": [{}]}),
    Case("webhooks with bad words", "MutatingWebhookConfiguration", _hook(name="a", sideEffects="Some", timeoutSeconds=31, failurePolicy="x", matchPolicy="y", reinvocationPolicy="z", admissionReviewVersions=["v2"], clientConfig={"url": "http://u@/x?y#z"})),
    Case("webhooks with bad rules", "ValidatingWebhookConfiguration", _hook(rules=[{"operations": ["*", "GET"], "apiGroups": ["*", "a"], "apiVersions": [""], "resources": ["*", "pods", "*/*", ""], "scope": "x"}], clientConfig={"service": {"name": "", "namespace": "n", "path": "x//Y", "port": 0}})),
]

CASES: tuple[Case, ...] = (*_CONFIG, *_PODS, *_SERVICES, *_WORKLOADS, *_POLICIES, *_NETWORK)
