"""The library and the kit use no call that only Linux has without a replacement: imports and tests run on a played macOS."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IMPORTS = """\
import importlib, pkgutil
import other_system
import konverge, konverge_testing
for package in (konverge, konverge_testing):
    for each in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not each.name.endswith("__main__"):
            importlib.import_module(each.name)
"""
TESTS = (
    "testkit/tests/unit/lab/test_forking.py",
    "tests/unit/daemon/test_engine.py",
    "tests/unit/runtime/test_server.py",
)


def run(*arguments: str) -> str:
    paths = [str(ROOT / "tests/support")]
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={"PYTHONPATH": ":".join(paths), "HOME": "/nonexistent", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-3000:]
    return done.stdout


def test_every_module_imports_without_the_calls_of_linux() -> None:
    run("-c", IMPORTS)


@pytest.mark.slow
def test_library_and_lab_work_without_the_calls_of_linux() -> None:
    output = run("-m", "pytest", "-q", "-p", "other_system", "-p", "no:cacheprovider", *TESTS)
    assert " passed" in output
