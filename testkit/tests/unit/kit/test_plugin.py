import re
import subprocess
import sys
from pathlib import Path

import pytest

from konverge_testing import labs
from konverge_testing.binaries import APISERVER, ETCD, KUBERNETES_VERSION

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow

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
    monkeypatch.setattr("konverge_testing.binaries.SYSTEM_DIRECTORY", tmp_path / "system")
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


def test_a_missing_control_plane_is_a_failure_if_one_is_required(
    empty_machine: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KONVERGE_REQUIRE_CONTROL_PLANE", "1")
    result = empty_machine.runpytest_inprocess()
    result.assert_outcomes(passed=1, errors=2)
    result.stdout.fnmatch_lines(["*konverge control-plane install (KONVERGE_REQUIRE_CONTROL_PLANE is set)*"])
    result.stdout.no_fnmatch_line("*skipped for want*")


def test_a_test_run_without_control_plane_tests_prints_nothing(empty_machine: pytest.Pytester) -> None:
    result = empty_machine.runpytest_inprocess("-k", "plain")
    result.assert_outcomes(passed=1, deselected=2)
    result.stdout.no_fnmatch_line("*control plane*")


def test_the_control_plane_of_the_tests_is_printed_once(
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
import konverge_testing.plugin
print(*sorted(name for name in set(sys.modules) - before))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"konverge_testing", "konverge_testing.plugin"}


def test_loading_the_fixtures_that_are_clients_loads_no_client() -> None:
    script = """
import sys
import pytest_asyncio
import konverge_testing.plugin
before = set(sys.modules)
import konverge_testing.clients
print(*sorted(name for name in set(sys.modules) - before))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["konverge_testing.clients"]


def test_client_fixtures_exist_only_with_pytest_asyncio(empty_machine: pytest.Pytester) -> None:
    # In separate processes: a fixture function keeps its wrapping by pytest-asyncio for the life of a process.
    empty_machine.runpytest_subprocess("--fixtures").stdout.fnmatch_lines(["admin --*", "client_for --*"])
    without = empty_machine.runpytest_subprocess("--fixtures", "-p", "no:asyncio", "-o", "addopts=", "-c", "/dev/null")
    without.stdout.fnmatch_lines(["control_plane*"])
    without.stdout.no_fnmatch_line("client_for*")


def test_every_exported_name_can_be_loaded() -> None:
    import konverge_testing

    for name in konverge_testing.__all__:
        assert getattr(konverge_testing, name).__name__ == name
        assert name in dir(konverge_testing)
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = konverge_testing.Nonsense


LAB_SUITE = """
import asyncio
import unittest

import pytest
import konverge as kv
from konverge_testing import Lab

MAP = kv.kind("v1", "ConfigMap")

class Thing(kv.CustomResource[kv.Model, kv.Status]):
    pass

Thing = kv.resource("example.com/v1", conditions=("Ready",))(Thing)

class Maker:
    async def reconcile(self, thing, ctx):
        await ctx.own(MAP.new("child", thing.namespace, data={"of": thing.name}))
        ctx.status.set_condition("Ready", True, "Made")
        return kv.Done()

def build(manager):
    manager.add(kv.Controller.of(Thing).owns(MAP).reconciled_by(Maker()))

@pytest.mark.scenario
async def test_unmarked(lab: Lab):
    await lab.start(build)
    await lab.create(Thing.new("one"))
    await lab.until(Thing, "one", kv.is_true("Ready"))

async def test_time_jumps(lab: Lab):
    await asyncio.sleep(24 * 3600)

def test_plain():
    pass

class OldStyle(unittest.TestCase):
    def test_old(self):
        self.assertTrue(True)
"""

CRASH = '{"name": "crash after write 1", "crashes": [{"write": 1}]}'
FORGETFUL = """
    number = 0
    async def reconcile(self, thing, ctx):
        number = len(ctx.cache(MAP).keys(thing.namespace)) if thing.status.observed_generation is None else 0
        await ctx.own(MAP.new(f"child-{number}", thing.namespace))
"""


@pytest.fixture
def lab_suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A suite of coroutine tests with the lab, beside others; pytest-asyncio is strict, as it is by default."""
    monkeypatch.delenv("CI", raising=False)
    pytester.makepyfile(test_things=LAB_SUITE)
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    return pytester


@pytest.mark.parametrize("mode", ["strict", "auto"])
def test_an_unmarked_coroutine_test_has_its_lab_beside_tests_of_every_style(
    lab_suite: pytest.Pytester, mode: str
) -> None:
    result = lab_suite.runpytest_subprocess(f"--asyncio-mode={mode}", "-W", "error")
    result.assert_outcomes(passed=4)
    assert result.duration < 60


def test_a_scenario_is_rerun_under_every_plan_and_the_count_is_printed(lab_suite: pytest.Pytester) -> None:
    result = lab_suite.runpytest_subprocess("--lab=quick", "--lab-budget=2", "--lab-seed=4", "-k", "unmarked")
    result.assert_outcomes(passed=2, deselected=3)
    result.stdout.fnmatch_lines(["lab: *test_unmarked[[]every fault[]]: * plans ran, 0 failed, * were pruned*"])


@pytest.mark.parametrize(("ci", "outcomes"), [("true", {"failed": 1}), ("", {"passed": 1})], ids=["in CI", "at a desk"])
def test_plans_skipped_for_time_fail_in_ci_and_warn_elsewhere(
    lab_suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, ci: str, outcomes: dict[str, int]
) -> None:
    monkeypatch.setenv("CI", ci)
    lab_suite.makeconftest(
        "from konverge_testing.lab.budget import CpuBudget\nleft = [True] * 2\nCpuBudget.left = lambda self: left.pop() if left else False"
    )
    result = lab_suite.runpytest_subprocess("--lab=quick", "-k", "unmarked and every")
    result.assert_outcomes(**outcomes, deselected=4)
    result.stdout.fnmatch_lines(
        ["!*lab: INCOMPLETE: *unmarked*", "lab: * plans were left for want of time*--lab-budget*CI=true*"]
    )


HANGING = """
import asyncio, threading
import pytest
from konverge_testing import Lab

@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch):
    monkeypatch.setattr("konverge_testing.loop.MOST_WAITING", 0.1)

async def test_waits_for_ever(lab: Lab):
    await asyncio.to_thread(threading.Event().wait)

def test_another(): ...
"""


def test_endless_thread_fails_its_test_and_does_not_block_pytest(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_hanging=HANGING)
    result = pytester.runpytest_subprocess(timeout=40)
    result.assert_outcomes(failed=1, passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*the test hangs: threading.Event.wait did not return in *"])


@pytest.mark.parametrize(
    ("mark", "outcomes", "line"),
    [
        ("(foreign=False)", {"passed": 2}, "lab: *every fault*: * plans ran, 0 failed, * were pruned*"),
        ("(foreigners=False)", {}, "*the mark `scenario` takes nothing but foreign=False*"),
        ("(quick=0)", {}, "*the mark `scenario` takes nothing but foreign=False*"),
    ],
)
def test_scenario_mark_accepts_only_foreign_false_and_a_number_of_plans(
    lab_suite: pytest.Pytester, mark: str, outcomes: dict[str, int], line: str
) -> None:
    lab_suite.makepyfile(test_things=LAB_SUITE.replace("@pytest.mark.scenario", f"@pytest.mark.scenario{mark}"))
    result = lab_suite.runpytest_subprocess("--lab=quick", "--lab-budget=1", "-k", "unmarked")
    if outcomes:
        result.assert_outcomes(**outcomes, deselected=3)
    result.stdout.fnmatch_lines([line]) if outcomes else result.stderr.fnmatch_lines([line])


def test_position_of_a_scenario_in_its_file_does_not_depend_on_selection(pytester: pytest.Pytester) -> None:
    marked = "\n".join(
        f"@pytest.mark.scenario(quick=4)\nasync def test_{name}(lab): ...\n\nasync def test_{name}_once(lab): ...\n"
        for name in "abc"
    )
    items = {item.name: item for item in pytester.getitems(f"import pytest\n\n{marked}")}
    first, second, third = (labs.position_of(items[f"test_{name}"]) for name in "abc")
    assert (second, third) == (first + 1, first + 2)


def test_a_saved_plan_that_fails_fails_again_alone(lab_suite: pytest.Pytester) -> None:
    lab_suite.makepyfile(
        test_things=LAB_SUITE.replace(
            """
    async def reconcile(self, thing, ctx):
        await ctx.own(MAP.new("child", thing.namespace, data={"of": thing.name}))
""",
            FORGETFUL,
        )
    )
    lab_suite.makefile(".json", crash=CRASH)
    result = lab_suite.runpytest_subprocess("--lab-plan", "crash.json", "-k", "unmarked")
    result.assert_outcomes(passed=1, failed=1, deselected=3)
    result.stdout.fnmatch_lines(
        [
            "1 plans ran, 1 failed, 0 were pruned;*",
            "FAILED: crash after write 1",
            "  - the end state differs: configmaps *child-1 is there and should not be",
            "*dies after its write #1",
            "  the plan, to replay with --lab-plan:",
        ]
    )


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (
            '{"name": "x", "crashes": [{"write": "one"}]}',
            "--lab-plan plan.json: Expected `int`, got `str` - at `$.crashes*",
        ),
        (None, "--lab-plan plan.json: *No such file*"),
    ],
    ids=["with a mistake", "that is not there"],
)
def test_a_plan_that_cannot_run_is_one_clear_failure(lab_suite: pytest.Pytester, plan: str | None, said: str) -> None:
    if plan is not None:
        lab_suite.makefile(".json", plan=plan)
    result = lab_suite.runpytest_subprocess("--lab-plan", "plan.json", "-k", "unmarked")
    result.assert_outcomes(passed=1, failed=1, deselected=3)
    result.stdout.fnmatch_lines([said])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_pruned_plans_run_on_request(lab_suite: pytest.Pytester) -> None:
    def waiting(*more: str) -> int:
        result = lab_suite.runpytest_subprocess("--lab=quick", "--lab-budget=0", "-k", "unmarked", *more)
        found = re.search(r"(\d+) were left for want of time", result.stdout.str())
        assert found is not None
        return int(found[1])

    assert waiting("--lab-no-prune") > waiting()


