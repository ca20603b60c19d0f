"""CloudNativePG's recordings through the translation, line by line, and the states that were not recorded."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

import pytest
from recordings import lines

from konverge.clock import from_rfc3339
from konverge.objects import Object
from konverge.reconcilers.pools.instances.postgres import (
    CNPG_CLUSTER,
    MAX_CLUSTER_NAME,
    DatabaseState,
    cluster_spec,
    translate,
)
from konverge.reconcilers.pools.instances.words import DatabaseReason
from konverge_testing import Lab, install_crds
from konverge_testing.cnpg import CnpgOperator, CnpgWorld, cnpg_crds

SCENARIOS: Final = ("created", "initdb-done", "own-secret")
DEADLINE: Final = timedelta(minutes=15)


def clusters(scenario: str) -> Iterator[tuple[float, str, Object]]:
    for line in lines("cnpg", scenario):
        if line.object.get("kind") == "Cluster":
            yield line.at, line.type, Object(line.object)


def state(cluster: Object | None, *, after: float = 1.0, secret_exists: bool = True, members: int = 1) -> DatabaseState:
    created = None if cluster is None else cluster.metadata.creation_timestamp
    now = from_rfc3339(created or "2026-11-23T00:00:00Z") + timedelta(seconds=after)
    return translate(cluster, members=members, secret_exists=secret_exists, now=now, deadline=DEADLINE)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_recorded_state_is_a_ready_database(scenario: str) -> None:
    found = [(state(cluster, after=at), kind) for at, kind, cluster in clusters(scenario)]
    assert found
    assert {one.reason for one, _ in found} <= {DatabaseReason.PROVISIONING, DatabaseReason.DELETING}
    assert not any(one.ready or one.lasting for one, _ in found)


def test_the_message_has_the_phase_and_its_reason_once_there_are_any() -> None:
    messages = list(dict.fromkeys(state(cluster, after=at).message for at, _, cluster in clusters("initdb-done")))
    assert messages == [
        "Cluster db: no status yet (0 of 1 members are ready)",
        "Cluster db: Setting up primary (Creating primary instance db-1) (0 of 1 members are ready)",
        "Cluster db: Waiting for the instances to become active (Some instances are not yet active. Please wait.) (0 of 1 members are ready)",
    ]


def test_the_fields_that_we_set_are_those_that_the_recorded_webhook_keeps() -> None:
    stored = next(cluster for _, _, cluster in clusters("created"))
    ours = cluster_spec(members=1, size="1Gi")
    assert set(ours) <= set(stored.spec)
    assert set(ours["bootstrap"]["initdb"]) <= set(stored.spec["bootstrap"]["initdb"])


def made(status: Any, **annotations: str) -> Object:
    cluster = CNPG_CLUSTER.new("db", "team", annotations=annotations, spec={}, status=status)
    data = cluster.to_dict()
    data["metadata"]["creationTimestamp"] = "2026-11-23T00:00:00Z"
    return Object(data)


def healthy(running: Any = 1, ready: str = "True", phase: str = "Cluster in healthy state") -> dict[str, Any]:
    return {
        "phase": phase,
        "readyInstances": running,
        "conditions": [{"type": "Ready", "status": ready, "reason": "ClusterIsReady"}],
    }


@pytest.mark.parametrize(
    ("cluster", "options", "reason"),
    [
        (made(healthy()), {}, DatabaseReason.READY),
        (made(healthy(3)), {"members": 3}, DatabaseReason.READY),
        (made(healthy(2)), {"members": 3}, DatabaseReason.PROVISIONING),
        (made(healthy()), {"secret_exists": False}, DatabaseReason.NO_SECRET),
        (made(healthy(ready="False")), {}, DatabaseReason.PROVISIONING),
        (made(healthy(0)), {}, DatabaseReason.PROVISIONING),
        (made(healthy(0)), {"after": 15 * 60}, DatabaseReason.STALLED),
        (made({}, **{"cnpg.io/reconciliationLoop": "disabled"}), {}, DatabaseReason.PAUSED),
        (made({}, **{"cnpg.io/hibernation": "on"}), {}, DatabaseReason.PAUSED),
        (made(healthy(phase="Cluster is unrecoverable and needs manual intervention")), {}, DatabaseReason.FAILED),
        (made({"phase": "Invalid cluster definition"}), {"after": 15 * 60}, DatabaseReason.FAILED),
        (made({"phase": 7, "conditions": "none", "readyInstances": "1"}), {}, DatabaseReason.PROVISIONING),
        (made(healthy(True)), {}, DatabaseReason.PROVISIONING),
        (made(None), {}, DatabaseReason.PROVISIONING),
        (None, {}, DatabaseReason.PROVISIONING),
    ],
)
def test_a_status_of_any_shape_has_one_reason(cluster: Object | None, options: dict[str, Any], reason: str) -> None:
    found = state(cluster, **options)
    assert (found.reason, found.ready) == (reason, reason == DatabaseReason.READY)
    assert found.lasting == (reason == DatabaseReason.FAILED)


def test_database_that_is_not_ready_is_checked_again_at_its_deadline() -> None:
    found = state(made({}))
    assert found.recheck == from_rfc3339("2026-11-23T00:15:00Z")


def test_database_lost_at_the_calendar_end_has_its_deadline_from_now() -> None:
    end, now = from_rfc3339("9999-12-31T23:59:59Z"), from_rfc3339("2026-11-23T00:00:00Z")
    found = translate(made({}), members=1, secret_exists=True, now=now, deadline=DEADLINE, since=end)
    assert (found.reason, found.recheck) == (DatabaseReason.PROVISIONING, now + DEADLINE)


def shapes(events: list[Object]) -> list[tuple[str, tuple[tuple[str, str, str], ...]]]:
    """Phase and conditions of each state, without repetitions: other changes of the status, such as Secrets, are ignored."""
    found = [
        (
            str(one.get("status", "phase") or ""),
            tuple(
                sorted((c["type"], c["status"], c["reason"]) for c in one.get("status", "conditions", default=[]) or [])
            ),
        )
        for one in events
    ]
    return list(dict.fromkeys(found))


async def test_the_stand_in_writes_the_states_that_the_real_operator_wrote(lab: Lab) -> None:
    await install_crds(lab.client, cnpg_crds())
    seen: list[Object] = []
    async with CnpgOperator(lab.config, world=CnpgWorld(stuck={"db"})):
        await lab.create(CNPG_CLUSTER.new("db", lab.namespace, spec=cluster_spec(size="1Gi")))

        def is_set_up(cluster: Object) -> bool:
            seen.append(cluster)
            return bool(cluster.get("status", "instances"))

        await lab.until(CNPG_CLUSTER, "db", is_set_up)
    recorded = [cluster for _, kind, cluster in clusters("created") if kind != "DELETED"]
    assert [shape for shape in shapes(recorded) if shape in shapes(seen)] == shapes(seen)
    assert shapes(seen)[-1] == shapes(recorded)[-1]


async def test_a_cluster_of_the_stand_in_becomes_ready_and_has_its_secret(lab: Lab) -> None:
    await install_crds(lab.client, cnpg_crds())
    async with CnpgOperator(lab.config):
        await lab.create(CNPG_CLUSTER.new("db", lab.namespace, spec=cluster_spec(members=3)))
        cluster = await lab.until(
            CNPG_CLUSTER,
            "db",
            lambda one: state(one, members=3).reason == DatabaseReason.READY,
            timeout=200,
        )
    assert cluster.get("status", "readyInstances") == 3


def test_the_longest_name_of_an_instance_leaves_room_for_its_database() -> None:
    from konverge.crds.pools_v1alpha1 import MAX_INSTANCE_NAME

    assert MAX_INSTANCE_NAME + len("-db") <= MAX_CLUSTER_NAME
