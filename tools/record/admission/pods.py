"""Pods on a real control plane, for `recorder`: what admission puts into them, and their eviction."""

from collections.abc import Iterator

from record.admission.plane import Server, bare
from record.admission.world import Data, pod


def record_evictions(server: Server) -> list[Data]:
    base, budgets = "/api/v1/namespaces/evictions", "/apis/policy/v1/namespaces/evictions/poddisruptionbudgets"
    server.make("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "evictions"}})
    server.wait_for_account("evictions")
    cases = []
    for number, (pod_status, statuses, spec) in enumerate(_eviction_states()):
        name = f"p{number}"
        server.make(f"{base}/pods", pod(name, metadata={"labels": {"app": name}, "finalizers": ["example.com/hold"]}))
        merge = [("Content-Type", "application/merge-patch+json")]
        server.ask("PATCH", f"{base}/pods/{name}/status", {"status": pod_status}, merge)
        for index, status in enumerate(statuses):
            body = {"selector": {"matchLabels": {"app": name}}, "minAvailable": 1, **spec}
            budget = f"{name}-{index}"
            server.make(
                budgets,
                {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": budget}, "spec": body},
            )
            server.ask("PATCH", f"{budgets}/{budget}/status", {"status": status}, merge)
        before = bare(server.get(budgets)["items"])
        result = bare(server.get(f"{base}/pods/{name}"))
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        code, document = server.ask("POST", f"{base}/pods/{name}/eviction", eviction)
        after = {item["metadata"]["name"]: item.get("status") for item in bare(server.get(budgets)["items"])}
        cases.append({"pod": result, "before": before, "status": code, "answer": document, "after": after,
                      "conditions": server.get(f"{base}/pods/{name}")["status"].get("conditions")})  # fmt: skip
    return cases


def _eviction_states() -> Iterator[tuple[Data, list[Data], Data]]:
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    unready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}

    def status(allowed: int, healthy: int, desired: int, *conditions: Data, seen: int = 1) -> Data:
        counts = {
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": healthy,
        }
        return {**counts, "observedGeneration": seen, "conditions": list(conditions)}

    def condition(reason: str, message: str) -> Data:
        moment = "2026-01-01T00:00:00Z"
        return {
            "type": "DisruptionAllowed",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastTransitionTime": moment,
        }

    yield ready, [], {}
    yield {"phase": "Pending"}, [status(0, 1, 1)], {}
    yield ready, [status(0, 1, 1)], {}
    yield ready, [status(0, 3, 1)], {}
    yield ready, [status(0, 3, 1, condition("SyncFailed", "no scale"))], {}
    yield ready, [status(0, 3, 1, condition("Other", "not now"))], {}
    yield ready, [status(2, 3, 1)], {}
    yield ready, [status(1, 2, 1)], {}
    yield ready, [status(1, 2, 1, condition("Other", "not now"))], {}
    yield ready, [status(1, 2, 1, seen=0)], {}
    yield ready, [status(1, 2, 1), status(1, 2, 1)], {}
    yield unready, [status(0, 1, 1)], {}
    yield unready, [status(0, 0, 1)], {}
    yield unready, [status(0, 0, 1)], {"unhealthyPodEvictionPolicy": "AlwaysAllow"}


def record_defaults(server: Server) -> list[Data]:
    base = "/api/v1/namespaces/evictions/pods?dryRun=All"
    own = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]
    bodies = [
        pod("a"),
        pod("a", tolerations=own),
        pod("a", tolerations=[{"operator": "Exists"}]),
        pod("a", priorityClassName="high"),
        pod("a", priorityClassName="absent"),
        pod("a", priorityClassName="system-node-critical"),
        pod("a", priority=5),
        pod("a", serviceAccountName="absent"),
        pod("a", automountServiceAccountToken=False),
    ]
    cases = []
    for body in bodies:
        status, document = server.ask("POST", base, body)
        cases.append({"body": body, "status": status, "answer": bare(document)})
    return cases
