"""The tests of pages that moved from kopf."""

import pytest
from leave_kopf import FINALIZER, leave_kopf
from page_operator import CONFIG_MAP, Page, PageSpec, build

import konverge as kv
from konverge_testing import Lab


@pytest.mark.scenario
async def test_a_page_is_published_changed_and_withdrawn(lab: Lab) -> None:
    await lab.start(build)
    await lab.create(Page.new("home", spec=PageSpec(text="hello")))
    await lab.until(Page, "home", kv.is_true("Ready"))
    await lab.patch(Page, "home", {"spec": {"text": "hello, world"}})
    await lab.until(Page, "home", lambda page: page.status.characters == 12)
    assert (await lab.get(CONFIG_MAP, "home")).get("data") == {"index.html": "hello, world"}
    await lab.delete(CONFIG_MAP, "home")  # kopf would not notice
    await lab.until(CONFIG_MAP, "home", lambda map_: map_.get("data") == {"index.html": "hello, world"})
    await lab.delete(Page, "home")
    await lab.until_gone(CONFIG_MAP, "home")


async def test_nothing_of_kopf_stays(lab: Lab) -> None:
    await lab.start(build)
    left = {"finalizers": [FINALIZER], "annotations": {"kopf.zalando.org/last-handled-configuration": "{}", "a": "b"}}
    await lab.create(Page.decode({"metadata": {"name": "old", **left}, "spec": {"text": "hello"}}))
    await lab.until(Page, "old", kv.is_true("Ready"))
    assert [await leave_kopf(lab.client, lab.namespace) for _ in range(2)] == [1, 0]
    page = await lab.get(Page, "old")
    assert (page.metadata.annotations, page.metadata.finalizers) == ({"a": "b"}, ("example.com/search",))
