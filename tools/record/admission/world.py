"""The set-up and the requests of `recorder`: tables of objects and requests, without any I/O."""

from __future__ import annotations

from typing import Any

__all__ = [
    "ESCALATIONS",
    "NAMESPACES",
    "QUOTA_SETUP",
    "QUOTA_STEPS",
    "REVIEWS",
    "RIGHTS",
    "RIGHTS_WORLD",
    "Data",
    "Request",
    "binding",
    "pod",
    "role",
    "rule",
]

Data = dict[str, Any]
Request = tuple[str, str, Data | None]
"""Method, path and body."""

RBAC = "rbac.authorization.k8s.io"
ROLES = f"/apis/{RBAC}/v1"
N = "rights"
IN_N = f"/namespaces/{N}"


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


RIGHTS_WORLD: list[Data] = [
    role(
        "reader", rule("core", "pods pods/log", "get list watch"), rule("core", "configmaps", "get update", "special")
    ),
    role("roles", rule(RBAC, "roles rolebindings", "create update"), rule("core", "pods", "get list")),
    role("escalator", rule(RBAC, "roles", "create escalate")),
    role("binder", rule(RBAC, "rolebindings", "create"), rule(RBAC, "clusterroles", "bind", "wide")),
    role("wide", rule("apps batch", "*", "*"), cluster=True),
    role("parts", rule("*", "*/status", "patch"), rule("apps", "deployments/scale", "update"), cluster=True),
    role("urls", {"nonResourceURLs": ["/metrics", "/debug/*"], "verbs": ["get"]}, cluster=True),
    role("one", rule("core", "secrets", "list"), cluster=True, metadata={"labels": {"part-of": "sum"}}),
    role("two", rule("core", "endpoints", "get"), cluster=True, metadata={"labels": {"part-of": "sum"}}),
    role("sum", cluster=True, aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"part-of": "sum"}}]}),
    role("cluster-roles", rule(RBAC, "clusterroles clusterrolebindings", "create update"), cluster=True),
    role("impersonator", rule("core", "users groups", "impersonate"), cluster=True),
    role(
        "constrained",
        {"apiGroups": ["authentication.k8s.io"], "resources": ["users"], "verbs": ["impersonate:user-info"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["impersonate-on:user-info:list"]},
        cluster=True,
    ),
    binding("reader", "Role/reader", "User:ann", f"ServiceAccount:{N}/robot"),
    binding("roles", "Role/roles", "User:rolf"),
    binding("escalator", "Role/escalator", "User:esc"),
    binding("binder", "Role/binder", "User:bin"),
    binding("gone", "Role/gone", "User:lost"),
    binding("gone-too", "ClusterRole/gone-too", "User:lost"),
    binding("view", "ClusterRole/view", "User:vera"),
    binding("edit", "ClusterRole/edit", "User:edith"),
    binding("admin", "ClusterRole/admin", "User:adam"),
    binding("wide", "ClusterRole/wide", "Group:devs", "User:dan", cluster=True),
    binding("parts", "ClusterRole/parts", "User:sub", cluster=True),
    binding("urls", "ClusterRole/urls", "User:web", cluster=True),
    binding("sum", "ClusterRole/sum", f"Group:system:serviceaccounts:{N}", cluster=True),
    binding("cluster-roles", "ClusterRole/cluster-roles", "User:rolf", cluster=True),
    binding("impersonator", "ClusterRole/impersonator", f"ServiceAccount:{N}/actor", cluster=True),
    binding("constrained", "ClusterRole/constrained", f"ServiceAccount:{N}/player", cluster=True),
]

_ACCOUNTS = ["system:serviceaccounts", f"system:serviceaccounts:{N}"]
_ROBOT = f"system:serviceaccount:{N}:robot"

