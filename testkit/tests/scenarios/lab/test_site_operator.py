"""The example of a pure decision: its plan names the whole set of children, and a page that is removed from the spec is deleted."""

import pytest
from site_operator import PAGE, Site, SiteSpec, build, decide

import konverge as kv
from konverge_testing import Lab


def test_the_plan_of_a_paused_site_leaves_its_children_untouched() -> None:
    site = Site.new("shop", "web", spec=SiteSpec(pages={"home": "welcome"}, paused=True))
    assert decide(site).children is None
    assert decide(Site.new("shop", "web", spec=SiteSpec())).children == ()


@pytest.mark.scenario
async def test_page_missing_from_the_spec_is_deleted_unless_site_is_paused(lab: Lab) -> None:
    lab.skip_plans("sites*: recreate by hand after write 4", why="a paused site that is made anew publishes no page")
    await lab.start(build)
    await lab.create(Site.new("shop", spec=SiteSpec(pages={"home": "welcome", "help": "ask us"})))

    async def published(count: int) -> None:
        await lab.until(Site, "shop", lambda site: site.status.pages == count and kv.is_true("Ready")(site))

    await published(2)
    await lab.patch(Site, "shop", {"spec": {"paused": True, "pages": {"help": None}}})
    await lab.until(Site, "shop", kv.is_false("Ready"))
    assert (await lab.get(PAGE, "shop-help")).name == "shop-help"
    await lab.patch(Site, "shop", {"spec": {"paused": False}})
    await published(1)
    await lab.until_gone(PAGE, "shop-help")
