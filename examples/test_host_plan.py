"""A plan in a test: it shows the planned changes, and has no effect on the DNS server."""

from pathlib import Path

import pytest
from host_operator import Host, HostSpec, build

from konverge.crds import crd_manifests
from konverge.planning import plan, text_of
from konverge_testing import Lab, install_crds


def published(folder: Path) -> bool:
    return (folder / "zone.txt").exists()


async def test_a_plan_shows_the_status_and_publishes_nothing(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    await install_crds(lab.client, crd_manifests([Host]))
    host = await lab.create(Host.new("www", spec=HostSpec(address="192.0.2.1")))
    report = await plan("host-operator", lab.server.config(), build)
    assert [(change.action, change.name) for change in report.changes] == [("update", "www")]
    assert "Plan: 0 to create, 1 to change, 0 to delete; 1 Event. 1 object reconciled." in text_of(report)
    assert await lab.get(Host, "www") == host
    assert not published(tmp_path)
