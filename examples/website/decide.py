"""The status of a Website: a pure function of the spec and of the stored Deployment."""

import konverge as kv
from website.model import Website, WebsiteStatus


def decide(site: Website, deployment: kv.Object) -> kv.Plan[WebsiteStatus]:
    current = deployment.get("status", "observedGeneration", default=0) == deployment.metadata.generation
    wanted = deployment.spec["replicas"]
    updated = deployment.get("status", "updatedReplicas", default=0)
    ready = deployment.get("status", "readyReplicas", default=0)
    message = f"{ready} of {wanted} pods are ready"
    if current and updated == ready == wanted:
        condition = kv.ConditionUpdate("Ready", True, "PodsReady", message)
    else:
        condition = kv.ConditionUpdate("Ready", False, "PodsNotReady", message)
    url = f"http://{site.spec.host}" if site.spec.host is not None else None
    return kv.Plan(set_conditions=(condition,), draft=WebsiteStatus(ready_replicas=ready, url=url))
