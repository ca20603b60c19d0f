"""Objects of `recorder` and of tests, and its steps under a quota, without any I/O."""

from typing import Any

Data = dict[str, Any]
Request = tuple[str, str, Data | None]
"""Method, path and body."""

RBAC = "rbac.authorization.k8s.io"
N = "rights"


def role(name: str, *rules: Data, cluster: bool = False, **more: Any) -> Data:
    """Return a Role or ClusterRole."""
    kind = "ClusterRole" if cluster else "Role"
    place = {} if cluster else {"namespace": N}
    head = {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": {"name": name, **place, **more.pop("metadata", {})}}
    return {**head, "rules": list(rules), **more}


def rule(groups: str, resources: str, verbs: str, names: str = "") -> Data:
    """Return a rule; lists are written with spaces, "core" for the core group."""
    lists = {"apiGroups": groups.replace("core", "").split(" "), "resources": resources.split(), "verbs": verbs.split()}
    return {**lists, "resourceNames": names.split()} if names else lists


def binding(name: str, to: str, *subjects: str, cluster: bool = False) -> Data:
    """Return a binding to `Role/x` or `ClusterRole/x`; subjects are `User:ann`, `Group:devs`, `ServiceAccount:namespace/name`."""
    kind, _, referred = to.partition("/")
    place = {} if cluster else {"namespace": N}
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding" if cluster else "RoleBinding",
        "metadata": {"name": name, **place},
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": referred},
        "subjects": [_subject(text) for text in subjects],
    }


def _subject(text: str) -> Data:
    kind, _, name = text.partition(":")
    if kind == "ServiceAccount":
        namespace, _, name = name.partition("/")
        return {"kind": kind, "name": name, "namespace": namespace}
    return {"kind": kind, "apiGroup": RBAC, "name": name}


def plain(name: str, kind: str = "ConfigMap", **more: Any) -> Data:
    """Return a namespaced object of the core group."""
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **more}


def pod(name: str, *containers: Data, **spec: Any) -> Data:
    """Return a pod; a container is given by its resources, or whole."""
    whole = [
        {"name": f"c{number}", "image": "registry.example.com/a:1", **container}
        for number, container in enumerate(containers or ({},))
    ]
    metadata = {"name": name, **spec.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": whole, **spec}}


def sized(cpu: str, memory: str = "", **more: Any) -> Data:
    """Return what a container requests and is limited to."""
    amounts = {"cpu": cpu, **({"memory": memory} if memory else {})}
    return {"resources": {"requests": amounts, "limits": amounts}, **more}


def _quota(name: str, hard: Data, **spec: Any) -> Data:
    return plain(name, "ResourceQuota", spec={"hard": hard, **spec})


_PRIORITY = [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]

QUOTA_SETUP: dict[str, list[Data]] = {
    "counts": [
        _quota("counts", {"pods": "1", "count/configmaps": "2", "secrets": "1", "count/leases.coordination.k8s.io": "1"}),
        _quota("services", {"services": "2", "services.nodeports": "3", "services.loadbalancers": "1"}),
        _quota("claims", {
            "persistentvolumeclaims": "2", "requests.storage": "5Gi", "gold.storageclass.storage.k8s.io/requests.storage": "2Gi"}),
    ],
    "compute": [_quota("compute", {
        "requests.cpu": "1", "limits.cpu": "1500m", "requests.memory": "1Gi", "limits.memory": "2Gi", "requests.example.com/gpu": "1"})],
    "scopes": [
        _quota("best", {"pods": "1"}, scopes=["BestEffort"]),
        _quota("not-best", {"pods": "1", "cpu": "2"}, scopes=["NotBestEffort"]),
        _quota("ending", {"count/pods": "1"}, scopes=["Terminating"]),
        _quota("high", {"pods": "0"}, scopeSelector={"matchExpressions": _PRIORITY}),
    ],
}  # fmt: skip


def _at(namespace: str, plural: str, body: Data, name: str = "", group: str = "/api/v1") -> Request:
    tail = f"/{name}" if name else ""
    return ("PUT" if name else "POST"), f"{group}/namespaces/{namespace}/{plural}{tail}", body


def _service(name: str, kind: str, ports: int, **spec: Any) -> Data:
    listed = [{"name": f"p{number}", "port": 80 + number} for number in range(ports)]
    return plain(name, "Service", spec={"type": kind, "ports": listed, "selector": {"a": "b"}, **spec})


def _claim(name: str, storage: str, storage_class: str = "") -> Data:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": storage}},
        "storageClassName": storage_class,
    }
    return plain(name, "PersistentVolumeClaim", spec=spec)


