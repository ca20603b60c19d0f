"""The modules that a start does not import: counted in an interpreter of its own, because a time would depend on the machine."""

from __future__ import annotations

import subprocess
import sys

import pytest

FAMILIES = ("apps", "clusters", "machines", "pools", "quota", "workspaces")
OPTIONAL = ("uvloop", "opentelemetry", "aiobotocore", "grpclib", "google", "konverge_testing")
"""Extras, and packages that only some commands use."""
OTHER_KINDS = ("apps_v1alpha1", "machines_v1beta1", "ops_v1alpha1", "pools_v1alpha1", "workspaces_v1alpha1")
SERVERS = ("cryptography", "kubernetes_asyncio")
"""Only for certificates of our own, and for kubeconfigs."""
PLUG_INS = ("konverge.runtime.election.elector", "konverge.runtime.sharding.ring")

HELP = """
from konverge.daemon.main import program
try: program(['--help'], prog_name='konverge')
except SystemExit: pass
"""
OPERATOR = """
import konverge as kv
class BackupSpec(kv.Model):
    schedule: str = ""
@kv.resource("example.com/v1", conditions=("Ready",))
class Backup(kv.CustomResource[BackupSpec, kv.Status]):
    pass
class Reconciler:
    async def reconcile(self, backup: Backup, ctx: kv.Context[Backup]) -> kv.Outcome:
        return kv.Done()
kv.Manager("backups").add(kv.Controller.of(Backup).reconciled_by(Reconciler()))
"""
USERS_PROCESS = """
import konverge.daemon.engine
import konverge.daemon.options
from konverge.daemon.programs import settings_of
settings_of("shop:build")()
"""
ONE_FAMILY = """
import asyncio
import konverge.daemon.engine
import konverge.daemon.options
from konverge.daemon.programs import fill, settings_of
from konverge.runtime import Manager
manager = Manager("konverge")
asyncio.run(fill(manager, None, settings_of(None)(controllers=("quota",))))
assert [spec.name for spec in manager.controllers] == ["resourcepool", "resourcepoolclaim"]
"""


OWN = "[name for name in list(sys.modules) if name.split('.')[0] == 'konverge']"
DATACLASSES = f"""{{
    f'{{name}}.{{value.__name__}}' for name in {OWN} for value in vars(sys.modules[name]).values()
    if isinstance(value, type) and value.__module__ == name and '__dataclass_fields__' in vars(value)
}}"""


def printed_after(program: str, values: str) -> list[str]:
    """Return these values at the end of a program."""
    code = f"{program}\nimport sys\nprint('LOADED', {values})"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return ended.stdout.rpartition("LOADED ")[2].split()


@pytest.mark.parametrize(
    ("program", "modules", "dataclasses"),
    [(OPERATOR, 200, 15), (ONE_FAMILY, 305, 19)],
    ids=["an operator", "one family"],
)
def test_a_start_imports_few_modules_and_creates_few_dataclasses(program: str, modules: int, dataclasses: int) -> None:
    own, created = printed_after(program, f"*{OWN}"), printed_after(program, f"*{DATACLASSES}")
    assert modules - 15 < len(own) <= modules, "lower the bound"
    assert dataclasses - 8 < len(created) <= dataclasses, (
        "the creation of a frozen dataclass takes as long as 40 msgspec.Struct: a value that no user builds is a Struct"
    )


@pytest.mark.parametrize(
    ("program", "unneeded"),
    [
        (
            "import konverge",
            ("aiohttp", "pydantic", "msgspec", "prometheus_client", "structlog", "asyncio", *OPTIONAL, *SERVERS),
        ),
        (
            HELP,
            ("aiohttp", "pydantic", "msgspec", "prometheus_client", "structlog", "rich", "yaml", *OPTIONAL, *SERVERS),
        ),
        (
            OPERATOR,
            (
                *("aiohttp", "click", "yaml", "pydantic_settings", "konverge.reconcilers"),
                *("konverge.crds.catalogue", "konverge.crds.durations", "konverge.crds.partial"),
                *OPTIONAL,
                *SERVERS,
                *PLUG_INS,
            ),
        ),
        (USERS_PROCESS, ("konverge.reconcilers", *OPTIONAL, *SERVERS, *PLUG_INS)),
        (
            ONE_FAMILY,
            (
                *(f"konverge.reconcilers.{family}.installation" for family in FAMILIES if family != "quota"),
                *(f"konverge.crds.{module}" for module in OTHER_KINDS),
                *("konverge.reconcilers.apps.operations.engines", "konverge.reconcilers.pools.instances.reconciler"),
                *("yaml", "konverge.reconcilers.machines.shards.document"),
                *OPTIONAL,
                *SERVERS,
                *PLUG_INS,
            ),
        ),
    ],
    ids=["import konverge", "konverge --help", "an operator", "a user's process", "one family"],
)
def test_a_start_imports_no_module_that_it_does_not_need(program: str, unneeded: tuple[str, ...]) -> None:
    loaded = printed_after(program, "*sys.modules")
    assert "konverge" in loaded
    assert [name for name in loaded if any(name == one or name.startswith(f"{one}.") for one in unneeded)] == []
