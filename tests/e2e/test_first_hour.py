"""Projects of `konverge init`: their tests, checkers and demo pass, and the page docs/guide/start.md runs word for word.

The tree's environment has the programs. `.ci/test-wheel` runs the page from wheels in an empty environment.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import first_hour
import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(sys.executable).parent
FEATURES = "webhook,finalizer,conversion"


def environment(project: Path) -> dict[str, str]:
    """The variables that show konverge and the project to the tree's programs; the project is not installed."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "KONVERGE", "MAKE", "ARGS"))
    }
    tree = f"{ROOT}{os.pathsep}{ROOT / 'testkit'}"
    return {
        **kept,
        "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
        "PYTHONPATH": str(project),
        "MYPYPATH": tree,
        "CI": "true",
    }


def run(project: Path, *command: str) -> str:
    done = subprocess.run(
        command, cwd=project, env=environment(project), capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with every feature, a second kind, and a version that `konverge add` wrote."""
    folder = tmp_path_factory.mktemp("projects")
    run(folder, "konverge", "init", "shop-operator", "--group", "shops.example.com", "--with", FEATURES)
    project = folder / "shop-operator"
    run(project, "konverge", "add", "kind", "Cart", "--group", "carts.example.com")
    run(project, "konverge", "add", "version", "v2", "--kind", "Cart")
    run(project, "konverge", "add", "webhook", "Cart")
    return project


def test_the_tests_of_a_project_pass(project: Path) -> None:
    assert " passed" in run(project, sys.executable, "-m", "pytest", "-q")


def test_a_project_passes_both_strict_type_checkers(project: Path) -> None:
    run(project, sys.executable, "-m", "mypy")
    pytest.importorskip("pyright", reason="the extra dev has pyright")
    settings = {"include": ["."], "typeCheckingMode": "strict", "extraPaths": [str(ROOT), str(ROOT / "testkit"), "."]}
    (project / "pyrightconfig.json").write_text(json.dumps(settings))
    report = json.loads(run(project, "pyright", "--pythonpath", sys.executable, "--outputjson"))
    assert report["generalDiagnostics"] == []
    assert report["summary"]["filesAnalyzed"] >= len(list(project.rglob("*.py")))


def test_the_demo_shows_the_samples_of_a_project_until_they_are_ready(project: Path) -> None:
    output = run(project, "konverge", "demo", "shop_operator:build", "--samples", "samples")
    assert "shop/first               Ready=False PodsNotReady: 0 of 2 pods are ready" in output
    assert "cart/first               Ready=True PodsReady: 2 of 2 pods are ready" in output
    assert "All samples are ready." in output
    assert re.search(r"^  page +http://127\.0\.0\.1:\d+/debug/ui$", output, re.MULTILINE)


def test_a_demo_whose_samples_do_not_become_ready_fails_with_the_log(project: Path, tmp_path: Path) -> None:
    sample = (project / "samples" / "shops.yaml").read_text()
    (tmp_path / "other.yaml").write_text(sample.replace("name: first", "name: " + "long-" * 20 + "name"))
    words = ("konverge", "demo", "shop_operator:build", "--samples", str(tmp_path), "--timeout", "3")
    done = subprocess.run(
        words, cwd=project, env=environment(project), capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 1
    assert "Ready=False ReconcileFailed" in done.stdout
    assert "not all samples are ready after 3 s. The log of shop-operator ends:" in done.stderr


@pytest.mark.linux
def test_a_new_user_of_the_walk_has_only_its_own_folder(tmp_path: Path) -> None:
    home = tmp_path / "Jörg Müller"
    (home / "work").mkdir(parents=True)
    variables = first_hour.environment_of(home, "/nonexistent")
    inside = first_hour.bare(home)
    if subprocess.run([*inside, "sh", "-c", ":"], check=False, capture_output=True).returncode:
        pytest.skip("a root of its own takes root and the right to mount")
    checks = (
        f'test "$(id -u)-$(id -g)-$(umask)" = {first_hour.USER}-{first_hour.USER}-0077',
        'test -z "${LANG-}${LC_ALL-}"',
        'python3 -c "import ssl, venv, ensurepip"',
        "for folder in / /etc /usr/bin /lib; do if touch $folder/new; then exit 1; fi; done",
        'touch here "$HOME/here" /tmp/here',
        f"test ! -e {ROOT}",
        "for program in git gcc pip konverge; do if command -v $program; then exit 1; fi; done",
    )
    steps = [first_hour.Step("", line) for line in checks]
    assert [timed.step for timed in first_hour.run(steps, home / "work", variables, inside, "/opt/git")] == steps


@pytest.mark.timeout(900)
def test_the_page_of_the_first_hour_runs_word_for_word(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "guide" / "start.md").read_text()
    steps = [step for step in first_hour.steps_of(page) if step.section != "Install"]
    project = tmp_path / "guestbook"
    link = f"mkdir {project}/.venv && ln -s {PROGRAMS} {project}/.venv/bin && touch {project}/.venv/ready"
    at = next(number for number, step in enumerate(steps) if step.command == "cd guestbook")
    steps.insert(at, first_hour.Step("", link))  # in place of the project's own environment
    few_plans = {"PYTEST_ADDOPTS": "--lab-part=1/20"}
    done = first_hour.run(steps, tmp_path, {**environment(project), **few_plans})
    assert [timed.step for timed in done] == steps
    assert (project / "chart" / "Chart.yaml").is_file()
