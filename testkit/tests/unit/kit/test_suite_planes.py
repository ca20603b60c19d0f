"""A process of a test run keeps a control plane as long as it has tests for it, and no longer."""

from pathlib import Path

import pytest
from suite_planes import PLANES

from konverge_testing import plugin

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[4]
SUPPORT = ROOT / "tests" / "support"
PLANE = """
import pathlib
import pytest

@pytest.fixture(scope="session")
def {name}():
    log = pathlib.Path("log")
    log.open("a").write("starts ")
    yield "plane"
    log.open("a").write("stops ")
"""
TEST = """
import pathlib
import pytest

@pytest.fixture(scope="session")
def client({name}):
    yield "client of a " + {name}
    pathlib.Path("log").open("a").write("closes ")

def test_one(client):
    pathlib.Path("log").open("a").write("real ")
"""
COMPUTES = """
import pathlib

def test_one():
    pathlib.Path("log").open("a").write("computes ")
"""


def run(
    pytester: pytest.Pytester,
    files: dict[str, str],
    plane: str = "control_plane",
    *,
    home: str = "tests",
    more: str = "",
) -> str:
    """Run files in their order with a stand-in for a control plane, and return what happened."""
    pytester.makeini(
        f"[pytest]\naddopts = -p suite_planes -p no:konverge --import-mode=importlib\npythonpath = {SUPPORT}\n"
    )
    for name, text in files.items():
        (pytester.path / name).parent.mkdir(parents=True, exist_ok=True)
        (pytester.path / name).write_text(text.format(name=plane), encoding="utf-8")
    (pytester.path / home / "conftest.py").write_text(PLANE.format(name=plane) + more, encoding="utf-8")
    pytester.runpytest_subprocess(*files).assert_outcomes(passed=len(files))
    return (pytester.path / "log").read_text(encoding="utf-8")


def test_plane_stops_after_its_clients_close_before_cpu_bound_tests(pytester: pytest.Pytester) -> None:
    files = {"tests/e2e/test_a.py": TEST, "tests/e2e/test_b.py": TEST, "tests/unit/test_c.py": COMPUTES}
    assert run(pytester, files) == "starts real real closes closes stops computes "


def test_a_plane_starts_again_for_a_test_that_comes_later_than_expected(pytester: pytest.Pytester) -> None:
    files = {"tests/e2e/test_a.py": TEST, "tests/unit/test_b.py": COMPUTES, "tests/e2e/test_c.py": TEST}
    assert run(pytester, files) == "starts real closes stops computes starts real closes stops "


def test_a_test_that_computes_and_needs_a_plane_keeps_it(pytester: pytest.Pytester) -> None:
    files = {"tests/e2e/test_a.py": TEST, "tests/unit/test_b.py": TEST}
    assert run(pytester, files) == "starts real real closes closes stops "


def test_a_plane_of_one_folder_stops_when_the_tests_of_another_begin(pytester: pytest.Pytester) -> None:
    files = {"testkit/tests/conformance/test_a.py": TEST, "tests/e2e/test_b.py": COMPUTES}
    assert run(pytester, files, home="testkit/tests/conformance") == "starts real closes stops computes "


def test_plane_that_a_file_replaces_ends_first_with_its_clients(pytester: pytest.Pytester) -> None:
    shared = """
@pytest.fixture(scope="session")
def kubeconfig(control_plane):
    return "of " + control_plane
"""
    asks = "\ndef test_{name}(kubeconfig):\n    pathlib.Path('log').open('a').write(kubeconfig + ' ')\n"
    own = """
import pathlib
import pytest

@pytest.fixture(scope="session")
def control_plane():
    yield "its own"
"""
    files = {
        "tests/e2e/test_a.py": "import pathlib\n" + asks,
        "tests/e2e/test_b.py": own + asks,
        "tests/e2e/test_c.py": COMPUTES,
    }
    assert run(pytester, files, more=shared) == "starts of plane stops of its own computes "


def test_another_fixture_of_the_session_lives_until_its_end(pytester: pytest.Pytester) -> None:
    files = {"tests/e2e/test_a.py": TEST, "tests/unit/test_b.py": COMPUTES}
    assert run(pytester, files, "numbers") == "starts real computes closes stops "


def test_each_name_of_a_plane_is_a_fixture_that_runs_one() -> None:
    homes = [
        Path(str(plugin.__file__)),
        *(path for tests in ("tests", "testkit/tests") for path in (ROOT / tests).rglob("conftest.py")),
    ]
    text = "".join(path.read_text(encoding="utf-8") for path in homes)
    assert {name for name in PLANES if f"def {name}(" not in text} == set()
