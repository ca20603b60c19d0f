"""A kind whose CRD is not installed is detected at the start: a model is installed, and otherwise the test fails with the kind's name."""

from typing import Any

import pytest
from widgets import CONFIG_MAP, By, Widget, widget

import konverge as kv
from konverge.crds import crd_stub
from konverge.errors import UsageError
from konverge_testing import Lab
from konverge_testing.lab import explore, install_crds

RELEASE = kv.kind("helm.example.com/v2", "Release")
REPOSITORY = kv.kind("source.example.com/v1", "Repository")


@kv.resource("tests.konverge.dev/v1")
class Gear(kv.CustomResource[kv.Model, kv.Status]):
    """A kind that is owned and watched, and reconciled by no controller."""


async def fine(_: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    ctx.status.set_condition("Ready", True, "Fine")
    return kv.Done()


async def makes_a_gear(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    await ctx.own(Gear.new(w.name))
    return await fine(w, ctx)


def nothing(_: Any, __: kv.Caches) -> list[kv.Key]:
    return []


def build(manager: kv.Manager) -> None:
    controller = kv.Controller.of(Widget).owns(CONFIG_MAP).owns(RELEASE).watches(REPOSITORY, to=nothing)
    manager.add(controller.reconciled_by(By(fine)))


async def starts(lab: Lab) -> None:
    await lab.start(build)


WORDS = (
    r"does not serve:\n"
    r"  - Release in helm\.example\.com/v2, owned by controller 'widget'\n"
    r"  - Repository in source\.example\.com/v1, watched by controller 'widget'\n"
    r"install their CRDs before lab\.start: await install_crds\("
)


async def test_kinds_that_no_server_serves_fail_the_test_by_name(lab: Lab) -> None:
    with pytest.raises(UsageError, match=WORDS):
        await starts(lab)


def test_kinds_that_no_server_serves_fail_the_reference_run_at_its_start() -> None:
    report = explore(starts, only=[])
    assert not report.passed
    assert "Release in helm.example.com/v2, owned by controller 'widget'" in report.text()
    assert report.reference.seconds < 2000.0


async def test_kinds_whose_crds_the_test_installs_are_not_missing(lab: Lab) -> None:
    await install_crds(lab.client, [crd_stub(RELEASE), crd_stub(REPOSITORY)])
    await lab.start(build)
    await lab.create(widget())
    await lab.until(Widget, "one", kv.is_true("Ready"))


async def test_the_crds_of_models_that_are_owned_alone_are_installed(lab: Lab) -> None:
    await lab.start(lambda manager: manager.add(kv.Controller.of(Widget).owns(Gear).reconciled_by(By(makes_a_gear))))
    await lab.create(widget())
    await lab.until(Gear, "one", lambda _: True)


async def test_test_about_an_absent_crd_may_install_it_later(lab: Lab) -> None:
    manager = await lab.start(build, absent=[RELEASE, REPOSITORY])
    report = await manager.ready(timeout=5)
    assert "serves no Release" in report.of("widget").why
    await install_crds(lab.client, [crd_stub(RELEASE), crd_stub(REPOSITORY)])
    await lab.create(widget())
    await lab.until(Widget, "one", kv.is_true("Ready"), timeout=120)


async def test_crd_of_an_absent_or_optional_model_is_not_installed(lab: Lab) -> None:
    seen: list[bool] = []

    async def looks(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        seen.append(ctx.serves(Gear))
        return await fine(w, ctx)

    optional = kv.Controller.of(Widget).watches(Gear, to=nothing, optional=True)
    absent = kv.Controller.of(Gear).reconciled_by(By(fine))

    def both(manager: kv.Manager) -> None:
        manager.add(optional.reconciled_by(By(looks)))
        manager.add(absent)

    await lab.start(both, absent=[Gear])
    await lab.create(widget())
    await lab.until(Widget, "one", kv.is_true("Ready"))
    assert seen == [False]


async def test_on_a_cluster_the_error_names_the_option_to_install_crds(lab: Lab) -> None:
    cautious = Lab(lab.client, lab.config, lab.namespace, server=lab.server, install=False)
    with pytest.raises(UsageError, match=r"Gear in tests\.konverge\.dev/v1, reconciled by .*\n.*--lab-install-crds"):
        await cautious.start(lambda manager: manager.add(kv.Controller.of(Gear).reconciled_by(By(fine))))
