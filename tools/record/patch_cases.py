"""Patches for a real API server and for ours, of one object of each of four kinds. Pure data."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["CASES", "JSON", "MERGE", "OBJECTS", "STRATEGIC"]

Data = dict[str, Any]

JSON: Final = "application/json-patch+json"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"

CONTAINER: Final[Data] = {
    "name": "one",
    "image": "registry.example.com/one:1",
    "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "C", "value": "3"}],
    "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 443, "name": "https"}],
    "args": ["x", "y"],
    "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "data", "mountPath": "/more"}],
    "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
}
SIDE: Final[Data] = {"name": "side", "image": "registry.example.com/side:1"}
POD: Final[Data] = {
    "containers": [CONTAINER, SIDE],
    "volumes": [{"name": "data", "emptyDir": {}}, {"name": "conf", "configMap": {"name": "conf"}}],
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "nodeSelector": {"disk": "ssd"},
    "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a", "b"]}],
}
META: Final[Data] = {
    "name": "one",
    "labels": {"a": "1", "b": "2"},
    "annotations": {"example.com/x": "1"},
    "finalizers": ["example.com/a", "example.com/b"],
}

OBJECTS: Final[dict[str, tuple[str, Data]]] = {
    "ConfigMap": ("/api/v1/namespaces/default/configmaps", {"metadata": META, "data": {"a": "1", "b": "2"}}),
    "Pod": ("/api/v1/namespaces/default/pods", {"metadata": META, "spec": POD}),
    "Service": (
        "/api/v1/namespaces/default/services",
        {
            "metadata": META,
            "spec": {
                "selector": {"a": "1", "b": "2"},
                "ports": [
                    {"name": "http", "port": 80},
                    {"name": "https", "port": 443},
                    {"name": "dns", "port": 53, "protocol": "UDP"},
                ],
                "externalIPs": ["10.9.9.1", "10.9.9.2"],
            },
        },
    ),
    "Deployment": (
        "/apis/apps/v1/namespaces/default/deployments",
        {
            "metadata": META,
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"a": "1"}},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
                "template": {"metadata": {"labels": {"a": "1"}}, "spec": POD},
            },
        },
    ),
}
"""By kind: the path of its objects, and the patched object."""


def op(name: str, path: str, value: Any = ..., source: str | None = None) -> Data:
    """Return an operation of a JSON patch."""
    made: Data = {"op": name, "path": path}
    if value is not ...:
        made["value"] = value
    if source is not None:
        made["from"] = source
    return made


def spec(**fields: Any) -> Data:
    """Return a patch of a deployment's pods."""
    return {"spec": {"template": {"spec": fields}}}


def one(**fields: Any) -> Data:
    """Return a patch of a deployment's first container."""
    return spec(containers=[{"name": "one", **fields}])


