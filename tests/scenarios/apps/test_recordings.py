"""Each recording of Flux, replayed through the whole reconciler (tests/support/apps/player.py)."""

import pytest
from apps.flux_ends import ENDS, HEALTHY, NEVER
from apps.player import Player

from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.errors import Invalid
from konverge.reconcilers.apps.kinds import HELM_RELEASE
from konverge_testing import Lab

BY_HAND = {"install-upgrade", "rename-release", "suspended", "uninstall-fails"}
"""Recordings with steps of a person, which the tests below carry out."""


@pytest.mark.parametrize("scenario", sorted(ENDS.keys() - BY_HAND))
async def test_recording_ends_as_its_table_requires_and_never_shows_forbidden_conditions(
    lab: Lab, scenario: str
) -> None:
    player = await (await Player(lab, scenario).start()).feed()
    assert {type_: player.last(type_) for type_ in ENDS[scenario]} == ENDS[scenario]
    assert [what for what in NEVER[scenario] if player.ever(*what)] == []
    assert lab.manager.report().of("applicationinstance").last_error == ""


CHANGES: dict[str, dict[str, list[str]]] = {
    "retry-on-failure": {"Ready": ["False", "True", "False", "True"], "Degraded": ["False", "True", "False"]},
    "upgrade-failed-rollback": {"Ready": ["False", "True", "False", "True"], "Degraded": ["False", "True", "False"]},
}


@pytest.mark.parametrize("scenario", CHANGES)
async def test_attempts_of_flux_do_not_count_as_transitions_of_ours(lab: Lab, scenario: str) -> None:
    player = await (await Player(lab, scenario).start()).feed()
    for type_, statuses in CHANGES[
        scenario
    ].items():  # a retry may follow later than the pause that ends the player's wait
        await player.ends_as(type_, statuses[-1])
    assert {type_: player.changes(type_) for type_ in CHANGES[scenario]} == CHANGES[scenario]


async def test_a_suspended_release_is_resumed_before_it_is_deleted(lab: Lab) -> None:
    player = await (await Player(lab, "suspended").start()).feed(before="resume")
    assert player.last("Suspended") == "True/ManuallySuspended"
    assert player.last("Ready") == "Unknown/Reconciling"
    await player.feed(before="delete while suspended")
    assert player.last("Suspended") == "True/ManuallySuspended"
    assert player.last("Ready") == "True/HelmReleaseReady"
    await lab.delete(ApplicationInstance, "shop")
    release = await lab.until(HELM_RELEASE, "shop", lambda found: found.metadata.deleting)
    assert release.spec["suspend"] is False
    await player.feed()
    await lab.until_gone(ApplicationInstance, "shop")


async def test_a_failing_uninstall_is_reported_and_holds_the_finalizer(lab: Lab) -> None:
    player = await (await Player(lab, "uninstall-fails").start()).feed(before="hold released")
    assert player.last("Ready") == "False/Deleting"
    assert player.last("Deleting") == "True/Uninstalling"
    assert player.last("Degraded") == "True/HelmReleaseDegraded"
    assert "termination timeout" in player.message("Degraded")
    assert (await lab.get(ApplicationInstance, "shop")).metadata.finalizers == ("apps.vworkspace.io/finalizer",)
    await player.feed()
    await lab.until_gone(ApplicationInstance, "shop")


async def test_a_rename_is_refused(lab: Lab) -> None:
    player = await (await Player(lab, "rename-release").start()).feed(before="releaseName changed")
    assert player.last("Ready") == "True/HelmReleaseReady"
    with pytest.raises(Invalid, match="cannot be renamed"):
        await lab.patch(ApplicationInstance, "shop", {"spec": {"release": {"name": "renamed"}}})


@pytest.mark.parametrize(
    ("scenario", "before", "says"),
    [
        ("source-missing", "HelmRepository appears", "not found"),
        ("chart-version-missing", "fix", "no 'shop' chart with version matching '9.9.9' found"),
        ("repo-unreachable", "", "connection refused"),
        ("oci-chart-ref", "", "MANIFEST_UNKNOWN"),
    ],
)
async def test_a_source_that_keeps_failing_is_unreachable_by_time_alone(
    lab: Lab, scenario: str, before: str, says: str
) -> None:
    player = await (await Player(lab, scenario).start(grace=3.0)).feed(before=before)

    def unreachable(found: ApplicationInstance) -> bool:
        ready, degraded = found.find_condition("Ready"), found.find_condition("Degraded")
        return (
            ready is not None
            and degraded is not None
            and (ready.reason, degraded.reason) == ("ChartUnreachable", "ChartUnreachable")
        )

    found = await lab.until(ApplicationInstance, "shop", unreachable)
    assert says in found.condition("Ready").message
    if before:
        await player.feed()
        assert {type_: player.last(type_) for type_ in HEALTHY} == HEALTHY


async def test_a_values_error_is_reported_in_words_that_help(lab: Lab) -> None:
    player = await (await Player(lab, "values-secret").start()).feed(before="Secret without the key")
    assert player.last("Ready") == "False/WaitingForSecret"
    assert "does not exist; create it" in player.message("Ready")
    await player.feed(before="Secret with unparsable values")
    assert player.last("Ready") == "False/WaitingForSecret"
    assert "has no key values.yaml" in player.message("Ready")
    await player.feed(before="Secret good")
    assert player.last("Ready") == "False/ValuesError"
    assert "must exist and hold one YAML mapping" in player.message("Ready")