@pytest.mark.parametrize(
    ("words", "limit"),
    [
        (["--lab=quick", "--timeout=10"], 900),
        (["--lab=full", "--timeout=10"], 3900),
        (["--lab=full", "--lab-budget=150", "--timeout=120"], 900),
        (["--lab=quick", "--lab-budget=150", "--timeout=120"], 900),
        (["--lab=full", "--timeout=5000"], 5000),
        (["--lab=full", "--timeout=0"], None),
        (["--lab=full"], None),
    ],
    ids=[
        "quick",
        "full",
        "full with a budget",
        "quick with a budget",
        "full with a longer limit",
        "switched off",
        "no limit",
    ],
)
def test_a_scenario_under_every_fault_has_a_timeout_that_fits_its_budget(
    pytester: pytest.Pytester, words: list[str], limit: float | None
) -> None:
    config = pytester.parseconfig(*words)
    assert labs._timeout(config) == limit


def test_project_timeout_does_not_end_a_scenario_under_every_fault(lab_suite: pytest.Pytester) -> None:
    lab_suite.makepyfile(
        test_things=LAB_SUITE.replace("async def test_unmarked", "@pytest.mark.timeout(60)\nasync def test_unmarked")
    )
    result = lab_suite.runpytest_subprocess("--lab=quick", "--timeout=0.01", "-k", "unmarked and every")
    result.assert_outcomes(passed=1, deselected=4)


