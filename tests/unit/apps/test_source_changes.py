"""Another URL of the source, with the same version: the running content is from the new URL only after Flux has fetched from it."""

from typing import Any

import pytest

from konverge.reconcilers.apps import ApplicationInstanceReconciler, Settings
from konverge.reconcilers.shared.helm_release.facts import Translation
from konverge.reconcilers.shared.helm_release.translate import translate

OLD, NEW = "sha256:" + "a" * 64, "sha256:" + "b" * 64
SETTLED = {"vworkspace.io/applied-intent-hash": "older", "vworkspace.io/applied-source": "older@HelmRepository-uid/1"}
OCI_SETTLED = {**SETTLED, "vworkspace.io/applied-source": "older@OCIRepository-uid/1"}


def helm(make: Any, repository: Any, chart: Any = None, **release: Any) -> Translation:
    release.setdefault("annotations", SETTLED)
    made = make.release(make.condition("Ready", "True", "InstallSucceeded"), **release)
    return translate(make.facts(made, repository=repository, chart=chart or make.source("HelmChart")))


def oci(make: Any, repository: Any, **release: Any) -> Translation:
    release.setdefault("annotations", OCI_SETTLED)
    release.setdefault("version", "1.0.0+" + "a" * 12)
    made = make.release(make.condition("Ready", "True", "InstallSucceeded"), **release)
    return translate(make.facts(made, repository=repository, oci=True))


def failing(make: Any, ago: float) -> Any:
    return make.condition("FetchFailed", "True", "Failed", "connection refused", generation=2, ago=ago)


@pytest.mark.parametrize("kind", ["HelmRepository", "OCIRepository"])
def test_a_new_url_is_not_ready_before_flux_has_fetched_from_it(make: Any, kind: str) -> None:
    source = make.source(
        kind, generation=2, fetched=1, revision=f"1.0.0@{OLD}" if kind == "OCIRepository" else "sha256:index"
    )
    translation = helm(make, source) if kind == "HelmRepository" else oci(make, source)
    assert translation.row == "source_syncing"
    assert translation.ready is not None
    assert (translation.ready.status, translation.ready.reason) == (False, "Upgrading")
    assert translation.reconciling is not None
    assert (translation.reconciling.status, translation.reconciling.reason) == (True, "ChartSourceSyncing")
    assert not translation.rolled_out


@pytest.mark.parametrize(("ago", "row"), [(10, "source_syncing"), (31, "chart_unreachable")])
@pytest.mark.parametrize("kind", ["HelmRepository", "OCIRepository"])
def test_unreachable_new_url_is_chart_unreachable_after_the_grace_time(
    make: Any, kind: str, ago: float, row: str
) -> None:
    source = make.source(kind, failing(make, ago), generation=2, fetched=1, revision=f"1.0.0@{OLD}")
    translation = helm(make, source) if kind == "HelmRepository" else oci(make, source)
    assert translation.row == row
    assert not translation.rolled_out
    if row == "chart_unreachable":
        assert translation.ready is not None
        assert translation.ready.reason == "ChartUnreachable"
        assert "connection refused" in translation.ready.message


def test_url_that_flux_gave_up_on_is_not_fetched_although_observed(make: Any) -> None:
    stalled = make.condition("Stalled", "True", "URLInvalid", generation=2)
    assert (
        helm(make, make.source("HelmRepository", stalled, failing(make, 60), generation=2)).row == "chart_unreachable"
    )


def test_helm_mirror_with_an_equal_index_is_ready_once_fetched(make: Any) -> None:
    translation = helm(make, make.source("HelmRepository", generation=2, fetched=2))
    assert (translation.row, translation.rolled_out) == ("ready", True)


def test_oci_mirror_with_an_equal_digest_is_ready_once_fetched(make: Any) -> None:
    translation = oci(make, make.source("OCIRepository", generation=2, fetched=2, revision=f"1.0.0@{OLD}"))
    assert (translation.row, translation.rolled_out) == ("ready", True)


def test_new_repository_index_counts_once_the_helm_chart_is_built_from_it(make: Any) -> None:
    repository = make.source("HelmRepository", generation=2, fetched=2, revision="sha256:new")
    assert helm(make, repository).row == "source_syncing"
    assert helm(make, repository, make.source("HelmChart", revision="sha256:new")).row == "ready"
    lacking = make.condition("FetchFailed", "True", "InvalidChartReference", "no such version", ago=60)
    chart = make.source("HelmChart", lacking, revision="sha256:new")
    assert helm(make, repository, chart).row == "chart_unreachable"


@pytest.mark.parametrize(
    ("release", "row"),
    [
        ({}, "rolling_out"),
        ({"attempted_version": "1.0.0+" + "b" * 12}, "not_the_wanted_version"),
        ({"version": "1.0.0+" + "b" * 12}, "ready"),
        ({"version": "1.0.0"}, "ready"),
    ],
    ids=["not tried", "tried", "deployed", "digests are not tracked"],
)
def test_another_digest_under_the_same_tag_is_ready_once_it_is_deployed(
    make: Any, release: dict[str, Any], row: str
) -> None:
    repository = make.source("OCIRepository", generation=2, fetched=2, revision=f"1.0.0@{NEW}")
    assert oci(make, repository, **release).row == row


@pytest.mark.parametrize(
    ("fetched", "noted", "row"),
    [
        (1, "source@HelmRepository-uid/1", "ready"),
        (2, "source@HelmRepository-uid/1", "source_syncing"),
        (1, "source@an earlier one/4", "source_syncing"),
        (-1, "source@an earlier one/4", "ready"),
        (-1, "older@an earlier one/4", "source_syncing"),
    ],
    ids=[
        "back, and nothing fetched between",
        "back after a fetch",
        "another object",
        "made anew",
        "new and another URL",
    ],
)
def test_a_source_that_was_rolled_out_from_needs_no_second_fetch(make: Any, fetched: int, noted: str, row: str) -> None:
    """The URL is changed to a dead server and back; or the source is suspended, which changes its generation too."""
    source = make.source("HelmRepository", generation=3, fetched=fetched)
    assert helm(make, source, annotations={"vworkspace.io/applied-source": noted}).row == row


def test_a_registry_outage_after_the_fetch_changes_nothing(make: Any) -> None:
    outage = make.condition("FetchFailed", "True", "Failed", "refused", ago=3600)
    assert helm(make, make.source("HelmRepository", outage), annotations={}).row == "ready"


async def test_the_applied_chart_names_the_new_url_only_after_the_fetch(make: Any, context: Any) -> None:
    ctx, reconciler = context(), ApplicationInstanceReconciler(Settings())
    await reconciler.reconcile(make.instance(), ctx)
    release = ctx.objects["HelmRelease", "shop"].data
    release["status"] = make.release(make.condition("Ready", "True", "InstallSucceeded")).data["status"]
    ctx.fetch()
    await reconciler.reconcile(make.instance(), ctx)
    assert ctx.plan.draft.last_applied_chart.url == "https://charts.example.com"

    moved = make.instance(spec={"chart": {"url": "https://mirror.example.com"}}, generation=2)
    await reconciler.reconcile(moved, ctx)
    assert ctx.says()["Ready"].startswith("False/")
    assert "last_applied_chart" not in ctx.plan.draft.model_fields_set

    ctx.fetch()
    await reconciler.reconcile(moved, ctx)
    assert ctx.says()["Ready"] == "True/HelmReleaseReady"
    assert ctx.plan.draft.last_applied_chart.url == "https://mirror.example.com"
