"""The tests of the operator: each runs on an API server in memory, in virtual time."""

import pytest

import konverge as kv
from konverge_testing import Lab
from website import build
from website.children import DEPLOYMENT, INGRESS, PAGE, SERVICE
from website.model import Website, WebsiteSpec


@pytest.mark.scenario
async def test_website_is_ready_when_its_pods_are_ready(lab: Lab) -> None:
    await lab.start(build)
    await lab.create(Website.new("hello", spec=WebsiteSpec(image="example.com/hello:1", replicas=2)))
    await lab.until(Website, "hello", kv.is_false("Ready"))
    await lab.ready(DEPLOYMENT, "hello")
    site = await lab.until(Website, "hello", kv.is_true("Ready"))
    assert site.status.ready_replicas == 2


@pytest.mark.scenario
async def test_ingress_exists_while_the_spec_has_a_host(lab: Lab) -> None:
    await lab.start(build)
    await lab.create(Website.new("hello", spec=WebsiteSpec(html="<h1>Hello</h1>", host="hello.example.com")))
    await lab.until(Website, "hello", lambda site: site.status.url == "http://hello.example.com")
    assert (await lab.get(INGRESS, "hello")).spec["rules"][0]["host"] == "hello.example.com"
    assert (await lab.get(PAGE, "hello")).to_dict()["data"] == {"index.html": "<h1>Hello</h1>"}
    await lab.patch(Website, "hello", {"spec": {"host": None}})
    await lab.until_gone(INGRESS, "hello")
    await lab.until(Website, "hello", lambda site: site.status.url is None)
    assert (await lab.get(SERVICE, "hello")).spec["ports"][0]["targetPort"] == 8080


@pytest.mark.parametrize("spec", [WebsiteSpec(), WebsiteSpec(image="example.com/hello:1", html="<h1>Hello</h1>")])
async def test_website_has_either_an_image_or_a_page(lab: Lab, spec: WebsiteSpec) -> None:
    await lab.start(build)
    with pytest.raises(kv.ApiError, match="set either image or html"):
        await lab.create(Website.new("hello", spec=spec))


async def test_changed_or_deleted_children_are_repaired(lab: Lab) -> None:
    await lab.start(build)
    await lab.create(Website.new("hello", spec=WebsiteSpec(image="example.com/hello:1")))
    await lab.until(SERVICE, "hello", lambda _: True)
    await lab.patch(SERVICE, "hello", {"spec": {"selector": {"app.kubernetes.io/name": "other"}}})
    await lab.until(SERVICE, "hello", lambda service: service.spec["selector"]["app.kubernetes.io/name"] == "website")
    await lab.delete(DEPLOYMENT, "hello")
    await lab.until(DEPLOYMENT, "hello", lambda _: True)


async def test_number_of_pods_is_left_to_an_autoscaler(lab: Lab) -> None:
    await lab.start(build)
    await lab.create(Website.new("hello", spec=WebsiteSpec(image="example.com/hello:1")))
    await lab.until(DEPLOYMENT, "hello", lambda _: True)
    await lab.patch(DEPLOYMENT, "hello", {"spec": {"replicas": 5}}, subresource="scale")
    await lab.patch(Website, "hello", {"spec": {"image": "example.com/hello:2"}})
    await lab.ready(DEPLOYMENT, "hello")
    site = await lab.until(Website, "hello", lambda site: site.status.ready_replicas == 5 and kv.is_true("Ready")(site))
    containers = (await lab.get(DEPLOYMENT, "hello")).spec["template"]["spec"]["containers"]
    assert [container["image"] for container in containers] == [site.spec.image]


async def test_children_are_deleted_with_their_website(lab: Lab) -> None:
    await lab.start(build)
    await lab.create(Website.new("hello", spec=WebsiteSpec(image="example.com/hello:1")))
    await lab.until(DEPLOYMENT, "hello", lambda _: True)
    await lab.delete(Website, "hello")
    await lab.until_gone(DEPLOYMENT, "hello")