def test_a_lab_outside_memory_is_skipped_or_fails_without_its_cluster(
    lab_suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KONVERGE_REQUIRE_CONTROL_PLANE", raising=False)
    monkeypatch.setenv("KONVERGE_NO_CONTROL_PLANE", "1")
    monkeypatch.setenv("KUBECONFIG", str(lab_suite.path / "nothing"))
    real = lab_suite.runpytest_subprocess("--lab-on=control-plane", "-k", "unmarked")
    real.assert_outcomes(skipped=1, deselected=3)
    real.stdout.fnmatch_lines(["1 skipped for want of a control plane: KONVERGE_NO_CONTROL_PLANE is set"])
    cluster = lab_suite.runpytest_subprocess("--lab-on=kubeconfig", "-k", "unmarked")
    cluster.assert_outcomes(errors=1, deselected=3)


def test_a_test_can_choose_its_server(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.lab_on("kubeconfig")
        async def test_somewhere_else(lab):
            pass
        """
    )
    result = pytester.runpytest_subprocess("-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*runs on kubeconfig, not on memory"])


def test_a_scenario_takes_the_lab_and_nothing_else(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.scenario
        async def test_with_more(lab, tmp_path):
            pass
        """
    )
    result = pytester.runpytest_subprocess("--lab=quick")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["a test that is marked `scenario` takes `lab` and nothing else, since it is run many times"]
    )


def test_a_project_without_lab_tests_keeps_its_own_loops_and_names(pytester: pytest.Pytester) -> None:
    """Also for a project with marks and factories of its own: a hook of ours would put a loop's name into the ids of its tests."""
    pytester.makepyfile(
        """
        import asyncio
        import sys

        import pytest

        @pytest.mark.asyncio
        async def test_theirs():
            assert type(asyncio.get_running_loop()).__name__ != "VirtualTimeLoop"
            assert "konverge_testing.lab" not in sys.modules

        def test_plain():
            assert "konverge_testing.apiserver" not in sys.modules
        """
    )
    result = pytester.runpytest_subprocess("-v", "--strict-markers")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*::test_theirs PASSED*"])
    result.stdout.no_fnmatch_line("*test_theirs[[]*")


