"""A family of another distribution in the daemon: each command knows it, and the daemon reconciles its objects."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hosted import distribution

from konverge.client import Client
from konverge.daemon.crds import apply_all
from konverge.kinds import kind
from konverge.objects import Object
from konverge_testing.demo.stages import STAGES

EXAMPLE = Path(__file__).parents[2] / "examples/family"
GARDEN = kind("gardens.example.com/v1", "Garden", namespaced=True, plural="gardens")
PLAN = kind("v1", "ConfigMap", namespaced=True, plural="configmaps")
PATIENCE = 60.0


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The environment of a process with the example installed."""
    installed = distribution(tmp_path / "site", "garden-family", "gardens = garden_family:FAMILY")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("KONVERGE_")}
    return {**clean, "PYTHONPATH": f"{installed}{os.pathsep}{EXAMPLE}"}


def konverge(environment: dict[str, str], *words: str, code: int = 0) -> str:
    command = [sys.executable, "-m", "konverge.daemon.main", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def documents(text: str) -> dict[tuple[str, str], Any]:
    return {(document["kind"], document["metadata"]["name"]): document for document in yaml.safe_load_all(text)}


def test_example_declares_the_entry_point_of_this_test() -> None:
    assert 'gardens = "garden_family:FAMILY"' in (EXAMPLE / "pyproject.toml").read_text()


def test_config_shows_the_settings_of_the_family(environment: dict[str, str]) -> None:
    shown = konverge({**environment, "KONVERGE_GARDENS__MOST_BEDS": "4"}, "config", "-o", "json")
    (entry,) = (setting for setting in json.loads(shown) if setting["path"] == "gardens.most_beds")
    assert (entry["value"], entry["origin"]) == (4, "variable KONVERGE_GARDENS__MOST_BEDS")
    assert entry["doc"] == "Beds of a garden at most."


def test_crds_and_rbac_cover_the_family(environment: dict[str, str]) -> None:
    assert ("CustomResourceDefinition", "gardens.gardens.example.com") in documents(konverge(environment, "crds"))
    role = documents(konverge(environment, "rbac", "--controllers", "gardens"))["ClusterRole", "konverge"]
    groups = {group for rule in role["rules"] for group in rule["apiGroups"]}
    assert groups >= {"", "gardens.example.com"}
    assert "apps.vworkspace.io" not in groups


def test_chart_has_a_switch_and_files_for_the_family(environment: dict[str, str], tmp_path: Path) -> None:
    konverge(environment, "chart", "-o", str(tmp_path / "chart"))
    chart = tmp_path / "chart"
    values = yaml.safe_load((chart / "values.yaml").read_text())
    schema = json.loads((chart / "values.schema.json").read_text())["properties"]
    assert values["families"]["gardens"] == {"enabled": True}
    assert values["families"]["apps"] == {"enabled": True}
    assert schema["families"]["properties"]["gardens"]["properties"] == {"enabled": {"type": "boolean"}}
    assert "most_beds" in schema["settings"]["properties"]["gardens"]["properties"]
    names = {path.name for path in (chart / "files/gardens").iterdir()}
    assert names >= {"alerts.yaml", "crd-gardens.gardens.example.com.yaml", "rules.yaml", "users.yaml"}
    assert "`families.gardens.enabled`" in (chart / "README.md").read_text()


def test_broken_family_ends_a_command_with_its_distribution(environment: dict[str, str], tmp_path: Path) -> None:
    broken = distribution(tmp_path / "broken", "acme-rows", "rows = acme_rows:FAMILY", modules={"acme_rows": "1 / 0"})
    search = f"{broken}{os.pathsep}{environment['PYTHONPATH']}"
    error = konverge({**environment, "PYTHONPATH": search}, "crds", code=1)
    assert error.startswith("Error: the family rows of acme-rows 1.0.0: acme_rows:FAMILY cannot be imported")
    assert "Traceback" not in error


async def test_daemon_reconciles_the_objects_of_the_family(environment: dict[str, str]) -> None:
    async with STAGES["memory"]() as stage, Client(stage.config, name="test") as client:
        manifests = list(yaml.safe_load_all(await asyncio.to_thread(konverge, environment, "crds")))
        await apply_all(client, manifests)
        account = ("--kubeconfig", str(stage.kubeconfig), "--metrics", "0", "--health", "0", "--debug", "127.0.0.1:0")
        words = ("-m", "konverge.daemon.main", "run", "--controllers", "gardens", "--log-format", "json", *account)
        process = await asyncio.create_subprocess_exec(
            sys.executable, *words, env=environment, stderr=asyncio.subprocess.PIPE
        )
        try:
            (sample,) = yaml.safe_load_all((EXAMPLE / "garden_family/samples.yaml").read_text())
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "demo"}}
            await client.apply(kind("v1", "Namespace", namespaced=False, plural="namespaces"), namespace)
            await client.apply(GARDEN, sample)
            debug = await asyncio.wait_for(debug_of(process), PATIENCE)
            async with asyncio.timeout(PATIENCE):
                while not ready(await client.get(GARDEN, "roses", "demo")):
                    await asyncio.sleep(0.1)
            plan = await client.get(PLAN, "roses-plan", "demo")
            assert plan.data["data"] == {"beds": "3"}
            explained = await asyncio.to_thread(
                konverge, environment, "explain", "garden/roses", "-n", "demo", "--url", debug
            )
            assert "Planned: 3 of 3 beds are planned" in explained
        finally:
            process.send_signal(signal.SIGTERM)
            await process.communicate()
    assert process.returncode == 0


async def debug_of(process: asyncio.subprocess.Process) -> str:
    """Return the address of the debug pages from the log of a daemon."""
    assert process.stderr is not None
    async for line in process.stderr:
        record = json.loads(line)
        if record.get("event") == "serving":
            return str(record["debug"])
    raise AssertionError("the daemon ended")


def ready(garden: Object) -> bool:
    condition = garden.find_condition("Ready")
    return condition is not None and condition.is_true
