"""The arithmetic of `make go-suites`: what counts as a spec, as passed, and as a difference. The suites themselves are not run here."""

from typing import Any

import pytest
from suites.run import Ran, differences, outcomes, subtests, table


def spec(name: str, state: str, message: str = "", node: str = "It") -> dict[str, Any]:
    failure = {"Failure": {"Message": message}} if message else {}
    return {
        "LeafNodeType": node,
        "ContainerHierarchyTexts": ["Client"],
        "LeafNodeText": name,
        "State": state,
        **failure,
    }


def test_specs_that_were_skipped_and_set_up_nodes_are_not_counted() -> None:
    reports: list[dict[str, Any]] = [
        {"SpecReports": [spec("reads", "passed"), spec("pends", "pending"), spec("hides", "skipped")]},
        {"SpecReports": [spec("", "failed", "no server", node="BeforeSuite"), spec("writes", "panicked")]},
        {"SpecReports": None},
    ]
    assert outcomes(reports).specs == {"Client reads": "", "Client writes": "panicked"}


def test_two_specs_of_one_name_are_two_specs_and_keep_their_order() -> None:
    found = outcomes([{"SpecReports": [spec("reads", "passed"), spec("reads", "failed", "Expected\n  true")]}])
    assert found.specs == {"Client reads": "", "Client reads (2)": "Expected true"}


def test_subtests_of_plain_go_tests_are_counted_by_their_leaves() -> None:
    said = """
--- FAIL: TestMapper (2.10s)
    --- FAIL: TestMapper/new=true (1.00s)
        --- PASS: TestMapper/new=true/caches_groups (0.50s)
        --- FAIL: TestMapper/new=true/fails (0.50s)
--- PASS: TestSuite (0.00s)
"""
    assert subtests(said) == {"TestMapper new=true caches groups": "", "TestMapper new=true fails": "failed"}


@pytest.mark.parametrize(
    ("real", "memory", "expected"),
    [
        ({"a": ""}, {"a": ""}, {}),
        ({"a": ""}, {"a": "slow"}, {"a": "slow"}),
        ({"a": ""}, {}, {"a": "it did not run"}),
        ({"a": "no"}, {"a": "no"}, {}),
        ({"a": "no"}, {"a": ""}, {}),
    ],
    ids=["alike", "fails in memory", "missing in memory", "fails on both", "fails on the real server alone"],
)
def test_difference_is_a_spec_that_passes_only_on_the_real_server(
    real: dict[str, str], memory: dict[str, str], expected: dict[str, str]
) -> None:
    assert differences(Ran(real), Ran(memory)) == expected


def test_table_counts_the_common_passes_in_memory_and_names_the_differences() -> None:
    runs = {
        "client": {"real": Ran({"a": "", "b": "", "c": "no"}), "memory": Ran({"a": "", "b": "slow", "c": ""})},
        "cache": {"real": Ran({"d": ""}), "memory": Ran(broken="no port")},
    }
    lines = list(table(runs))
    assert [line.split() for line in lines[1:4]] == [
        ["client", "2", "1", "1"],
        ["cache", "1", "0", "1"],
        ["all", "3", "1", "2"],
    ]
    assert lines[4:] == [
        "\nclient: b\n    slow",
        "\ncache did not run on the memory server:\nno port",
        "\ncache: d\n    it did not run",
    ]
