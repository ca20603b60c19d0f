"""The children of a Website: pure functions from the spec to objects."""

from typing import Any

import konverge as kv
from website.model import Website

DEPLOYMENT = kv.kind("apps/v1", "Deployment")
SERVICE = kv.kind("v1", "Service")
INGRESS = kv.kind("networking.k8s.io/v1", "Ingress")
PAGE = kv.kind("v1", "ConfigMap")

SERVER = "nginxinc/nginx-unprivileged:1.29"
PORT = 8080


def children_of(site: Website) -> list[kv.Object]:
    """Return all children that should exist now; the operator deletes each other child."""
    children = [deployment_of(site), service_of(site)]
    if site.spec.html is not None:
        children.append(PAGE.new(site.name, site.namespace, data={"index.html": site.spec.html}))
    if site.spec.host is not None:
        children.append(ingress_of(site, site.spec.host))
    return children


def labels_of(site: Website) -> dict[str, str]:
    return {"app.kubernetes.io/name": "website", "app.kubernetes.io/instance": site.name}


def deployment_of(site: Website) -> kv.Object:
    container: dict[str, Any] = {"name": "web", "image": site.spec.image or SERVER}
    pod: dict[str, Any] = {"containers": [container]}
    if site.spec.html is not None:
        container["volumeMounts"] = [{"name": "page", "mountPath": "/usr/share/nginx/html"}]
        pod["volumes"] = [{"name": "page", "configMap": {"name": site.name}}]
    labels = labels_of(site)
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec: dict[str, Any] = {"selector": {"matchLabels": labels}, "template": template}
    if site.spec.replicas is not None:
        spec["replicas"] = site.spec.replicas
    return DEPLOYMENT.new(site.name, site.namespace, labels=labels, spec=spec)


def service_of(site: Website) -> kv.Object:
    spec = {"selector": labels_of(site), "ports": [{"port": 80, "targetPort": PORT}]}
    return SERVICE.new(site.name, site.namespace, labels=labels_of(site), spec=spec)


def ingress_of(site: Website, host: str) -> kv.Object:
    backend = {"service": {"name": site.name, "port": {"number": 80}}}
    path = {"path": "/", "pathType": "Prefix", "backend": backend}
    spec = {"rules": [{"host": host, "http": {"paths": [path]}}]}
    return INGRESS.new(site.name, site.namespace, labels=labels_of(site), spec=spec)