_JSON: Final[list[tuple[str, Any]]] = [
    ("ConfigMap", []),
    ("ConfigMap", [op("add", "/data/c", "3")]),
    ("ConfigMap", [op("add", "/data/a", "9")]),
    ("ConfigMap", [op("add", "/metadata/labels/example.com~1x~0y", "1")]),
    ("ConfigMap", [op("add", "/metadata/labels/example.com~1x", "1")]),
    ("ConfigMap", [op("add", "/binaryData/x", "YQ==")]),
    ("ConfigMap", [op("add", "/binaryData", {}), op("add", "/binaryData/x", "YQ==")]),
    ("ConfigMap", [op("add", "", {})]),
    ("ConfigMap", [op("add", "data", {})]),
    ("ConfigMap", [op("add", "/data/c")]),
    ("ConfigMap", [op("replace", "/data/a", "9")]),
    ("ConfigMap", [op("replace", "/data/none", "9")]),
    ("ConfigMap", [op("replace", "/nothing/none", "9")]),
    ("ConfigMap", [op("remove", "/data/a")]),
    ("ConfigMap", [op("remove", "/data/none")]),
    ("ConfigMap", [op("remove", "/data")]),
    ("ConfigMap", [op("test", "/data/a", "1"), op("remove", "/data/a")]),
    ("ConfigMap", [op("test", "/data/a", "2"), op("remove", "/data/a")]),
    ("ConfigMap", [op("test", "/data/none", "2")]),
    ("ConfigMap", [op("test", "/data/none", None), op("add", "/data/none", "1")]),
    ("ConfigMap", [op("test", "/data/none")]),
    ("ConfigMap", [op("test", "/data", {"b": "2", "a": "1"})]),
    ("ConfigMap", [op("test", "/data", {"a": "1"})]),
    ("ConfigMap", [op("move", "/data/z", source="/data/a")]),
    ("ConfigMap", [op("move", "/data/z", source="/data/none")]),
    ("ConfigMap", [op("copy", "/data/z", source="/data/a")]),
    ("ConfigMap", [op("copy", "/data/z", source="/nothing/none")]),
    ("ConfigMap", [op("add", "/metadata/finalizers/-", "example.com/c")]),
    ("ConfigMap", [op("add", "/metadata/finalizers/0", "example.com/c")]),
    ("ConfigMap", [op("add", "/metadata/finalizers/2", "example.com/c")]),
    ("ConfigMap", [op("add", "/metadata/finalizers/3", "example.com/c")]),
    ("ConfigMap", [op("add", "/metadata/finalizers/-1", "example.com/c")]),
    ("ConfigMap", [op("add", "/metadata/finalizers/-3", "example.com/c")]),
    ("ConfigMap", [op("add", "/metadata/finalizers/-4", "example.com/c")]),
    ("ConfigMap", [op("add", "/metadata/finalizers/x", "example.com/c")]),
    ("ConfigMap", [op("remove", "/metadata/finalizers/0")]),
    ("ConfigMap", [op("remove", "/metadata/finalizers/-1")]),
    ("ConfigMap", [op("remove", "/metadata/finalizers/2")]),
    ("ConfigMap", [op("remove", "/metadata/finalizers/-")]),
    ("ConfigMap", [op("replace", "/metadata/finalizers/1", "example.com/c")]),
    ("ConfigMap", [op("replace", "/metadata/finalizers/-2", "example.com/c")]),
    ("ConfigMap", [op("replace", "/metadata/finalizers/2", "example.com/c")]),
    ("ConfigMap", [op("test", "/metadata/finalizers/0", "example.com/a")]),
    ("ConfigMap", [op("test", "/metadata/finalizers/5", "example.com/a")]),
    ("ConfigMap", [op("merge", "/data/a", "1")]),
    ("ConfigMap", [{"path": "/data/a", "value": "1"}]),
    ("ConfigMap", [{"op": "add", "value": "1"}]),
    ("ConfigMap", [op("move", "/data/z")]),
    ("ConfigMap", {"op": "add"}),
    ("ConfigMap", ["add"]),
    ("ConfigMap", [{"op": 1, "path": "/a"}]),
    ("ConfigMap", [{"op": "add", "path": 5}]),
    ("ConfigMap", "text"),
    ("ConfigMap", None),
    ("ConfigMap", [op("add", "/data/c", "3")] * 10_001),
    ("Deployment", [op("test", "/spec/replicas", 0), op("replace", "/spec/replicas", 2)]),
    ("Deployment", [op("test", "/spec/replicas", 0.0), op("replace", "/spec/replicas", 2)]),
    ("Deployment", [op("test", "/spec/replicas", False), op("replace", "/spec/replicas", 2)]),
    ("Deployment", [op("replace", "/spec/template/spec/containers/0/image", "registry.example.com/one:2")]),
    ("Deployment", [op("move", "/spec/template/spec/containers/1", source="/spec/template/spec/containers/0")]),
    (
        "Deployment",
        [
            op("remove", "/spec/template/spec/containers/0/env/1"),
            op("remove", "/spec/template/spec/containers/0/env/1"),
        ],
    ),
]
_MERGE: Final[list[tuple[str, Any]]] = [
    ("ConfigMap", {}),
    ("ConfigMap", {"data": {"c": "3"}}),
    ("ConfigMap", {"data": {"a": None, "b": "9", "none": None}}),
    ("ConfigMap", {"data": None}),
    ("ConfigMap", {"data": {}}),
    ("ConfigMap", {"binaryData": {"x": "YQ==", "y": None}}),
    ("ConfigMap", {"metadata": {"finalizers": ["example.com/z"], "labels": None}}),
    ("ConfigMap", {"metadata": {"finalizers": None}}),
    ("ConfigMap", []),
    ("ConfigMap", "text"),
    ("ConfigMap", None),
    ("Service", {"spec": {"ports": [{"name": "new", "port": 90}]}}),
    ("Service", {"spec": {"selector": {"a": None, "c": "3"}}}),
    (
        "Deployment",
        {"spec": {"template": {"spec": {"containers": [{"name": "x", "image": "x", "env": None, "args": None}]}}}},
    ),
    ("Deployment", {"spec": {"strategy": {"type": "Recreate", "rollingUpdate": None}}}),
]
_STRATEGIC: Final[list[tuple[str, Any]]] = [
    ("ConfigMap", {}),
    ("ConfigMap", {"data": {"a": None, "c": "3"}}),
    ("ConfigMap", {"data": None}),
    ("ConfigMap", {"data": {"$patch": "replace", "z": "1"}}),
    ("ConfigMap", {"data": {"$patch": "delete"}}),
    ("ConfigMap", {"data": {"$patch": "merge", "z": "1"}}),
    ("ConfigMap", {"data": {"$patch": "nonsense"}}),
    ("ConfigMap", {"binaryData": {"x": "YQ==", "y": None}}),
    ("ConfigMap", {"metadata": {"finalizers": ["example.com/c", "example.com/a"]}}),
    ("ConfigMap", {"metadata": {"finalizers": ["example.com/c"]}}),
    ("ConfigMap", {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a", "example.com/none"]}}),
    ("ConfigMap", {"metadata": {"$setElementOrder/finalizers": ["example.com/b", "example.com/a"]}}),
    (
        "ConfigMap",
        {
            "metadata": {
                "$setElementOrder/finalizers": ["example.com/b", "example.com/c", "example.com/a"],
                "finalizers": ["example.com/c"],
            }
        },
    ),
    (
        "ConfigMap",
        {
            "metadata": {
                "$setElementOrder/finalizers": ["example.com/c", "example.com/b"],
                "$deleteFromPrimitiveList/finalizers": ["example.com/a"],
                "finalizers": ["example.com/c"],
            }
        },
    ),
    ("ConfigMap", {"metadata": {"$setElementOrder/finalizers": "x"}}),
    ("ConfigMap", {"metadata": {"$setElementOrder/nothing": ["x"]}}),
    (
        "ConfigMap",
        {"metadata": {"labels": {"a": None, "c": "3"}, "annotations": {"$patch": "replace", "example.com/y": "2"}}},
    ),
    ("ConfigMap", {"$patch": "delete"}),
    ("ConfigMap", {"$retainKeys": ["metadata", "data"], "data": {"c": "3"}}),
    ("ConfigMap", {"$retainKeys": ["metadata"], "data": {"c": "3"}}),
    ("ConfigMap", {"$retainKeys": "metadata"}),
    ("ConfigMap", []),
    ("ConfigMap", "text"),
    ("ConfigMap", None),
    ("Service", {"spec": {"ports": [{"port": 443, "name": "tls"}]}}),
    ("Service", {"spec": {"ports": [{"port": 8080, "name": "new"}]}}),
    ("Service", {"spec": {"ports": [{"port": 80, "$patch": "delete"}]}}),
    ("Service", {"spec": {"ports": [{"port": 99, "$patch": "delete"}]}}),
    ("Service", {"spec": {"ports": [{"$patch": "delete"}]}}),
    ("Service", {"spec": {"ports": [{"$patch": "replace"}, {"port": 8080, "name": "new"}]}}),
    ("Service", {"spec": {"ports": [{"$patch": "merge"}, {"port": 8080, "name": "new"}]}}),
    ("Service", {"spec": {"ports": [{"$patch": "nonsense", "port": 80}]}}),
    ("Service", {"spec": {"ports": [{"name": "keyless"}]}}),
    ("Service", {"spec": {"ports": ["x"]}}),
    ("Service", {"spec": {"ports": "x"}}),
    ("Service", {"spec": {"ports": None}}),
    ("Service", {"spec": {"$setElementOrder/ports": [{"port": 443}, {"port": 80}]}}),
    (
        "Service",
        {
            "spec": {
                "$setElementOrder/ports": [{"port": 443}, {"port": 80}],
                "ports": [{"port": 53, "$patch": "delete"}],
            }
        },
    ),
    (
        "Service",
        {
            "spec": {
                "$setElementOrder/ports": [{"port": 443}, {"port": 80}],
                "ports": [{"port": 80, "name": "web"}, {"port": 443, "name": "x"}],
            }
        },
    ),
    ("Service", {"spec": {"$setElementOrder/ports": [{"name": "x"}], "ports": [{"port": 80, "name": "web"}]}}),
    ("Service", {"spec": {"externalIPs": ["10.9.9.3"]}}),
    ("Service", {"spec": {"selector": {"$patch": "replace", "z": "1"}}}),
    ("Deployment", one(image="registry.example.com/one:2")),
    ("Deployment", one(env=[{"name": "B", "value": "9"}, {"name": "D", "value": "4"}])),
    ("Deployment", one(env=[{"name": "D", "value": "4"}, {"name": "B", "value": "9"}])),
    ("Deployment", one(env=[{"name": "C", "value": "9"}, {"name": "A", "value": "8"}])),
    ("Deployment", one(env=[{"name": "B", "$patch": "delete"}, {"name": "E", "value": "5"}])),
    (
        "Deployment",
        one(
            **{
                "$setElementOrder/env": [{"name": "C"}, {"name": "D"}, {"name": "A"}],
                "env": [{"name": "D", "value": "4"}],
            }
        ),
    ),
    ("Deployment", one(env=None, args=["z"], ports=[{"containerPort": 443, "name": "tls"}])),
    (
        "Deployment",
        one(volumeMounts=[{"name": "conf", "mountPath": "/conf"}, {"mountPath": "/data", "$patch": "delete"}]),
    ),
    ("Deployment", one(resources={"limits": {"cpu": None, "memory": "2Gi"}})),
    ("Deployment", spec(containers=[{"name": "new", "image": "registry.example.com/new:1"}])),
    ("Deployment", spec(containers=[{"name": "side", "$patch": "delete"}])),
    ("Deployment", spec(containers=[{"$patch": "replace"}, {"name": "only", "image": "registry.example.com/only:1"}])),
    (
        "Deployment",
        spec(
            **{
                "$setElementOrder/containers": [{"name": "side"}, {"name": "new"}, {"name": "one"}],
                "containers": [{"name": "new", "image": "registry.example.com/new:1"}],
            }
        ),
    ),
    ("Deployment", spec(containers=[{"image": "registry.example.com/nameless:1"}])),
    ("Deployment", spec(volumes=[{"name": "conf", "emptyDir": {}, "$retainKeys": ["name", "emptyDir"]}])),
    (
        "Deployment",
        spec(volumes=[{"name": "conf", "emptyDir": {}, "configMap": None}, {"name": "more", "emptyDir": {}}]),
    ),
    ("Deployment", spec(volumes=[{"name": "conf", "emptyDir": {}, "$retainKeys": ["name"]}])),
    ("Deployment", spec(tolerations=[{"key": "b", "operator": "Exists"}])),
    ("Deployment", spec(nodeSelector={"disk": None, "zone": "x"})),
    ("Deployment", spec(hostAliases=[{"ip": "10.0.0.1", "hostnames": ["c"]}, {"ip": "10.0.0.2", "hostnames": ["d"]}])),
    ("Deployment", {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
    ("Deployment", {"spec": {"strategy": {"type": "Recreate", "rollingUpdate": None}}}),
    ("Deployment", {"spec": {"selector": {"matchLabels": {"a": "1"}}}}),
    ("Deployment", {"spec": {"replicas": None, "paused": True}}),
    ("Deployment", {"spec": "text"}),
    ("Pod", {"spec": {"containers": [{"name": "side", "image": "registry.example.com/side:2"}]}}),
    ("Pod", {"metadata": {"labels": {"$patch": "replace", "z": "1"}}}),
    ("Pod", {"metadata": {"$patch": "delete"}}),
]
CASES: Final[list[tuple[str, str, Any]]] = [
    (kind, media_type, patch)
    for media_type, cases in ((JSON, _JSON), (MERGE, _MERGE), (STRATEGIC, _STRATEGIC))
    for kind, patch in cases
]
"""Kind, media type and patch."""
