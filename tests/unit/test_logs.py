"""The log lines of the library in a program that embeds it. Each program is a process of its own: logging is global."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio, logging, sys
import konverge as kv
from konverge_testing import ApiServer

SECRET = kv.kind("v1", "Secret")
done = asyncio.Event()

class Reconciler:
    async def reconcile(self, secret, ctx):
        ctx.log.info("a line of the reconciler", n=1)
        if not done.is_set():
            done.set()
            raise ValueError("it fails once")
        return kv.Done()

async def main():
    async with ApiServer() as server:
        manager = kv.Manager("shop", server.config())
        manager.add(kv.Controller.of(SECRET).reconciled_by(Reconciler()))
{configured}
        async with manager:
            await manager.ready()
            await manager.client.create(SECRET.new("a", "default"))
            await done.wait()
            await asyncio.sleep(0.1)

asyncio.run(main())
"""
STANDARD = "logging.basicConfig(level=logging.INFO, format='%(levelname)s %(name)s %(message)s')"
QUIET = "logging.getLogger('konverge').setLevel(logging.CRITICAL)"
STRUCTLOG = """
import structlog
structlog.configure(processors=[structlog.processors.add_log_level, structlog.processors.JSONRenderer()],
    logger_factory=structlog.PrintLoggerFactory(sys.stderr), wrapper_class=structlog.make_filtering_bound_logger({level}))
"""
STDLIB_STRUCTLOG = """
import structlog
logging.basicConfig(level=logging.INFO, format='mine %(levelname)s %(name)s %(message)s')
structlog.configure(processors=[structlog.stdlib.render_to_log_kwargs], logger_factory=structlog.stdlib.LoggerFactory(),
    wrapper_class=structlog.stdlib.BoundLogger)
"""


def indented(text: str) -> str:
    return "\n".join(f"        {line}" for line in text.strip().splitlines())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("configured", "there", "absent"),
    [
        pytest.param(
            "",
            ["reconcile failed controller='secret' key='default/a'", "\nValueError: it fails once"],
            ["started", "a line of"],
            id="nothing",
        ),
        pytest.param(
            STANDARD,
            ["INFO konverge.controller controller started controller='secret'", "a line of the reconciler"],
            ["DEBUG"],
            id="logging",
        ),
        pytest.param(QUIET, [], ["konverge", "fails"], id="logging of konverge off"),
        pytest.param(
            STRUCTLOG.format(level=10), ['"event": "controller started"', '"level": "debug"'], [], id="structlog"
        ),
        pytest.param(
            STDLIB_STRUCTLOG, ["mine INFO konverge.controller controller started"], ["DEBUG"], id="structlog on logging"
        ),
    ],
)
def test_log_lines_follow_the_embedding_program_and_never_reach_stdout(
    configured: str, there: list[str], absent: list[str]
) -> None:
    program = PROGRAM.replace("{configured}", indented(configured or "pass"))
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout) == (0, ""), ran.stderr
    assert [text for text in there if text not in ran.stderr] == []
    assert [text for text in absent if text in ran.stderr] == []


TESTS = """
import asyncio
import konverge as kv
import pytest
from konverge_testing import Lab

async def test_with_a_lab(lab: Lab) -> None:
    await lab.create(kv.kind("v1", "Secret").new("a"))

@pytest.mark.asyncio
async def test_of_pytest_asyncio() -> None:
    await asyncio.sleep(0)
"""


@pytest.mark.slow
def test_a_project_without_any_configuration_of_pytest_gets_no_warning(tmp_path: Path) -> None:
    (tmp_path / "test_project.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-W", "error", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "2 passed" in ran.stdout
    assert "warning" not in (ran.stdout + ran.stderr).lower()
