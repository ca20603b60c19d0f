"""A long test run prints its durations and CPU times by folder, its slowest tests, and the tests that compute longest."""

import pytest
from suite_times import lines

pytest_plugins = ["pytester"]

PHASES = [
    ("tests/unit/client/test_a.py::test_one", 0.5, 0.25),
    ("tests/unit/client/test_a.py::test_one", 1.0, 1.0),
    ("tests/unit/test_b.py::test_two[x::y]", 0.25, 0.0),
    ("tests/e2e/test_c.py::test_three", 9.0, 0.5),
    ("examples/test_d.py::test_four", 0.125, 0.125),
]


def test_phases_of_a_test_add_up_and_longest_folder_is_first() -> None:
    assert lines(PHASES)[:5] == [
        "seconds      CPU  tests  folder",
        "    9.0      0.5      1  tests/e2e",
        "    1.8      1.2      2  tests/unit",
        "    0.1      0.1      1  examples",
        "   10.9      1.9      4  all, summed over the processes",
    ]


def test_each_family_has_a_row_and_the_library_has_the_rest() -> None:
    phases = [
        *PHASES,
        ("tests/e2e/test_pools_crds.py::test_five", 2.0, 1.0),
        ("tests/unit/pools/test_e.py::test_six", 0.5, 0.5),
    ]
    found = lines(phases)
    place = found.index("seconds      CPU  tests  family")
    assert found[place + 1 : place + 4] == [
        "   10.9      1.9      4  none: the library, the daemon",
        "    2.5      1.5      2  pools",
        "",
    ]


def test_tests_with_most_time_and_cpu_are_named_with_all_phases() -> None:
    assert lines(PHASES, slowest=2)[-7:] == [
        "seconds      CPU  the 2 slowest tests",
        "    9.0      0.5  tests/e2e/test_c.py::test_three",
        "    1.5      1.2  tests/unit/client/test_a.py::test_one",
        "",
        "seconds      CPU  the 2 tests that take most CPU time",
        "    1.5      1.2  tests/unit/client/test_a.py::test_one",
        "    9.0      0.5  tests/e2e/test_c.py::test_three",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("seconds", "printed"), [(0.0, True), (3600.0, False)], ids=["long", "short"])
def test_the_table_is_printed_at_the_end_of_a_long_run_alone(
    pytestconfig: pytest.Config, pytester: pytest.Pytester, seconds: float, printed: bool
) -> None:
    conftest = (pytestconfig.rootpath / "conftest.py").read_text()
    pytester.makeconftest(conftest.replace("_LONG = 60.0", f"_LONG = {seconds}"))
    pytester.makepyfile(
        "def test_one():\n    import time\n    end = time.process_time() + 0.5\n    while time.process_time() < end: pass"
    )
    pytester.makeini(
        f"[pytest]\nasyncio_default_fixture_loop_scope = function\npythonpath = {pytestconfig.rootpath}/tests/support"
    )
    result = pytester.runpytest_subprocess("-n2")
    result.assert_outcomes(passed=1)
    table = [line.split() for line in result.outlines if "1  all, summed over" in line]
    assert len(table) == printed
    assert all(float(cpu) > 0.0 for _, cpu, *_ in table), table
    assert (pytester.path / "build" / "test-times.json").exists() == printed
