"""`make test` leaves out folders of tests that passed if nothing that they depend on has changed since."""

import subprocess
from pathlib import Path

import pytest
import unchanged_tests

pytest_plugins = ["pytester"]

SUPPORT = Path(unchanged_tests.__file__).parent
PASSES, FAILS = "def test_a(): pass", "def test_a(): assert False"


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A repository with a test of its own, of its kit and of a family, and the variable of the Makefile."""
    files = {
        "pytest.ini": f"[pytest]\naddopts = -p unchanged_tests -p no:konverge\ntestpaths = tests testkit/tests\npythonpath = {SUPPORT}\n",
        "tests/test_own.py": PASSES,
        "testkit/tests/unit/test_kit.py": PASSES,
        "tests/scenarios/quota/test_quota.py": PASSES,
        "testkit/kit.py": "",
        "testkit/konverge_testing/lab.py": "",
        "docs/guide/page.txt": "",
        "reconcilers/quota/plan.py": "",
        "reconcilers/pools/plan.py": "",
        "konverge/keys.py": "",
        "konverge/client/client.py": "",
    }
    for name, text in files.items():
        pytester.path.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        pytester.path.joinpath(name).write_text(text)
    subprocess.run(["git", "init", "--quiet"], cwd=pytester.path, check=True)
    pytester.path.joinpath(".gitignore").write_text("/build/\n__pycache__/\n.pytest_cache/\n")
    monkeypatch.setenv(unchanged_tests.VARIABLE, "changed")
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
        ("docs/guide/page.txt", 1),
        ("reconcilers/pools/plan.py", 1),
        ("reconcilers/quota/plan.py", 2),
        ("konverge/client/client.py", 2),
        ("tests/scenarios/quota/test_quota.py", 2),
        ("testkit/kit.py", 2),
        ("testkit/konverge_testing/lab.py", 3),
        ("konverge/keys.py", 3),
    ],
)
def test_a_folder_runs_again_only_after_a_change_of_its_sources(
    project: pytest.Pytester, changed: str, tests: int
) -> None:
    assert passed(project) == 3
    if changed:
        project.path.joinpath(changed).write_text(f"{project.path.joinpath(changed).read_text()}\n# changed\n")
    assert passed(project) == tests


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "tests"),
    [
        (("-k", "test_a"), 3),
        (("testkit/tests/unit/test_kit.py",), 3),
        (("tests/scenarios/quota/test_quota.py",), 3),
        (("tests/scenarios/quota",), 2),
        (("tests",), 2),
    ],
)
def test_only_a_run_of_a_whole_folder_records_it(
    project: pytest.Pytester, arguments: tuple[str, ...], tests: int
) -> None:
    passed(project, *arguments)
    assert passed(project) == tests


@pytest.mark.slow
def test_failed_run_does_not_record_a_folder(project: pytest.Pytester) -> None:
    project.path.joinpath("tests/test_own.py").write_text(FAILS)
    assert passed(project) == 2
    assert passed(project) == 2


@pytest.mark.slow
@pytest.mark.parametrize("variable", ["CI", unchanged_tests.VARIABLE])
def test_ci_and_plain_pytest_run_every_test(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    assert passed(project) == 3
    monkeypatch.setenv(variable, "true")
    assert passed(project) == 3


def test_digest_depends_on_names_and_contents(tmp_path: Path) -> None:
    digests = {unchanged_tests.digest_of([], tmp_path)}
    for name, text in (("a", ""), ("b", ""), ("a", "x")):
        tmp_path.joinpath(name).write_text(text)
        digests.add(unchanged_tests.digest_of([tmp_path / name], tmp_path))
    assert len(digests) == 4
    assert "" in digests