RIGHTS: list[tuple[str, list[str], str, str]] = [
    ("ann", [], "GET", f"/api/v1{IN_N}/pods"),
    ("ann", [], "GET", f"/api/v1{IN_N}/pods/a"),
    ("ann", [], "GET", f"/api/v1{IN_N}/pods/a/status"),
    ("ann", [], "GET", f"/api/v1{IN_N}/pods?watch=true&timeoutSeconds=1"),
    ("ann", [], "DELETE", f"/api/v1{IN_N}/pods/a"),
    ("ann", [], "DELETE", f"/api/v1{IN_N}/pods"),
    ("ann", [], "POST", f"/api/v1{IN_N}/pods"),
    ("ann", [], "GET", "/api/v1/pods"),
    ("ann", [], "GET", "/api/v1/namespaces/default/pods"),
    ("ann", [], "GET", f"/api/v1{IN_N}/configmaps/special"),
    ("ann", [], "GET", f"/api/v1{IN_N}/configmaps/other"),
    ("ann", [], "GET", f"/api/v1{IN_N}/configmaps"),
    ("ann", [], "GET", f"/api/v1{IN_N}/configmaps?fieldSelector=metadata.name%3Dspecial"),
    ("ann", [], "PUT", f"/api/v1{IN_N}/configmaps/special"),
    ("ann", [], "PATCH", f"/api/v1{IN_N}/configmaps/special"),
    ("ann", [], "GET", f"/api/v1/namespaces/{N}"),
    ("ann", [], "DELETE", f"/api/v1/namespaces/{N}"),
    ("ann", [], "PUT", f"/api/v1/namespaces/{N}/finalize"),
    ("ann", [], "GET", "/api/v1/nodes/n/proxy/metrics"),
    ("ann", [], "GET", "/apis/nothing.example.com/v1/things"),
    ("dan", [], "DELETE", f"/apis/apps/v1{IN_N}/deployments/a"),
    ("dan", [], "GET", f"/apis/apps/v1{IN_N}/deployments/a/scale"),
    ("dan", [], "GET", "/api/v1/pods"),
    ("eve", ["devs"], "GET", "/apis/batch/v1/jobs"),
    ("eve", ["others"], "GET", "/apis/batch/v1/jobs"),
    ("sub", [], "PATCH", f"/api/v1{IN_N}/pods/a/status"),
    ("sub", [], "PATCH", f"/api/v1{IN_N}/pods/a"),
    ("sub", [], "PUT", f"/apis/apps/v1{IN_N}/deployments/a/scale"),
    ("sub", [], "PUT", f"/apis/apps/v1{IN_N}/statefulsets/a/scale"),
    ("web", [], "GET", "/metrics"),
    ("web", [], "GET", "/debug/pprof/heap"),
    ("web", [], "GET", "/logs/a"),
    ("web", [], "POST", "/metrics"),
    ("web", [], "GET", "/version"),
    ("web", [], "GET", "/apis"),
    ("system:anonymous", ["system:unauthenticated"], "GET", "/version"),
    ("system:anonymous", ["system:unauthenticated"], "GET", "/api"),
    ("lost", [], "GET", f"/api/v1{IN_N}/pods"),
    ("<x>&", [], "GET", f"/api/v1{IN_N}/pods"),
    (_ROBOT, _ACCOUNTS, "GET", f"/api/v1{IN_N}/pods"),
    (_ROBOT, _ACCOUNTS, "GET", "/api/v1/secrets"),
    (_ROBOT, _ACCOUNTS, "GET", "/api/v1/namespaces/default/endpoints/kubernetes"),
    (_ROBOT, _ACCOUNTS, "GET", f"/api/v1{IN_N}/secrets/a"),
    ("vera", [], "GET", f"/api/v1{IN_N}/configmaps"),
    ("vera", [], "GET", f"/api/v1{IN_N}/secrets"),
    ("edith", [], "GET", f"/api/v1{IN_N}/secrets"),
    ("edith", [], "GET", f"{ROLES}{IN_N}/roles"),
    ("adam", [], "GET", f"{ROLES}{IN_N}/roles"),
    ("adam", [], "PUT", f"/api/v1{IN_N}/resourcequotas/q"),
    ("root", ["system:masters"], "GET", "/api/v1/secrets"),
]
"""User, groups, method and path."""

ESCALATIONS: list[tuple[str, list[str], str, Data]] = [
    ("rolf", [], "roles", role("esc1", rule("core", "pods", "get"))),
    ("rolf", ["g1", "g2"], "roles", role("esc2", rule("core", "pods secrets", "get delete"), rule("apps", "*", "get"))),
    ("rolf", [], "roles", role("esc3", rule("core", "secrets", "get", "a b"))),
    ("rolf", [], "clusterroles", role("esc4", {"nonResourceURLs": ["/x", "/y"], "verbs": ["get"]}, cluster=True)),
    (
        "rolf",
        [],
        "clusterroles",
        role("esc5", cluster=True, aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}),
    ),
    ("esc", [], "roles", role("esc6", rule("*", "*", "*"))),
    ("rolf", [], "rolebindings", binding("esc7", "ClusterRole/wide", "User:x")),
    ("rolf", [], "rolebindings", binding("esc8", "Role/reader", "User:x")),
    ("rolf", [], "rolebindings", binding("esc9", "Role/absent", "User:x")),
    ("rolf", [], "clusterrolebindings", binding("esc10", "ClusterRole/absent", "User:x", cluster=True)),
    ("bin", [], "rolebindings", binding("esc11", "ClusterRole/wide", "User:x")),
    ("bin", [], "rolebindings", binding("esc12", "ClusterRole/parts", "User:x")),
    ("rolf", ["system:masters"], "roles", role("esc13", rule("*", "*", "*"))),
    ("rolf", [], "rolebindings", binding("esc14", "ClusterRole/cluster-admin", "User:x")),
]
"""User, groups, plural and what is created."""

