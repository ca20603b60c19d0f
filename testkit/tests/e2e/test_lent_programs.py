"""Programs from another folder, or missing programs; fake programs if they suffice."""

from pathlib import Path

import pytest

from konverge_testing import BinariesMissing, ControlPlane, ControlPlaneConfig, ControlPlaneError
from konverge_testing.binaries import APISERVER, CONTROLLER_MANAGER, ETCD, Binaries


def program(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


def binaries(tmp_path: Path, manager: str | None) -> Binaries:
    return Binaries(
        etcd=program(tmp_path / "given" / ETCD, "etcd Version: 3.6.0"),
        kube_apiserver=program(tmp_path / "given" / APISERVER, "Kubernetes v1.30.2"),
        kube_controller_manager=program(tmp_path / "cache" / CONTROLLER_MANAGER, manager) if manager else None,
        kubectl=None,
        source="a test",
    )


@pytest.mark.parametrize(
    ("manager", "error", "words"),
    [
        ("Kubernetes v1.36.3", ControlPlaneError, "kube-apiserver 1.30, kube-controller-manager 1.36"),
        (None, BinariesMissing, "controllers were asked for"),
        ("Kubernetes v1.30.9", ControlPlaneError, "did not come up: exit code 0"),
    ],
)
async def test_only_a_controller_manager_of_the_same_minor_version_is_started(
    tmp_path: Path, manager: str | None, error: type[ControlPlaneError], words: str
) -> None:
    config = ControlPlaneConfig(controllers=True, binaries=binaries(tmp_path, manager), root=tmp_path / "root")
    with pytest.raises(error, match=words):
        async with ControlPlane(config):
            pytest.fail("these programs cannot run a control plane")
    assert not list((tmp_path / "root").glob("plane-*"))


@pytest.mark.control_plane
async def test_kubectl_that_is_not_there_is_an_error_with_the_remedy(control_plane: ControlPlane) -> None:
    without = Binaries(
        etcd=control_plane.binaries.etcd,
        kube_apiserver=control_plane.binaries.kube_apiserver,
        kube_controller_manager=None,
        kubectl=None,
        source="a test",
    )
    async with ControlPlane(ControlPlaneConfig(binaries=without)) as plane:
        with pytest.raises(BinariesMissing, match="konverge control-plane install"):
            await plane.kubectl("version")
