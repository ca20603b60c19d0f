"""A small operator on kopf, as its users write them; `kopf run` starts it, ROBOTS names the group that it serves, NAMESPACE where, WATCH how long a watch lasts."""

import os
from typing import Any

import kopf
from lightkube import Client
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap

GROUP = os.environ["ROBOTS"]
CLIENT: Any = Client(namespace=os.environ["NAMESPACE"])


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.queueing.exit_timeout = 0.2
    settings.persistence.finalizer = f"{GROUP}/kopf"
    settings.watching.server_timeout = int(os.environ["WATCH"])


@kopf.on.create(GROUP, "v1", "robots")
def create(spec: kopf.Spec, name: str, body: kopf.Body, patch: kopf.Patch, retry: int, **_: Any) -> dict[str, Any]:
    if retry == 0:
        raise kopf.TemporaryError("not yet", delay=0.1)
    child: dict[str, Any] = {"metadata": {"name": f"{name}-plan"}, "data": {"task": spec["task"]}}
    kopf.adopt(child, owner=body)
    CLIENT.create(ConfigMap.from_dict(child))
    patch.status["phase"] = "Up"
    kopf.info(body, reason="Planned", message=f"{name} will {spec['task']}")
    return {"retries": retry}


@kopf.on.update(GROUP, "v1", "robots", field="spec.task")
def update(old: Any, new: Any, name: str, body: kopf.Body, patch: kopf.Patch, **_: Any) -> None:
    CLIENT.patch(ConfigMap, f"{name}-plan", {"data": {"task": new}})
    kopf.warn(body, reason="Replanned", message="once more")
    patch.status["changed"] = f"{old} to {new}"


@kopf.on.delete(GROUP, "v1", "robots")
def delete(name: str, namespace: str | None, **_: Any) -> None:
    CLIENT.create(ConfigMap(metadata=ObjectMeta(name=f"{name}-farewell", namespace=namespace)))


@kopf.on.event("", "v1", "configmaps", annotations={"ask": kopf.PRESENT})
def answer(name: str, annotations: kopf.Annotations, patch: kopf.Patch, **_: Any) -> None:
    if "answer" not in annotations:
        patch.metadata.annotations["answer"] = annotations["ask"].upper()
