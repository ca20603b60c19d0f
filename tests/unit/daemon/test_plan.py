"""`konverge plan` as a command: selections, forms of the output, exit codes. tests/e2e/test_plan.py runs the program."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from konverge.client import Client, ClientConfig
from konverge.daemon import engine, logs
from konverge.daemon.main import program
from konverge.kinds import kind
from konverge_testing import ApiServer

CONFIG_MAP = kind("v1", "ConfigMap")
OPERATOR = """
import konverge as kv

CONFIG_MAP = kv.kind("v1", "ConfigMap")
SECRET = kv.kind("v1", "Secret")


class Copies:
    async def reconcile(self, source, ctx):
        if source.get("data", "broken", default=""):
            raise RuntimeError("the source is broken")
        await ctx.own(SECRET.new(f"{source.name}-copy", data={"token": "c2VjcmV0"}))
        return kv.Done()


def build(manager):
    manager.add(kv.Controller.of(CONFIG_MAP).selecting("copied").owns(SECRET).reconciled_by(Copies()))
"""

Planned = Callable[..., Result]


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, untouched_imports: None) -> Planned:
    """Plan the operator of this folder, on an in-memory server with sources of these names."""

    def run(*words: str, sources: tuple[str, ...] = ()) -> Result:
        async def config(_settings: Any) -> ClientConfig:
            server = await ApiServer().__aenter__()  # the end of the command's loop ends it
            async with Client(server.config(), name="test") as client:
                for name in sources:
                    data = {"broken": "yes"} if name == "bad" else {}
                    await client.create(CONFIG_MAP.new(name, "default", labels={"copied": "yes"}, data=data))
            return server.config()

        monkeypatch.setattr(engine, "client_config", config)
        return CliRunner().invoke(program, ["plan", "copier:build", *words], prog_name="konverge")

    (tmp_path / "copier.py").write_text(OPERATOR)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(logs, "configure", lambda **_: None)  # the logs of the test run stay as they are
    return run


@pytest.mark.parametrize(
    ("words", "sources", "code"),
    [
        ((), (), 0),
        ((), ("site",), 0),
        ((), ("bad",), 1),
        (("--detailed-exitcode",), (), 0),
        (("--detailed-exitcode",), ("site",), 2),
        (("--detailed-exitcode",), ("bad", "site"), 1),
        (("--detailed-exitcode", "--name", "site"), ("bad", "site"), 2),
        (("--detailed-exitcode", "-n", "elsewhere"), ("site",), 1),
    ],
    ids=str,
)
def test_the_exit_code_shows_changes_and_errors(
    planned: Planned, words: tuple[str, ...], sources: tuple[str, ...], code: int
) -> None:
    assert planned(*words, sources=sources).exit_code == code


def test_the_text_shows_each_change_with_its_cause(planned: Planned) -> None:
    lines = planned(sources=("bad", "site")).output.splitlines()
    assert lines[:2] == [
        "+ Secret default/site-copy (v1) would be created",
        "    by configmap, which reconciles ConfigMap default/site",
    ]
    assert "  configmap of ConfigMap default/bad: the source is broken" in lines
    assert (
        lines[-1] == "Plan: 1 to create, 0 to change, 0 to delete; 1 failed. 2 objects reconciled. Nothing was written."
    )


def test_json_has_every_field_and_blanks_secrets(planned: Planned) -> None:
    data = json.loads(planned("-o", "json", sources=("site",)).output)
    change = data["changes"][0]
    assert (change["action"], change["kind"], change["name"]) == ("create", "Secret", "site-copy")
    assert {"path": ".data.token", "after": "(blanked)"} in change["fields"]
    assert change["causes"] == [{"controller": "configmap", "key": "ConfigMap default/site", "reasons": []}]
    assert (data["failed"], data["notTried"], data["reconciled"]) == ([], [], 1)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("copier:build", "--nope"), 2),
        (("copier:build", "--nope", "--detailed-exitcode"), 1),
        (("nowhere:build",), 2),
        (("nowhere:build", "--detailed-exitcode"), 1),
    ],
    ids=str,
)
def test_wrong_usage_is_not_taken_for_changes(words: tuple[str, ...], code: int) -> None:
    result = CliRunner().invoke(program, ["plan", *words], prog_name="konverge")
    assert (result.exit_code, "Error: " in result.stderr) == (code, True)
