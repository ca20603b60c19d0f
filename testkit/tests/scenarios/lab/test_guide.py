"""The guide testkit/docs/lab.md is true: its programs run, and pytest prints the output that it shows.

If the lab's words change, regenerate the guide's output: `python testkit/tests/scenarios/lab/test_guide.py && make readme`.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
EXAMPLES = ROOT / "examples"
SHOWN = EXAMPLES / "invoices_crash.txt"


def printed(*words: str) -> str:
    """Run the example's test as a reader would."""
    command = [sys.executable, "-m", "pytest", "examples/test_invoices.py", "-p", "no:cacheprovider", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def replayed() -> str:
    """Replay the crash; returns its report."""
    said = printed("--lab-plan", "examples/invoices_crash.json")
    start = said.find("FAILED: crash")
    assert start >= 0, said
    return said[start:].partition("\n---")[0].rstrip() + "\n"


def test_the_output_in_the_guide_is_what_the_replay_prints() -> None:
    assert SHOWN.read_text() == replayed()


def test_the_plan_in_the_output_is_the_file_that_is_replayed() -> None:
    plan = (EXAMPLES / "invoices_crash.json").read_text()
    assert plan.strip() in SHOWN.read_text()


def test_the_guide_shows_the_files_that_this_test_runs() -> None:
    guide = (ROOT / "testkit" / "docs" / "lab.md").read_text()
    for name in ("invoices.py", "test_invoices.py", "invoices_crash.txt"):
        assert (EXAMPLES / name).read_text().rstrip() in guide, f"{name}: make readme"


@pytest.mark.parametrize(("build", "passes"), [("build", False), ("build_mended", True)])
def test_crash_breaks_only_the_reconciler_with_the_bug(build: str, passes: bool) -> None:
    import invoices

    import konverge as kv
    from konverge_testing import Lab
    from konverge_testing.lab import Plan, replay

    async def scenario(lab: Lab) -> None:
        await lab.start(getattr(invoices, build))
        await lab.create(invoices.Invoice.new("march", spec=invoices.InvoiceSpec(customer="Jane")))
        await lab.until(invoices.Invoice, "march", kv.is_true("Issued"))

    _, problems = replay(scenario, Plan.from_json((EXAMPLES / "invoices_crash.json").read_bytes()))
    assert (problems == []) is passes, problems


if __name__ == "__main__":
    SHOWN.write_text(replayed())