_AUTHORIZATION = "/apis/authorization.k8s.io/v1"


def _review(kind: str, spec: Data, namespace: str = "") -> tuple[str, Data]:
    place = f"/namespaces/{namespace}" if namespace else ""
    head: Data = {"apiVersion": "authorization.k8s.io/v1", "kind": kind}
    if namespace:
        head["metadata"] = {"namespace": namespace}
    return f"{_AUTHORIZATION}{place}/{kind.lower()}s", {**head, "spec": spec}


_LIST = {"verb": "list", "resource": "pods", "namespace": N}

REVIEWS: list[tuple[str, list[str], str, Data]] = [
    ("root", ["system:masters"], *_review("SubjectAccessReview", spec))
    for spec in (
        {"user": "ann", "resourceAttributes": _LIST},
        {"user": _ROBOT, "resourceAttributes": _LIST},
        {"user": _ROBOT, "groups": _ACCOUNTS, "resourceAttributes": {"verb": "list", "resource": "secrets"}},
        {"groups": ["devs"], "resourceAttributes": {"verb": "*", "group": "apps", "resource": "*"}},
        {"user": "lost", "resourceAttributes": _LIST},
        {"user": "web", "nonResourceAttributes": {"path": "/debug/x", "verb": "get"}},
        {"user": "x", "groups": ["system:masters"], "resourceAttributes": _LIST},
        {"user": "ann", "resourceAttributes": _LIST, "nonResourceAttributes": {"path": "/", "verb": "get"}},
        {"user": "ann"},
        {"resourceAttributes": _LIST},
    )
]
REVIEWS += [
    ("root", ["system:masters"], *_review("LocalSubjectAccessReview", {"user": "ann", "resourceAttributes": _LIST}, N)),
    (
        "root",
        ["system:masters"],
        *_review("LocalSubjectAccessReview", {"user": "ann", "resourceAttributes": _LIST}, "kube-public"),
    ),
    ("ann", [], *_review("SelfSubjectAccessReview", {"resourceAttributes": _LIST})),
    ("ann", [], *_review("SelfSubjectAccessReview", {})),
    ("ann", [], *_review("SelfSubjectRulesReview", {"namespace": N})),
    ("lost", [], *_review("SelfSubjectRulesReview", {"namespace": N})),
    ("ann", [], *_review("SelfSubjectRulesReview", {})),
]
"""User, groups, path and body."""


def plain(name: str, kind: str = "ConfigMap", **more: Any) -> Data:
    """Return a namespaced object of the core group."""
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **more}


NAMESPACES: list[Request] = [
    ("POST", "/api/v1/namespaces/absent/configmaps", plain("a")),
    ("POST", "/api/v1/namespaces/ending/configmaps", plain("a")),
    ("POST", "/api/v1/namespaces/ending/configmaps", {**plain("a"), "metadata": {"generateName": "made-"}}),
    ("POST", "/apis/apps/v1/namespaces/ending/deployments", {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {
            "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
                "containers": [{"name": "c", "image": "registry.example.com/a:1"}]}}}}),
    ("POST", "/apis/authorization.k8s.io/v1/namespaces/absent/localsubjectaccessreviews", {
        "apiVersion": "authorization.k8s.io/v1", "kind": "LocalSubjectAccessReview", "metadata": {"namespace": "absent"},
        "spec": {"user": "a", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "absent"}}}),
    ("DELETE", "/api/v1/namespaces/default", None),
    ("DELETE", "/api/v1/namespaces/kube-system", None),
    ("DELETE", "/api/v1/namespaces/kube-public", None),
    ("PUT", "/api/v1/namespaces/ending/configmaps/held", plain("held", data={"a": "b"})),
]  # fmt: skip


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
