"""The test of the script that gives the fields of a kubebuilder operator to konverge."""

import pytest
from leave_kubebuilder import NEW, OLD, leave_kubebuilder
from page_operator import CONFIG_MAP, Page, PageSpec, build

from konverge.crds import crd
from konverge_testing import Lab, install_crds


async def write_as_kubebuilder(lab: Lab) -> None:
    """Write a Page's ConfigMap and status as an older operator in Go, with a key and a condition that page_operator.py does not have."""
    page = await lab.create(Page.new("home", spec=PageSpec(text="hello")))
    owner = {"apiVersion": "example.com/v1", "kind": "Page", "name": "home", "uid": page.uid, "controller": True}
    child = CONFIG_MAP.new("home", lab.namespace, data={"index.html": "hello", "index.txt": "hello"}).to_dict()
    child["metadata"]["ownerReferences"] = [owner]
    since = {"status": "True", "reason": "Done", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {"conditions": [{"type": "Ready", **since}, {"type": "Synced", **since}]}
    maps = f"/api/v1/namespaces/{lab.namespace}/configmaps"
    await lab.client.raw("POST", maps, body=child, params={"fieldManager": OLD})
    pages, merge = f"/apis/example.com/v1/namespaces/{lab.namespace}/pages", "application/merge-patch+json"
    await lab.client.raw(
        "PATCH", f"{pages}/home/status", body={"status": status}, content_type=merge, params={"fieldManager": OLD}
    )


@pytest.mark.parametrize("handed_over", [True, False])
async def test_fields_that_konverge_does_not_write_are_removed_if_handed_over(lab: Lab, handed_over: bool) -> None:
    await install_crds(lab.client, [crd(Page)])
    await write_as_kubebuilder(lab)
    if handed_over:
        assert [await leave_kubebuilder(lab.client, lab.namespace) for _ in range(2)] == [2, 0]
    await lab.start(build, name=NEW)
    page = await lab.until(Page, "home", lambda page: page.status.characters == 5)
    await lab.settled()
    stored = await lab.get(CONFIG_MAP, "home")
    assert ("index.txt" in stored.get("data"), page.find_condition("Synced") is not None) == (not handed_over,) * 2
    await lab.patch(Page, "home", {"spec": {"text": "hello, world"}})
    await lab.until(CONFIG_MAP, "home", lambda map_: map_.get("data", "index.html") == "hello, world")
    await lab.delete(Page, "home")
    await lab.until_gone(CONFIG_MAP, "home")