PLANTED_SUITE = """
import asyncio

import pytest
import konverge as kv
from konverge_testing import Lab
from konverge.errors import UsageError
from test_things import MAP, Thing

class Forgets:
    async def reconcile(self, thing, ctx):
        ctx.own(MAP.new("child", thing.namespace))
        return kv.Done()

def by(reconciler):
    return lambda manager: manager.add(kv.Controller.of(Thing).owns(MAP).reconciled_by(reconciler))

@pytest.mark.scenario
async def test_forgets(lab: Lab):
    await lab.start(by(Forgets()))
    await lab.create(Thing.new("one"))
    await asyncio.sleep(1)

@pytest.mark.scenario
async def test_never_true(lab: Lab):
    await lab.start(by(Forgets()))
    while await lab.find(MAP, "child") is None:
        pass

@pytest.mark.scenario
async def test_invariant(lab: Lab):
    def no_map():
        assert not lab.server.store.list(("", "configmaps"), lab.namespace), "there is a map"
    lab.always.append(no_map)
    await lab.create(MAP.new("a"))

@pytest.mark.scenario
async def test_expects(lab: Lab):
    lab.expects(UsageError, "never awaited")
    await lab.start(by(Forgets()))
    await lab.create(Thing.new("one"))
    await asyncio.sleep(1)

async def test_fails_by_itself(lab: Lab):
    await lab.start(by(Forgets()))
    await lab.create(Thing.new("one"))
    await asyncio.sleep(1)
    assert False, "its own reason"
"""


@pytest.mark.parametrize(("chosen", "failed"), [("not fault", 4), ("fault", 3)], ids=["test", "rerun"])
def test_operator_mistakes_fail_the_test_and_its_rerun_under_every_plan(
    lab_suite: pytest.Pytester, chosen: str, failed: int
) -> None:
    lab_suite.makepyfile(test_planted=PLANTED_SUITE)
    result = lab_suite.runpytest_subprocess(
        "--lab=quick", "--lab-budget=1", "-W", "error", "-rA", "-k", chosen, "test_planted.py"
    )
    result.assert_outcomes(passed=1, failed=failed, deselected=9 - 1 - failed)
    text = result.stdout.str()
    assert text.count("  - unhandled ForgottenAwait in thing lab/one: controller 'thing' made and never awaited") == 1
    assert text.count("says so, before it occurs: lab.expects(ErrorType)") == 2 * (chosen == "not fault")
    assert text.count("steps again and again at test_planted.py:") == 1
    assert " hangs: time has stood still at 0.000 s for 10000 turns of the loop" in text
    assert text.count("a predicate does not hold after added configmaps") == 1
    assert ("its own reason" in text) is (chosen == "not fault")
    result.stdout.no_fnmatch_line("*ERROR*teardown*")


PARTED = "import pytest\n" + "".join(
    f"@pytest.mark.scenario\nasync def test_{name}(lab):\n    pass\n" for name in "abcde"
)


def _explored(pytester: pytest.Pytester, *words: str) -> list[str]:
    result = pytester.runpytest_subprocess("--collect-only", "-q", "-k", "every and fault", *words)
    assert result.ret == 0
    return [line for line in result.outlines if "[every fault]" in line]


def test_parts_of_a_lab_run_contain_each_scenario_once_every_time(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(PARTED)
    parts = [_explored(pytester, "--lab=full", f"--lab-part={part}/2") for part in (1, 2)]
    assert [len(part) for part in parts] == [3, 2]
    assert sorted(parts[0] + parts[1]) == sorted(_explored(pytester, "--lab=full"))
    assert _explored(pytester, "--lab=full", "--lab-part=1/2") == parts[0]


@pytest.mark.parametrize("part", ["0/2", "3/2", "1", "a/b", "1/0"])
def test_a_part_that_is_none_is_refused(pytester: pytest.Pytester, part: str) -> None:
    result = pytester.runpytest_inprocess("--lab=full", f"--lab-part={part}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--lab-part*PART/PARTS*"])


def test_a_lab_without_pytest_asyncio_names_what_is_missing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import pytest\n\n@pytest.mark.scenario\nasync def test_thing(lab):\n    ...\n")
    result = pytester.runpytest_subprocess("-p", "no:asyncio", "--strict-markers")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*the fixture `lab` needs pytest-asyncio, *: pip install 'konverge[[]testing[]]'"])


def test_a_scenario_that_fails_without_faults_prints_its_error_once(lab_suite: pytest.Pytester) -> None:
    lab_suite.makepyfile(test_things=LAB_SUITE.replace('"Made")', '"Made")\n        raise KeyError("planted")'))
    result = lab_suite.runpytest_subprocess("--lab=quick", "-k", "scenario or fault", "-p", "no:logging")
    result.stdout.fnmatch_lines(["not rerun: *fails without a fault, see there"])
    printed = result.stdout.str().partition("short test summary")[0]
    assert printed.count("unhandled KeyError") == 1, printed
