"""`konverge replay` as a command: the choice of a reconcile, forms of the output, exit codes, and the file of a test."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import konverge as kv
from konverge.daemon import logs
from konverge.daemon.main import program
from konverge.recording import record
from konverge_testing import VirtualTimeLoop
from konverge_testing.lab.environments import memory_lab

CONFIG_MAP = kv.kind("v1", "ConfigMap")
OPERATOR = """
import konverge as kv
CONFIG_MAP = kv.kind("v1", "ConfigMap")


class Copies:
    async def reconcile(self, source, ctx):
        mode = source.get("data", "mode", default="small")
        size = {"small": 1, **LARGE}[mode]
        await ctx.apply(CONFIG_MAP.new(f"{source.name}-copy", source.namespace, data={"size": str(size)}), force=True)
        return kv.Done()


LARGE = {}


def build(manager):
    applies = kv.Rule("", ("configmaps",), ("create", "patch"))
    manager.add(kv.Controller.of(CONFIG_MAP).named("copies").selecting("copied").needs(applies).reconciled_by(Copies()))
"""

Replayed = Callable[..., Result]


async def take(file: Path) -> None:
    """Record two sources: one whose mode is not known, and afterwards one that is copied."""
    names: dict[str, Any] = {}
    exec(OPERATOR, names)

    def build(manager: kv.Manager) -> None:
        record(manager, str(file))
        names["build"](manager)

    async with memory_lab() as lab:
        lab.expects(KeyError)
        await lab.start(build, name="copier")
        for name, mode in (("odd", "large"), ("site", "small")):
            await lab.create(CONFIG_MAP.new(name, labels={"copied": "yes"}, data={"mode": mode}))
            await lab.settled()


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("taken") / "tape"
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(take(file))
    return file


@pytest.fixture
def replayed(tape: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Replayed:
    """Run the command in a folder with the operator; `large` is what it knows of the mode large."""

    def run(*words: str, large: str = "{}") -> Result:
        (tmp_path / "copier.py").write_text(OPERATOR.replace("LARGE = {}", f"LARGE = {large}"))
        return CliRunner().invoke(program, ["replay", str(tape), *words], prog_name="konverge")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "copier", raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(logs, "configure", lambda **_: None)  # the logs of the test run stay as they are
    return run


FIXED = '{"large": 9}'


@pytest.mark.parametrize(
    ("words", "large", "code"),
    [
        (("copier:build",), "{}", 0),
        (("copier:build",), FIXED, 0),
        (("copier:build", "--detailed-exitcode"), "{}", 0),
        (("copier:build", "--detailed-exitcode"), FIXED, 2),
        (("copier:build", "--detailed-exitcode", "--key", "site"), FIXED, 0),
        (("copier:build", "--reconcile", "999"), "{}", 2),
        (("copier:build", "--reconcile", "999", "--detailed-exitcode"), "{}", 1),
        (("copier:build", "--key", "nobody"), "{}", 2),
        (("copier:build", "--stop", "1"), "{}", 2),
        (("nowhere:build",), "{}", 2),
        (("--as-test", "test_it.py"), "{}", 2),
        (("nowhere:build", "--list"), "{}", 0),
    ],
    ids=str,
)
def test_the_exit_code_shows_differences_and_errors(
    replayed: Replayed, words: tuple[str, ...], large: str, code: int
) -> None:
    result = replayed(*words, large=large)
    assert result.exit_code == code, result.output
    assert ("Error: " in result.stderr) == (code == 1 or (code == 2 and "--detailed-exitcode" not in words))


def test_the_last_failure_is_replayed_with_its_traceback(replayed: Replayed) -> None:
    lines = replayed("copier:build").output.splitlines()
    assert " of ConfigMap lab/odd by copies, recorded " in lines[0]
    assert lines[2:4] == ["  recorded: KeyError: 'large'", "  replayed: KeyError: 'large'"]
    assert any("copier.py" in line and "in reconcile" in line for line in lines)
    assert lines[-1] == "Replay: the same outcome, 0 requests, the recorded writes. Nothing was sent."


def test_a_fixed_program_shows_its_new_writes(replayed: Replayed) -> None:
    data = json.loads(replayed("copier:build", "-o", "json", large=FIXED).output)
    assert (data["recorded"]["outcome"], data["replayed"]["outcome"], data["key"]) == (
        "KeyError",
        "Done",
        "ConfigMap lab/odd",
    )
    (write,) = data["divergences"]
    assert (write["what"], write["write"], write["position"]) == ("new", "PATCH configmaps lab/odd-copy", 1)
    assert {"path": ".data.size", "recorded": None, "replayed": "9"} in write["fields"]


@pytest.mark.parametrize(
    "key", ["site", "lab/site", "configmap/site", "ConfigMap/lab/site"], ids=lambda key: key.replace("/", "-")
)
def test_a_key_selects_the_reconciles_of_an_object(replayed: Replayed, key: str) -> None:
    listed = json.loads(replayed("--list", "-o", "json", "--key", key).output)
    assert [(each["key"], each["outcome"]) for each in listed] == [("ConfigMap lab/site", "Done")]
    lines = replayed("--list", "--key", key).output.splitlines()
    assert [line.split()[0] for line in lines] == [str(each["reconcile"]) for each in listed]


@pytest.mark.slow
def test_the_written_test_fails_and_is_not_written_twice(replayed: Replayed, tmp_path: Path) -> None:
    assert replayed("copier:build", "--as-test", "test_odd.py").exit_code == 0
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "test_odd.py"]
    with_bug = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True)
    assert (with_bug.returncode, "it ends as recorded" in with_bug.stdout) == (1, True), with_bug.stdout
    again = replayed("copier:build", "--as-test", "test_odd.py", large=FIXED)
    assert (again.exit_code, "replaces no file" in again.stderr) == (1, True)
    fixed = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True)
    assert fixed.returncode == 0, fixed.stdout
