"""Pod Security beyond the conformance cases of `podsecurity.yaml`, which compare it with a real server."""

import random
from typing import Any

import pytest
from stored_objects import Stored

from konverge_testing.apiserver.admission import Admission, AdmissionCall, Operation
from konverge_testing.apiserver.draws import Draws
from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.resources import Resource, Version
from konverge_testing.apiserver.statuses import StatusError

Data = dict[str, Any]

PODS = Resource(group="", plural="pods", kind="Pod", versions=(Version("v1", Node({})),))
NAMESPACES = Resource(group="", plural="namespaces", kind="Namespace", namespaced=False, versions=PODS.versions)
SAFE = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True}


def _namespace(**labels: str) -> Data:
    labels = {f"pod-security.kubernetes.io/{key.replace('_', '-')}": value for key, value in labels.items()}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "labels": labels}}


def _pod(name: str = "a", *, metadata: Data | None = None, **spec: Any) -> Data:
    spec = {"containers": [{"name": "c", "image": "i"}], **spec}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "n", **(metadata or {})},
        "spec": spec,
    }


async def _refusal(namespace: Data, new: Data, old: Data | None = None, *, subresource: str = "") -> str:
    admission = Admission(Stored([namespace]), draws=Draws(random.Random(1)))
    operation: Operation = "CREATE" if old is None else "UPDATE"
    call = AdmissionCall(
        operation, PODS, "v1", namespace="n", name="a", object=new, old=old, subresource=subresource
    )  # fmt: skip
    try:
        await admission.validate(call)
    except StatusError as error:
        return error.message.partition(": ")[2]
    return ""


async def test_an_annotation_that_switches_apparmor_off_violates_baseline() -> None:
    key = "container.apparmor.security.beta.kubernetes.io/c"
    found = await _refusal(_namespace(enforce="baseline"), _pod(metadata={"annotations": {key: "unconfined"}}))
    detail = f'annotation must not set AppArmor profile type to "{key}="unconfined""'
    assert found == f'violates PodSecurity "baseline:latest": forbidden AppArmor profile ({detail})'
    assert await _refusal(_namespace(enforce="baseline"), _pod(metadata={"annotations": {key: "localhost/x"}})) == ""


async def test_annotations_that_switch_seccomp_off_violate_baseline_before_version_19() -> None:
    keys = ("container.seccomp.security.alpha.kubernetes.io/c", "seccomp.security.alpha.kubernetes.io/pod")
    pod = _pod(metadata={"annotations": dict.fromkeys(keys, "unconfined")})
    found = await _refusal(_namespace(enforce="baseline", enforce_version="v1.18"), pod)
    shown = ", ".join(f'{key}="unconfined"' for key in keys)
    assert found == f'violates PodSecurity "baseline:v1.18": seccompProfile (forbidden annotations {shown})'
    assert await _refusal(_namespace(enforce="baseline", enforce_version="v1.19"), pod) == ""


async def test_an_ephemeral_container_is_checked_when_it_is_added() -> None:
    old = _pod()
    new = _pod(ephemeralContainers=[{"name": "e", "image": "i", "securityContext": {"privileged": True}}])
    found = await _refusal(_namespace(enforce="baseline"), new, old, subresource="ephemeralcontainers")
    assert found.endswith('privileged (container "e" must not set securityContext.privileged=true)')


async def test_update_without_an_image_change_passes_a_violated_pod_security_level() -> None:
    old, new = _pod(hostPID=True), _pod(hostPID=True, metadata={"labels": {"a": "b"}})
    assert await _refusal(_namespace(enforce="baseline"), new, old) == ""
    other = _pod(hostPID=True, containers=[{"name": "c", "image": "other"}])
    assert "hostPID=true" in await _refusal(_namespace(enforce="baseline"), other, old)


@pytest.mark.parametrize("subresource", ["status", "binding", "eviction"])
async def test_subresources_that_write_no_pod_spec_are_not_checked(subresource: str) -> None:
    assert await _refusal(_namespace(enforce="restricted"), _pod(hostPID=True), subresource=subresource) == ""


async def test_pods_sharing_a_controller_are_checked_last_and_at_most_3000_pods() -> None:
    owner = [{"kind": "ReplicaSet", "name": "r", "uid": "1", "controller": True, "apiVersion": "apps/v1"}]
    pods = [_pod(f"owned-{number:04}", metadata={"ownerReferences": owner}, hostPID=True) for number in range(3001)]
    pods.append(_pod("z-alone", hostIPC=True))
    old, new = _namespace(), _namespace(enforce="baseline")
    admission = Admission(Stored([old, *pods]), draws=Draws(random.Random(1)))
    call = AdmissionCall("UPDATE", NAMESPACES, "v1", namespace="n", name="n", object=new, old=old)
    await admission.validate(call)
    assert call.warnings == [
        "new PodSecurity enforce level only checked against the first 3000 of 3002 existing pods",
        'existing pods in namespace "n" violate the new PodSecurity enforce level "baseline:latest"',
        "owned-0000 (and 2999 other pods): host namespaces",
    ]
