"""The programs of docs/guide/admission.md and docs/guide/versions.md run unchanged, with the command that a reader would give."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[4]


@pytest.mark.parametrize("name", ["test_backup_admission.py", "test_mirror_operator.py"])
def test_the_tests_of_the_guide_pass_as_a_reader_runs_them(name: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", f"examples/{name}", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


@pytest.mark.parametrize(
    ("page", "program"), [("admission.md", "backup_admission"), ("versions.md", "mirror_operator")]
)
def test_the_guide_shows_the_files_that_this_test_runs(page: str, program: str) -> None:
    text = (ROOT / "docs" / "guide" / page).read_text()
    for name in (f"{program}.py", f"test_{program}.py"):
        assert f"<!-- include: examples/{name} -->" in text


def test_a_manager_without_webhooks_loads_no_server_no_keys_and_no_patches() -> None:
    code = (
        "import sys, konverge as kv; kv.Manager('shop').rules(); kv.Webhook\n"
        "print([name for name in ('aiohttp.web', 'cryptography', 'jsonpatch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
