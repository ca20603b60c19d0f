from dataclasses import replace
from itertools import chain, combinations, product

import pytest

from konverge_testing.binaries import APISERVER, CONTROLLER_MANAGER, ETCD, KUBECTL, PROGRAMS
from konverge_testing.install_plan import (
    ENVTEST_PROGRAMS,
    Build,
    Clean,
    Fetch,
    FoundPrograms,
    InstallPlan,
    Source,
    Step,
    plan_install,
)

ALL = frozenset(PROGRAMS)
ARCHIVE = frozenset(ENVTEST_PROGRAMS)
NONE: frozenset[str] = frozenset()
BUILDS = tuple(map(Build, PROGRAMS))


@pytest.mark.parametrize(
    ("source", "seen", "steps", "reason"),
    [
        (Source.GO, FoundPrograms(go=True), (*BUILDS, Clean()), "from nothing, everything is built"),
        (
            Source.GO,
            FoundPrograms(go=True, built=frozenset({ETCD}), build_cache=True),
            (*BUILDS[1:], Clean()),
            "an interrupted build goes on",
        ),
        (Source.GO, FoundPrograms(go=True, built=ALL, build_cache=True), (Clean(),), "only the clearing up is left"),
        (Source.GO, FoundPrograms(go=True, built=ALL), (), "nothing is left"),
        (
            Source.GO,
            FoundPrograms(go=True, given=ALL, fetched=ARCHIVE),
            (*BUILDS, Clean()),
            "asked for a build, so build",
        ),
        (Source.ENVTEST, FoundPrograms(archive=True), (Fetch(),), "the archive is one step"),
        (
            Source.ENVTEST,
            FoundPrograms(archive=True, fetched=frozenset({ETCD})),
            (Fetch(),),
            "half unpacked is not done",
        ),
        (Source.ENVTEST, FoundPrograms(archive=True, fetched=ARCHIVE), (), "nothing is left"),
        (
            Source.AUTO,
            FoundPrograms(go=True, archive=True),
            (Fetch(), Build(CONTROLLER_MANAGER), Clean()),
            "least work first",
        ),
        (Source.AUTO, FoundPrograms(archive=True), (Fetch(),), "without Go the archive must do"),
        (Source.AUTO, FoundPrograms(go=True), (*BUILDS, Clean()), "no archive for this platform"),
        (
            Source.AUTO,
            FoundPrograms(go=True, archive=True, fetch_failed="no network"),
            (*BUILDS, Clean()),
            "then build",
        ),
        (Source.AUTO, FoundPrograms(go=True, archive=True, given=ALL), (), "what the variable offers is not installed"),
        (
            Source.AUTO,
            FoundPrograms(go=True, archive=True, given=ARCHIVE),
            (Build(CONTROLLER_MANAGER), Clean()),
            "only what is missing",
        ),
        (
            Source.AUTO,
            FoundPrograms(go=True, archive=True, built=frozenset({ETCD}), fetched=frozenset({APISERVER})),
            (Fetch(), Build(CONTROLLER_MANAGER), Clean()),
            "etcd and kube-apiserver come from one place",
        ),
        (
            Source.AUTO,
            FoundPrograms(go=True, archive=True, fetch_failed="x", built=frozenset({ETCD, APISERVER})),
            (Build(CONTROLLER_MANAGER), Build(KUBECTL), Clean()),
            "the rest of a build",
        ),
    ],
)
def test_an_install_plans_only_the_missing_steps(
    source: Source, seen: FoundPrograms, steps: tuple[Step, ...], reason: str
) -> None:
    assert plan_install(seen, source).steps == steps, reason


@pytest.mark.parametrize(
    ("source", "seen", "lacking", "usable", "words"),
    [
        (Source.GO, FoundPrograms(), PROGRAMS, False, "no `go` in PATH"),
        (Source.ENVTEST, FoundPrograms(), ENVTEST_PROGRAMS, False, "no envtest archive for this platform"),
        (Source.ENVTEST, FoundPrograms(archive=True, fetch_failed="refused"), ENVTEST_PROGRAMS, False, "refused"),
        (Source.AUTO, FoundPrograms(archive=True, fetch_failed="refused"), PROGRAMS, False, "refused; "),
        (Source.AUTO, FoundPrograms(archive=True), (CONTROLLER_MANAGER,), True, "no `go` in PATH"),
        (Source.AUTO, FoundPrograms(given=ARCHIVE), (CONTROLLER_MANAGER,), True, "no `go` in PATH"),
    ],
)
def test_a_program_that_cannot_be_installed_is_refused_with_the_reason(
    source: Source, seen: FoundPrograms, lacking: tuple[str, ...], usable: bool, words: str
) -> None:
    plan = plan_install(seen, source)
    assert (plan.lacking, plan.usable) == (lacking, usable)
    assert words in plan.why


def carried_out(seen: FoundPrograms, step: Step) -> FoundPrograms:
    match step:
        case Fetch():
            return replace(seen, fetched=seen.fetched | ARCHIVE)
        case Build(program):
            return replace(seen, built=seen.built | {program}, build_cache=True)
        case Clean():
            return replace(seen, build_cache=False)


def every_machine() -> list[FoundPrograms]:
    subsets = [frozenset(some) for some in chain.from_iterable(combinations(PROGRAMS, n) for n in range(5))]
    given = (NONE, ARCHIVE, ALL)
    fetched = [one for one in subsets if one <= ARCHIVE]
    return [
        FoundPrograms(
            given=theirs,
            built=built,
            fetched=parts,
            go=bool(bits & 1),
            archive=bool(bits & 2),
            build_cache=bool(bits & 4),
        )
        for theirs, built, parts, bits in product(given, subsets, fetched, range(8))
    ]


def run_to_the_end(seen: FoundPrograms, source: Source) -> tuple[FoundPrograms, InstallPlan, list[Step]]:
    done: list[Step] = []
    while (plan := plan_install(seen, source)).steps:
        assert len(done) < 10, f"no end in sight: {done}"
        done.append(plan.steps[0])
        seen = carried_out(seen, plan.steps[0])
    return seen, plan, done


@pytest.mark.parametrize("source", list(Source))
def test_from_every_state_of_a_machine_the_steps_end_as_first_planned(source: Source) -> None:
    for seen in every_machine():
        first = plan_install(seen, source)
        end, last, done = run_to_the_end(seen, source)
        assert tuple(done) == first.steps, seen
        assert last.lacking == first.lacking, seen
        if source is Source.GO and seen.go:
            assert end.built == ALL, seen
            assert not end.build_cache, seen
        if source is Source.AUTO and seen.go:
            assert last.usable, seen
            assert end.given | end.built | end.fetched == ALL, seen


def test_every_title_names_what_is_done_and_its_version() -> None:
    assert Build(ETCD).title.startswith("build etcd 3.")
    assert Build(APISERVER).title.startswith("build kube-apiserver 1.")
    assert "1.36" in Fetch().title
    assert Clean().title
