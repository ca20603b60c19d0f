"""The real control plane: it works, and nothing of it is left afterwards."""

import asyncio
import http.client
import json
import os
import re
import signal
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from konverge_testing import ControlPlane, ControlPlaneConfig, ControlPlaneError
from konverge_testing.binaries import APISERVER, CONTROLLER_MANAGER, ETCD

pytestmark = [pytest.mark.control_plane, pytest.mark.linux, pytest.mark.timeout(120)]

CHILD = """
import asyncio, sys
from pathlib import Path
from konverge_testing import ControlPlane, ControlPlaneConfig

async def main():
    async with ControlPlane(ControlPlaneConfig(root=Path(sys.argv[1]), controllers=True)) as plane:
        print(plane.directory, *plane.blocking.pids().values(), flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def until(condition: Any, what: str, seconds: float = 90.0) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.05)


async def all_gone(pids: list[int]) -> None:
    async def none_runs() -> bool:
        return not any(map(runs, pids))

    await until(none_runs, "the end of every process", 15)


async def count_of(plane: ControlPlane, *what: str) -> int:
    return len((await plane.kubectl("get", *what, "--output=name", "--ignore-not-found")).split())


def call_as(plane: ControlPlane, token: str, path: str) -> tuple[int, dict[str, Any]]:
    context = ssl.create_default_context(cafile=str(plane.ca_file))
    connection = http.client.HTTPSConnection(plane.host, plane.port, timeout=10, context=context)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


# -- it works ---------------------------------------------------------------------------------------------------------


async def test_it_is_ready_and_of_the_version_that_it_says(control_plane: ControlPlane) -> None:
    assert (await control_plane.kubectl("get", "--raw", "/readyz")) == "ok"
    versions = json.loads(await control_plane.kubectl("version", "--output=json"))
    for side in ("clientVersion", "serverVersion"):
        assert re.fullmatch(r"v1\.36\.\d+", versions[side]["gitVersion"])
        assert (versions[side]["major"], versions[side]["minor"]) == ("1", "36")


async def test_the_kubeconfig_is_private_and_works_for_any_client(
    control_plane: ControlPlane, admin_kubeconfig: Path
) -> None:
    assert admin_kubeconfig == control_plane.admin_kubeconfig
    assert admin_kubeconfig.stat().st_mode & 0o777 == 0o600
    assert control_plane.directory.stat().st_mode & 0o777 == 0o700
    kubectl = control_plane.binaries.kubectl
    assert kubectl is not None
    done = subprocess.run(
        [kubectl, "--kubeconfig", admin_kubeconfig, "auth", "whoami", "--output=json"], capture_output=True, check=True
    )
    assert "system:masters" in json.loads(done.stdout)["status"]["userInfo"]["groups"]


async def test_a_service_account_without_rights_is_refused(control_plane: ControlPlane, namespace: str) -> None:
    token = await control_plane.service_account_token(namespace, "nobody")
    status, answer = await asyncio.to_thread(call_as, control_plane, token, f"/api/v1/namespaces/{namespace}/secrets")
    assert (status, answer["reason"]) == (403, "Forbidden")
    assert f"system:serviceaccount:{namespace}:nobody" in answer["message"]


async def test_a_service_account_has_exactly_the_rights_that_it_is_given(
    control_plane: ControlPlane, namespace: str
) -> None:
    config = await control_plane.service_account_kubeconfig(namespace, "reader")
    await control_plane.kubectl("create", "role", "read", "--verb=get", "--resource=secrets", "--namespace", namespace)
    await control_plane.kubectl(
        "create", "rolebinding", "read", "--role=read", f"--serviceaccount={namespace}:reader", "--namespace", namespace
    )
    can = ("--kubeconfig", str(config), "auth", "can-i", "--quiet")

    async def allowed() -> bool:
        try:
            await control_plane.kubectl(*can, "get", "secrets")
        except ControlPlaneError:
            return False
        return True

    await until(allowed, "the role to be seen")
    with pytest.raises(ControlPlaneError):
        await control_plane.kubectl(*can, "delete", "secrets")


async def test_a_user_enters_with_a_certificate_and_the_groups_in_it(control_plane: ControlPlane) -> None:
    config = control_plane.user_kubeconfig("jane", groups=("dev",))
    assert config.stat().st_mode & 0o777 == 0o600
    who = json.loads(await control_plane.kubectl("--kubeconfig", str(config), "auth", "whoami", "--output=json"))
    user = who["status"]["userInfo"]
    assert user["username"] == "jane"
    assert set(user["groups"]) == {"dev", "system:authenticated"}
    with pytest.raises(ControlPlaneError, match="Forbidden"):
        await control_plane.kubectl("--kubeconfig", str(config), "get", "namespaces")


async def test_etcd_is_read_through_the_api_server_alone(control_plane: ControlPlane) -> None:
    layout = control_plane.blocking.layout

    def ask_as(who: str) -> int:
        context = ssl.create_default_context(cafile=str(layout.pki("etcd-ca.crt")))
        context.load_cert_chain(layout.pki(f"{who}.crt"), layout.pki(f"{who}.key"))
        connection = http.client.HTTPSConnection("127.0.0.1", layout.etcd_port, timeout=10, context=context)
        try:
            connection.request("GET", "/version")
            return connection.getresponse().status
        finally:
            connection.close()

    assert await asyncio.to_thread(ask_as, "etcd-client") == 200
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.to_thread(ask_as, "admin")


async def test_service_account_files_equal_the_files_of_a_pod_and_rotate(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    await control_plane.service_account_files(tmp_path, namespace=namespace, name="agent")
    first = (tmp_path / "token").read_text()
    assert (tmp_path / "namespace").read_text() == namespace
    assert (tmp_path / "ca.crt").read_bytes() == control_plane.ca_file.read_bytes()
    await control_plane.service_account_files(tmp_path, namespace=namespace, name="agent")
    second = (tmp_path / "token").read_text()
    assert second != first
    for token in (first, second):
        status, _ = await asyncio.to_thread(call_as, control_plane, token, "/apis")
        assert status == 200
    assert control_plane.environment == {
        "KUBERNETES_SERVICE_HOST": control_plane.host,
        "KUBERNETES_SERVICE_PORT": str(control_plane.port),
    }


async def test_a_failed_command_says_what_kubectl_said(control_plane: ControlPlane) -> None:
    with pytest.raises(ControlPlaneError, match='namespaces "absent" not found'):
        await control_plane.kubectl("get", "namespace", "absent")


async def test_secrets_in_a_failed_command_are_not_repeated(control_plane: ControlPlane) -> None:
    literal = "--from-literal=password=hunter2"
    with pytest.raises(ControlPlaneError, match="kubectl create secret generic one: exit code 1") as caught:
        await control_plane.kubectl("create", "secret", "generic", "one", literal, "--namespace=absent")
    assert "hunter2" not in str(caught.value)


async def test_standard_input_of_kubectl_is_applied(control_plane: ControlPlane, namespace: str) -> None:
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": namespace}}
    await control_plane.kubectl("apply", "--filename=-", stdin=json.dumps(document))
    assert await count_of(control_plane, "configmap/one", "--namespace", namespace) == 1


@pytest.mark.parametrize("attempt", [1, 2])
async def test_every_test_has_a_namespace_of_its_own(control_plane: ControlPlane, namespace: str, attempt: int) -> None:
    await control_plane.kubectl("create", "configmap", "mine", "--namespace", namespace)
    assert await count_of(control_plane, "configmap/mine", "--namespace", namespace) == 1


# -- the controllers --------------------------------------------------------------------------------------------------


async def test_the_children_of_a_deleted_owner_are_collected(control_plane: ControlPlane, namespace: str) -> None:
    if control_plane.binaries.kube_controller_manager is None:
        pytest.skip("no kube-controller-manager on this machine: konverge control-plane install --from go")
    here = ("--namespace", namespace)
    await control_plane.kubectl("create", "configmap", "owner", *here)
    uid = await control_plane.kubectl("get", "configmap", "owner", "--output=jsonpath={.metadata.uid}", *here)
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
    child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "child", "ownerReferences": [reference]}}
    await control_plane.kubectl("create", "--filename=-", *here, stdin=json.dumps(child))
    await control_plane.kubectl("delete", "configmap", "owner", *here)

    async def collected() -> bool:
        return await count_of(control_plane, "configmap/child", *here) == 0

    await until(collected, "the garbage collector")


async def test_a_deleted_namespace_goes_away_with_its_content(control_plane: ControlPlane) -> None:
    if control_plane.binaries.kube_controller_manager is None:
        pytest.skip("no kube-controller-manager on this machine: konverge control-plane install --from go")
    await control_plane.create_namespace("short-lived")
    await control_plane.create_namespace("short-lived")
    await control_plane.kubectl("create", "configmap", "content", "--namespace=short-lived")
    await asyncio.to_thread(control_plane.blocking.api.delete_namespace, "short-lived")

    async def removed() -> bool:
        return await count_of(control_plane, "namespace/short-lived") == 0

    await until(removed, "the namespace controller")


THING = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.held.example.com}
spec:
  group: held.example.com
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""


async def test_only_objects_whose_finalizers_have_no_controller_are_let_go(control_plane: ControlPlane) -> None:
    await control_plane.kubectl("apply", "--filename=-", stdin=THING)
    await control_plane.kubectl("wait", "--for=condition=Established", "crd/things.held.example.com", "--timeout=30s")
    for namespace in ("ended", "goes-on"):
        await control_plane.create_namespace(namespace)
        held = {"name": "held", "namespace": namespace, "finalizers": ["example.com/nobody"]}
        thing = {"apiVersion": "held.example.com/v1", "kind": "Thing", "metadata": held}
        await control_plane.kubectl("create", "--filename=-", stdin=json.dumps(thing))
    api = control_plane.blocking.api
    await asyncio.to_thread(api.delete_namespace, "ended")
    await asyncio.to_thread(api.let_go, {"ended"})

    async def removed() -> bool:
        return await count_of(control_plane, "things", "--namespace=ended") == 0

    await until(removed, "the object that was held")
    assert await count_of(control_plane, "things", "--namespace=goes-on") == 1
    await asyncio.to_thread(api.let_go, {"goes-on"})
    await control_plane.kubectl("delete", "things", "--all", "--namespace=goes-on")
    await asyncio.to_thread(api.let_go, {"ended", "goes-on"})  # there is nothing to let go
    await control_plane.kubectl("delete", "crd", "things.held.example.com")


# -- restarts, neighbours, ends ---------------------------------------------------------------------------------------


async def test_a_restarted_api_server_has_the_same_address_and_the_same_data(tmp_path: Path) -> None:
    async with ControlPlane(ControlPlaneConfig(audit=True)) as plane:
        before = plane.url
        token = await plane.service_account_token("default", "agent")
        await plane.kubectl("create", "configmap", "kept")
        await plane.stop_apiserver()
        with pytest.raises(ControlPlaneError, match="refused"):
            await plane.kubectl("get", "configmap", "kept")
        await plane.start_apiserver()
        await plane.restart_apiserver()
        assert plane.url == before
        assert await count_of(plane, "configmap/kept") == 1
        assert (await asyncio.to_thread(call_as, plane, token, "/apis"))[0] == 200, "tokens stay valid"
        assert plane.fallen() == {}
        verbs = [json.loads(line)["verb"] for line in plane.audit_file.read_text().splitlines()]
        assert verbs.count("create") >= 2


async def test_two_planes_stand_side_by_side_and_know_nothing_of_each_other() -> None:
    async with ControlPlane() as one, ControlPlane() as other:
        assert one.url != other.url
        await one.kubectl("create", "namespace", "only-here")
        assert await count_of(one, "namespace/only-here") == 1
        assert await count_of(other, "namespace/only-here") == 0


async def test_settings_reach_the_api_server() -> None:
    config = ControlPlaneConfig(feature_gates={"WatchList": False}, watch_cache=False, apiserver_flags={"v": "1"})
    async with ControlPlane(config) as plane:
        assert (await plane.kubectl("get", "--raw", "/readyz")) == "ok"
        metrics = await plane.kubectl("get", "--raw", "/metrics")
        assert re.search(r'kubernetes_feature_enabled\{name="WatchList",stage="[A-Z]*"\} 0', metrics)


async def test_nothing_is_left_after_the_block_and_it_can_be_entered_again(tmp_path: Path) -> None:
    plane = ControlPlane(ControlPlaneConfig(controllers=True, root=tmp_path / "root"))
    async with plane:
        pids = plane.blocking.pids()
        assert set(pids) == {"keeper", ETCD, APISERVER, CONTROLLER_MANAGER}
        assert all(map(runs, pids.values()))
        assert repr(plane) == f"<ControlPlane {plane.url}>"
        with pytest.raises(ControlPlaneError, match="runs already"):
            plane.blocking.start()
    assert not any(map(runs, pids.values()))
    assert not list((tmp_path / "root").glob("plane-*"))
    with pytest.raises(ControlPlaneError, match="enter it first"):
        _ = plane.url
    with plane:
        assert not plane.fallen()


async def test_a_failing_block_leaves_nothing_either(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        async with ControlPlane(ControlPlaneConfig(root=tmp_path / "root")) as plane:
            pids = plane.blocking.pids()
            raise ZeroDivisionError
    assert not any(map(runs, pids.values()))
    assert not list((tmp_path / "root").glob("plane-*"))


@pytest.mark.parametrize("seconds", [0.05, 0.5])
async def test_a_cancelled_start_leaves_nothing(tmp_path: Path, seconds: float) -> None:
    root = tmp_path / "root"
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(seconds), ControlPlane(ControlPlaneConfig(root=root)):
            pytest.fail("it cannot be up so early")
    assert not list(root.glob("plane-*"))


async def test_error_for_a_failed_program_start_ends_with_its_log(tmp_path: Path) -> None:
    config = ControlPlaneConfig(apiserver_flags={"no-such-flag": "x"}, root=tmp_path / "root")
    with pytest.raises(ControlPlaneError) as caught:
        async with ControlPlane(config):
            pytest.fail("it cannot come up")
    assert "kube-apiserver did not come up: exit code 1" in str(caught.value)
    assert "unknown flag: --no-such-flag" in str(caught.value)
    assert not list((tmp_path / "root").glob("plane-*"))


async def test_a_start_that_takes_too_long_says_what_is_not_ready(tmp_path: Path) -> None:
    with pytest.raises(ControlPlaneError, match=r"not ready within 0\.3 s"):
        async with ControlPlane(ControlPlaneConfig(start_seconds=0.3, root=tmp_path / "root")):
            pytest.fail("it cannot be up so early")
    assert not list((tmp_path / "root").glob("plane-*"))


async def test_a_program_that_dies_is_noticed() -> None:
    async with ControlPlane() as plane:
        os.kill(plane.blocking.pids()[ETCD], signal.SIGKILL)

        async def noticed() -> bool:
            return ETCD in plane.fallen()

        await until(noticed, "the end of etcd")
        assert str(plane.fallen()[ETCD]) == "killed by signal 9"


async def test_nothing_is_left_when_the_test_process_is_killed(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CHILD, str(tmp_path / "root"), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    directory, *words = (await process.stdout.readline()).decode().split()
    pids = [int(word) for word in words]
    assert len(pids) == 4
    assert all(map(runs, pids))
    process.kill()
    await process.wait()
    await all_gone(pids)
    assert not Path(directory).exists()


async def test_leftovers_of_a_killed_keeper_are_swept_by_the_next_start(tmp_path: Path) -> None:
    root = tmp_path / "root"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CHILD, str(root), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    directory, *words = (await process.stdout.readline()).decode().split()
    pids = [int(word) for word in words]
    os.kill(pids[0], signal.SIGKILL)
    process.kill()
    await process.wait()
    await all_gone(pids)
    assert Path(directory).exists(), "nobody was left to remove it"
    async with ControlPlane(ControlPlaneConfig(root=root)) as plane:
        assert not Path(directory).exists()
        assert plane.directory.exists()


async def test_the_command_keeps_one_up_until_it_is_interrupted(tmp_path: Path) -> None:
    script = "from konverge_testing.commands import control_plane; control_plane()"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        script,
        "run",
        "--no-controllers",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode()
    config = Path(line.removeprefix("kubeconfig: ").strip())
    assert config.is_relative_to(tmp_path)
    assert config.stat().st_mode & 0o777 == 0o600
    process.send_signal(signal.SIGINT)
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    assert f"export KUBECONFIG={config}" in output.decode()
    assert "nothing is left behind" in errors.decode()
    assert not config.exists()
