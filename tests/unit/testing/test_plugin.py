from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from konverge.testing.binaries import APISERVER, ETCD, KUBERNETES_VERSION

pytest_plugins = ["pytester"]

SUITE = """
import pytest

@pytest.mark.control_plane
def test_marked():
    pass

def test_with_fixture(control_plane):
    pass

def test_plain():
    pass
"""


@pytest.fixture
def empty_machine(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.Pytester:
    """A test suite on a machine without any control plane."""
    for name in ("KUBEBUILDER_ASSETS", "KONVERGE_REQUIRE_CONTROL_PLANE", "KONVERGE_NO_CONTROL_PLANE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KONVERGE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("konverge.testing.binaries.SYSTEM_DIRECTORY", tmp_path / "system")
    pytester.makepyfile(SUITE)
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    return pytester


def test_without_a_control_plane_its_tests_are_skipped_and_counted(empty_machine: pytest.Pytester) -> None:
    result = empty_machine.runpytest_inprocess("-rs", "--strict-markers")
    result.assert_outcomes(passed=1, skipped=2)
    result.stdout.fnmatch_lines(
        [
            "2 skipped for want of a control plane: *; to get them: konverge control-plane install",
            "SKIPPED*no control plane: etcd and kube-apiserver are in none of *: konverge control-plane install",
        ],
    )


def test_where_one_is_required_a_missing_control_plane_is_a_failure(
    empty_machine: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KONVERGE_REQUIRE_CONTROL_PLANE", "1")
    result = empty_machine.runpytest_inprocess()
    result.assert_outcomes(passed=1, errors=2)
    result.stdout.fnmatch_lines(["*konverge control-plane install (KONVERGE_REQUIRE_CONTROL_PLANE is set)*"])
    result.stdout.no_fnmatch_line("*skipped for want*")


def test_a_run_that_uses_none_of_it_says_nothing(empty_machine: pytest.Pytester) -> None:
    result = empty_machine.runpytest_inprocess("-k", "plain")
    result.assert_outcomes(passed=1, deselected=2)
    result.stdout.no_fnmatch_line("*control plane*")


def test_what_the_tests_will_run_on_is_said_once(
    empty_machine: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    directory = tmp_path / "cache" / "control-plane" / KUBERNETES_VERSION
    directory.mkdir(parents=True)
    for name in (ETCD, APISERVER):
        (directory / name).touch(mode=0o755)
    result = empty_machine.runpytest_inprocess("-k", "marked")
    result.assert_outcomes(passed=1, deselected=2)
    result.stdout.fnmatch_lines([f"control plane: the cache, Kubernetes {KUBERNETES_VERSION} built from source (*"])

    monkeypatch.setenv("KONVERGE_NO_CONTROL_PLANE", "1")
    declined = empty_machine.runpytest_inprocess("-k", "marked")
    declined.assert_outcomes(skipped=1, deselected=2)
    declined.stdout.fnmatch_lines(["1 skipped for want of a control plane: KONVERGE_NO_CONTROL_PLANE is set"])


def test_loading_the_plugin_loads_nothing_heavy() -> None:
    script = """
import sys
import pytest
import konverge
before = set(sys.modules)
import konverge.testing.plugin
print(*sorted(name for name in set(sys.modules) - before))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"konverge.testing", "konverge.testing.plugin"}


def test_loading_the_fixtures_that_are_clients_loads_no_client() -> None:
    script = """
import sys
import pytest_asyncio
import konverge.testing.plugin
before = set(sys.modules)
import konverge.testing.clients
print(*sorted(name for name in set(sys.modules) - before))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["konverge.testing.clients"]


def test_the_clients_are_fixtures_where_pytest_asyncio_is_and_else_are_not(empty_machine: pytest.Pytester) -> None:
    # In processes of their own: a fixture function keeps its wrapping by pytest-asyncio for the life of a process.
    empty_machine.runpytest_subprocess("--fixtures").stdout.fnmatch_lines(["admin --*", "client_for --*"])
    without = empty_machine.runpytest_subprocess("--fixtures", "-p", "no:asyncio", "-o", "addopts=", "-c", "/dev/null")
    without.stdout.fnmatch_lines(["control_plane*"])
    without.stdout.no_fnmatch_line("client_for*")


def test_every_exported_name_can_be_loaded() -> None:
    import konverge.testing

    for name in konverge.testing.__all__:
        assert getattr(konverge.testing, name).__name__ == name
        assert name in dir(konverge.testing)
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = konverge.testing.Nonsense
