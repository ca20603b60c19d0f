"""`make test` leaves out the test kit's own tests if they passed and nothing that they depend on has changed since."""

import subprocess
from pathlib import Path

import kit_tests
import pytest

pytest_plugins = ["pytester"]

SUPPORT = Path(kit_tests.__file__).parent
PASSES, FAILS = "def test_a(): pass", "def test_a(): assert False"


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A repository with a test of its own and a test of its kit, and the variable of the Makefile."""
    files = {
        "pytest.ini": f"[pytest]\naddopts = -p kit_tests -p no:konverge\ntestpaths = tests testkit/tests\npythonpath = {SUPPORT}\n",
        "tests/test_own.py": PASSES,
        "testkit/tests/unit/test_kit.py": PASSES,
        "testkit/kit.py": "",
        "konverge/keys.py": "",
        "konverge/client/client.py": "",
    }
    for name, text in files.items():
        pytester.path.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        pytester.path.joinpath(name).write_text(text)
    subprocess.run(["git", "init", "--quiet"], cwd=pytester.path, check=True)
    pytester.path.joinpath(".gitignore").write_text("/build/\n__pycache__/\n.pytest_cache/\n")
    monkeypatch.setenv(kit_tests.VARIABLE, "changed")
    monkeypatch.delenv("CI", raising=False)
    return pytester


def passed(project: pytest.Pytester, *arguments: str) -> int:
    outcomes: dict[str, int] = project.runpytest_subprocess("-p", "no:cacheprovider", *arguments).parseoutcomes()
    return outcomes.get("passed", 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        ("", 1),
        ("tests/test_own.py", 1),
        ("konverge/client/client.py", 1),
        ("testkit/kit.py", 2),
        ("konverge/keys.py", 2),
    ],
)
def test_kit_tests_run_again_only_after_a_change_of_the_kit(project: pytest.Pytester, changed: str, tests: int) -> None:
    assert passed(project) == 2
    if changed:
        project.path.joinpath(changed).write_text(f"{project.path.joinpath(changed).read_text()}\n# changed\n")
    assert passed(project) == tests


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("-k", "test_a"), ("testkit/tests/unit/test_kit.py",), ("tests",)])
def test_run_of_chosen_tests_does_not_record_the_kit(project: pytest.Pytester, arguments: tuple[str, ...]) -> None:
    passed(project, *arguments)
    assert passed(project) == 2


@pytest.mark.slow
def test_failed_run_does_not_record_the_kit(project: pytest.Pytester) -> None:
    project.path.joinpath("tests/test_own.py").write_text(FAILS)
    assert passed(project) == 1
    assert passed(project) == 1


@pytest.mark.slow
@pytest.mark.parametrize("variable", ["CI", kit_tests.VARIABLE])
def test_ci_and_plain_pytest_run_every_test(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    assert passed(project) == 2
    monkeypatch.setenv(variable, "true")
    assert passed(project) == 2


def test_digest_depends_on_names_and_contents(tmp_path: Path) -> None:
    digests = {kit_tests.digest_of([], tmp_path)}
    for name, text in (("a", ""), ("b", ""), ("a", "x")):
        tmp_path.joinpath(name).write_text(text)
        digests.add(kit_tests.digest_of([tmp_path / name], tmp_path))
    assert len(digests) == 4
    assert "" in digests
