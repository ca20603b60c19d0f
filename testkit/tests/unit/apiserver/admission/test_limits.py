"""LimitRanges beyond the recordings: random order upstream, subresources that are not served, and the cost without LimitRanges."""

import copy
import random
import time
from typing import Any, Literal

import pytest
from stored_objects import Stored

from konverge_testing.apiserver.admission import Admission, AdmissionCall
from konverge_testing.apiserver.admission.limits import check_limits, fill_limits, limited
from konverge_testing.apiserver.draws import Draws
from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.resources import Resource, Version
from konverge_testing.apiserver.statuses import StatusError

Data = dict[str, Any]

PODS = Resource(group="", plural="pods", kind="Pod", versions=(Version("v1", Node({})),))
CLAIMS = Resource(group="", plural="persistentvolumeclaims", kind="PersistentVolumeClaim", versions=PODS.versions)
TWO_GI = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}


def _range(name: str, *items: Data) -> Data:
    head = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": name, "namespace": "n"}}
    return {**head, "spec": {"limits": list(items)}}


def _pod(**resources: Data) -> Data:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "resources": resources}]},
    }


def _call(
    found: Data | None,
    operation: Literal["CREATE", "UPDATE"] = "CREATE",
    resource: Resource = PODS,
    **more: Any,
) -> AdmissionCall:
    return AdmissionCall(operation, resource, "v1", namespace="n", name="p", object=found, **more)


def _stored(*objects: Data) -> Stored:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}, "status": {"phase": "Active"}}
    return Stored([namespace, *objects])


def _admission(objects: Stored) -> Admission:
    return Admission(objects, draws=Draws(random.Random(1)), service_accounts="off")


@pytest.mark.parametrize(
    ("resource", "operation", "subresource", "expected"),
    [
        (PODS, "CREATE", "", True),
        (PODS, "CREATE", "binding", False),
        (PODS, "CREATE", "eviction", False),
        (PODS, "UPDATE", "", False),
        (PODS, "UPDATE", "status", False),
        (PODS, "UPDATE", "ephemeralcontainers", False),
        (PODS, "UPDATE", "resize", True),
        (CLAIMS, "CREATE", "", True),
        (CLAIMS, "UPDATE", "", True),
        (CLAIMS, "UPDATE", "status", False),
    ],
)
def test_limit_ranges_apply_to_these_writes_alone(
    resource: Resource, operation: Literal["CREATE", "UPDATE"], subresource: str, expected: bool
) -> None:
    assert limited(_call(_pod(), operation, resource, subresource=subresource)) is expected


def test_an_object_under_deletion_is_admitted() -> None:
    old = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert not limited(_call(TWO_GI, "UPDATE", CLAIMS, old=old))
    assert limited(_call(TWO_GI, "UPDATE", CLAIMS, old={"metadata": {}}))


def test_first_limit_range_sets_the_default_and_last_sets_the_note() -> None:
    call = _call(_pod())
    first = _range("a", {"type": "Container", "default": {"cpu": "1"}})
    second = _range("b", {"type": "Container", "default": {"cpu": "2", "memory": "1Gi"}})
    fill_limits(call, [first, second])
    assert call.object is not None
    assert call.object["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "1", "memory": "1Gi"}}
    note = "LimitRanger plugin set: memory limit for container c"
    assert call.object["metadata"]["annotations"] == {"kubernetes.io/limit-ranger": note}


def test_of_several_violated_limit_ranges_the_first_by_name_refuses() -> None:
    call = _call(_pod(requests={"cpu": "1"}, limits={"cpu": "3"}))
    ranges = [
        _range(name, {"type": "Container", "max": {"cpu": most}}) for name, most in (("a", "4"), ("b", "2"), ("c", "1"))
    ]
    with pytest.raises(
        StatusError, match=r"^pods \"p\" is forbidden: maximum cpu usage per Container is 2, but limit is 3$"
    ):
        check_limits(call, ranges)


def test_defaults_of_a_container_are_copies_of_the_limit_range() -> None:
    found = _range("a", {"type": "Container", "default": {"cpu": "1"}})
    before, call = copy.deepcopy(found), _call(_pod())
    fill_limits(call, [found])
    assert call.object is not None
    call.object["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "2"
    assert found == before


def test_limit_ranges_ignore_pod_overhead() -> None:
    pod = _pod(limits={"cpu": "1900m"})
    pod["spec"]["overhead"] = {"cpu": "1"}
    check_limits(_call(pod), [_range("a", {"type": "Pod", "max": {"cpu": "2"}})])


async def test_a_change_of_a_limit_range_counts_at_once() -> None:
    objects = _stored(_range("a", {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}))
    admission = _admission(objects)
    assert admission.needed(CLAIMS.id, "UPDATE")
    with pytest.raises(StatusError, match="maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi"):
        await admission.validate(_call(TWO_GI, "UPDATE", CLAIMS))
    objects.put(_range("a", {"type": "PersistentVolumeClaim", "max": {"storage": "2Gi"}}))
    await admission.validate(_call(TWO_GI, "UPDATE", CLAIMS))
    objects.remove(("", "limitranges"), "n", "a")
    await admission.validate(_call(TWO_GI, "UPDATE", CLAIMS))


async def test_a_pod_is_not_changed_in_place_by_its_limits() -> None:
    admission = _admission(_stored(_range("a", {"type": "Container", "default": {"cpu": "1"}})))
    call = _call(_pod())
    found = await admission.mutate(call)
    assert found["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "1"}}
    assert call.object == _pod()


def test_without_limit_ranges_an_update_of_a_claim_needs_nothing() -> None:
    assert not _admission(_stored()).needed(CLAIMS.id, "UPDATE")


async def test_a_namespace_without_limit_ranges_costs_microseconds() -> None:
    admission, call = _admission(_stored()), _call(TWO_GI, "UPDATE", CLAIMS)
    start = time.process_time()
    for _ in range(10_000):
        await admission.validate(call)
    assert time.process_time() - start < 0.2
