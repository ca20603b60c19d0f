"""The spans of a program and of a real kube-apiserver, which a collector receives."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest
from backup_operator import Backup, BackupSpec
from collector import Collector, collecting
from example_programs import EXAMPLES

import konverge as kv
from konverge.client import Client, ClientConfig
from konverge.crds import crd
from konverge_testing import ControlPlane, ControlPlaneConfig, install_crds

pytestmark = pytest.mark.control_plane

SECONDS = 60.0
SAMPLED = """
apiVersion: apiserver.config.k8s.io/v1beta1
kind: TracingConfiguration
endpoint: 127.0.0.1:{port}
samplingRatePerMillion: 0
"""
"""The API server records only requests whose client sampled their trace."""


async def traced_backup(plane: ControlPlane, collector: Collector) -> str:
    """Run the backup operator until it has reported one object; return its log."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("KONVERGE_", "OTEL_"))}
    variables |= {
        "KUBECONFIG": str(plane.admin_kubeconfig),
        "KONVERGE_TRACING": "true",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.http}",
        "OTEL_RESOURCE_ATTRIBUTES": "k8s.pod.name=backup-0",
    }
    ports = [word for name in ("metrics", "health", "debug") for word in (f"--{name}", "127.0.0.1:0")]
    operator = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "konverge.daemon.main", "run", "backup_operator:build", "-n", "default", *ports),
        *("--log-format", "json", "--log-level", "debug"),
        cwd=EXAMPLES,
        env=variables,
        stderr=PIPE,
    )
    try:
        config = await ClientConfig.from_kubeconfig(plane.admin_kubeconfig)
        async with Client(config, name="admin") as admin:
            await install_crds(admin, [crd(Backup)])
            await admin.create(Backup.new("nightly", "default", spec=BackupSpec(schedule="0 3 * * *")))
            await admin.wait_until(Backup, "nightly", kv.is_false("Ready"), "default", timeout=SECONDS)
        operator.send_signal(signal.SIGTERM)
        async with asyncio.timeout(SECONDS):
            _, errors = await operator.communicate()
    finally:
        if operator.returncode is None:
            operator.kill()
            await operator.wait()
    assert operator.returncode == 0, errors.decode()
    return errors.decode()


async def test_the_api_server_continues_the_trace_of_a_reconcile(tmp_path: Path) -> None:
    async with collecting() as collector:
        config = tmp_path / "tracing.yaml"
        config.write_text(SAMPLED.format(port=collector.grpc))
        flags = {"tracing-config-file": str(config)}
        async with ControlPlane(ControlPlaneConfig(apiserver_flags=flags)) as plane:
            log = await traced_backup(plane, collector)
            ours = collector.spans["backup-operator"]
            [reconcile] = [span for span in ours if span.name == "reconcile backup"]
            [apply] = [span for span in ours if span.parent_span_id == reconcile.span_id]
            seen: set[bytes] = set()
            async with asyncio.timeout(SECONDS):
                while apply.span_id not in seen:
                    await asyncio.sleep(0.1)
                    seen = {span.parent_span_id for span in collector.spans.get("apiserver", ())}
    lines = [json.loads(line) for line in log.splitlines()]
    [line] = [line for line in lines if line.get("trace_id") == reconcile.trace_id.hex()]
    assert (line["event"], line["key"]) == ("reconciled", "default/nightly")


def test_a_program_without_opentelemetry_names_the_extra() -> None:
    program = (
        "import sys\n"
        "sys.modules['opentelemetry'] = None\n"
        "import konverge as kv\n"
        "from konverge.daemon.settings import Settings\n"
        "kv.run(lambda manager: None, name='backup', settings=Settings(tracing=True))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == ("error: tracing=true, and OpenTelemetry is not installed: pip install 'konverge[otel]'\n")