def _lease(name: str) -> Data:
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": {}}


_COORDINATION = "/apis/coordination.k8s.io/v1"
_GPU = {"resources": {"limits": {"cpu": "100m", "memory": "1Mi", "example.com/gpu": "2"},
                      "requests": {"cpu": "100m", "memory": "1Mi", "example.com/gpu": "2"}}}  # fmt: skip

QUOTA_STEPS: list[Request] = [
    _at("counts", "pods", pod("a")),
    _at("counts", "pods", pod("b")),
    _at("counts", "configmaps", plain("a")),
    _at("counts", "configmaps?dryRun=All", plain("b")),
    _at("counts", "configmaps", plain("b")),
    _at("counts", "secrets", plain("a", "Secret")),
    _at("counts", "secrets", plain("b", "Secret")),
    _at("counts", "leases", _lease("a"), group=_COORDINATION),
    _at("counts", "leases", _lease("b"), group=_COORDINATION),
    _at("counts", "services", _service("a", "ClusterIP", 2)),
    _at("counts", "services", _service("a", "NodePort", 2), "a"),
    _at("counts", "services", _service("b", "LoadBalancer", 2)),
    _at("counts", "services", _service("b", "LoadBalancer", 2, allocateLoadBalancerNodePorts=False)),
    _at("counts", "services", _service("c", "LoadBalancer", 1)),
    _at("counts", "persistentvolumeclaims", _claim("a", "1.5Gi", "gold")),
    _at("counts", "persistentvolumeclaims", _claim("b", "1Gi", "gold")),
    _at("counts", "persistentvolumeclaims", _claim("b", "4Gi")),
    _at("counts", "persistentvolumeclaims", _claim("b", "3584Mi")),
    _at("counts", "persistentvolumeclaims", _claim("c", "1Mi")),
    _at("compute", "pods", pod("a")),
    _at("compute", "pods", pod("a", {"resources": {"requests": {"cpu": "1"}}}, {"resources": {"requests": {"memory": "1Gi"}}})),
    _at("compute", "pods", pod("a", sized("250m", "100Mi"), sized("0.25", "50M"))),
    _at("compute", "pods", pod("b", sized("300m", "100Mi"), initContainers=[
        {"name": "i", "image": "registry.example.com/i:1", **sized("600m", "1Mi")}])),
    _at("compute", "pods", pod("b", sized("300m", "100Mi"), initContainers=[
        {"name": "i", "image": "registry.example.com/i:1", "restartPolicy": "Always", **sized("100m", "1Mi")},
        {"name": "j", "image": "registry.example.com/i:1", **sized("350m", "1Mi")}])),
    _at("compute", "pods", pod("c", _GPU)),
    _at("compute", "pods", pod("c", sized("100m", "2Gi"))),
    _at("scopes", "pods", pod("z", priorityClassName="high")),
    _at("scopes", "pods", pod("a")),
    _at("scopes", "pods", pod("b")),
    _at("scopes", "pods", pod("b", sized("100m"))),
    _at("scopes", "pods", pod("c", sized("100m"))),
    _at("scopes", "pods", pod("c", sized("3"), activeDeadlineSeconds=5)),
    _at("scopes", "pods", pod("d", activeDeadlineSeconds=5)),
]  # fmt: skip
