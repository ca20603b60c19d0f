from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from konverge_testing.binaries import (
    APISERVER,
    CONTROLLER_MANAGER,
    ENVTEST_VERSION,
    ETCD,
    KUBERNETES_VERSION,
    PROGRAMS,
    Cache,
)
from konverge_testing.failures import InstallFailed
from konverge_testing.install import Machine, Progress, elapsed_words, look, run_install
from konverge_testing.install_plan import ENVTEST_PROGRAMS, Build, Clean, Fetch, FoundPrograms, Source, Step
from konverge_testing.placing import placed


@dataclass
class Notebook:
    lines: list[str] = field(default_factory=list)

    def begin(self, number: int, total: int, title: str) -> None:
        self.lines.append(f"{number}/{total} {' '.join(title.split()[:2])}")

    def tick(self, detail: str) -> None:
        self.lines.append(detail)

    def end(self, words: str) -> None:
        self.lines.append(words)

    def note(self, line: str) -> None:
        self.lines.append(line)


@dataclass
class Pretended:
    """A machine in memory; a step in `failing` fails with that error, and the others succeed."""

    seen: FoundPrograms
    failing: dict[Step, BaseException] = field(default_factory=dict)
    idle: bool = False
    done: list[Step] = field(default_factory=list)

    def look(self) -> FoundPrograms:
        return self.seen

    def execute(self, step: Step, progress: Progress) -> None:
        if step in self.failing:
            raise self.failing[step]
        self.done.append(step)
        match step:
            case _ if self.idle:
                pass
            case Fetch():
                self.seen = replace(self.seen, fetched=frozenset(ENVTEST_PROGRAMS))
            case Build(program):
                self.seen = replace(self.seen, built=self.seen.built | {program}, build_cache=True)
            case Clean():
                self.seen = replace(self.seen, build_cache=False)


def test_a_failed_fetch_is_followed_by_builds_and_the_count_starts_anew() -> None:
    machine = Pretended(FoundPrograms(go=True, archive=True), {Fetch(): InstallFailed("no network here")})
    notebook = Notebook()
    assert run_install(Source.AUTO, machine, notebook).lacking == ()
    assert machine.done == [*map(Build, PROGRAMS), Clean()]
    assert notebook.lines[:4] == ["1/3 fetch etcd,", "failed", "no network here", "1/5 build etcd"]
    assert notebook.lines[-2:] == ["5/5 remove the", "done"]


def test_a_failed_fetch_without_go_fails_with_both_reasons() -> None:
    machine = Pretended(FoundPrograms(archive=True), {Fetch(): InstallFailed("no network here")})
    with pytest.raises(InstallFailed, match=r"no network here; .*no `go` in PATH"):
        run_install(Source.AUTO, machine, Notebook())


def test_a_fetch_without_go_succeeds_and_says_what_is_lacking() -> None:
    plan = run_install(Source.AUTO, Pretended(FoundPrograms(archive=True)), Notebook())
    assert plan.lacking == (CONTROLLER_MANAGER,)
    assert plan.usable


def test_a_failed_build_ends_the_install_and_the_next_one_continues_there() -> None:
    machine = Pretended(FoundPrograms(go=True), {Build(CONTROLLER_MANAGER): InstallFailed("compiler says no")})
    notebook = Notebook()
    with pytest.raises(InstallFailed, match="compiler says no"):
        run_install(Source.GO, machine, notebook)
    assert machine.done == [Build(ETCD), Build(APISERVER)]
    assert notebook.lines[-1] == "failed"

    machine.failing.clear()
    machine.done.clear()
    run_install(Source.GO, machine, Notebook())
    assert machine.done[0] == Build(CONTROLLER_MANAGER)


def test_an_interrupted_install_continues_with_the_next_step() -> None:
    machine = Pretended(FoundPrograms(go=True), {Build(APISERVER): KeyboardInterrupt()})
    with pytest.raises(KeyboardInterrupt):
        run_install(Source.GO, machine, Notebook())
    machine.failing.clear()
    run_install(Source.GO, machine, Notebook())
    assert machine.done == [*map(Build, PROGRAMS), Clean()]


def test_a_complete_machine_is_left_alone() -> None:
    machine = Pretended(FoundPrograms(go=True, archive=True, built=frozenset(PROGRAMS)))
    notebook = Notebook()
    run_install(Source.AUTO, machine, notebook)
    assert (machine.done, notebook.lines) == ([], [])


def test_a_step_that_only_seems_to_succeed_ends_the_install() -> None:
    with pytest.raises(InstallFailed, match="its result is not there"):
        run_install(Source.GO, Pretended(FoundPrograms(go=True), idle=True), Notebook())


@pytest.fixture(autouse=True)
def _no_system_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide this machine's system folder from the tests."""
    monkeypatch.setattr("konverge_testing.binaries.SYSTEM_DIRECTORY", tmp_path / "system")


def put(directory: Path, *names: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        (directory / name).touch(mode=0o755)


def test_the_programs_in_all_places_are_found(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    environment = {"KONVERGE_CACHE": str(cache.root), "KUBEBUILDER_ASSETS": str(tmp_path / "assets"), "PATH": ""}
    assert look(environment, cache, archive=False) == FoundPrograms()

    put(tmp_path / "assets", ETCD, APISERVER)
    put(cache.version(KUBERNETES_VERSION), ETCD)
    put(cache.version(ENVTEST_VERSION), *ENVTEST_PROGRAMS)
    put(tmp_path / "bin", "go")
    cache.go_build.mkdir()
    assert look({**environment, "PATH": str(tmp_path / "bin")}, cache, archive=True) == FoundPrograms(
        given=frozenset({ETCD, APISERVER}),
        built=frozenset({ETCD}),
        fetched=frozenset(ENVTEST_PROGRAMS),
        go=True,
        archive=True,
        build_cache=True,
    )


def test_a_named_folder_without_kube_apiserver_gives_nothing(tmp_path: Path) -> None:
    put(tmp_path / "assets", ETCD)
    environment = {"KUBEBUILDER_ASSETS": str(tmp_path / "assets"), "KONVERGE_CACHE": str(tmp_path / "cache")}
    assert look(environment, Cache(tmp_path / "cache"), archive=False).given == frozenset()


def test_clearing_up_removes_the_build_cache_and_nothing_else(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    put(cache.go_build / "ab", "object")
    put(cache.version(KUBERNETES_VERSION), ETCD)
    Machine({}, cache).execute(Clean(), Notebook())
    assert not cache.go_build.exists()
    assert (cache.version(KUBERNETES_VERSION) / ETCD).exists()


def test_the_lock_can_be_taken_again_after_it_was_released(tmp_path: Path) -> None:
    machine, notebook = Machine({}, Cache(tmp_path)), Notebook()
    for _ in range(2):
        with machine.locked(notebook):
            pass
    assert notebook.lines == []


def test_a_program_appears_whole_and_executable(tmp_path: Path) -> None:
    target = tmp_path / "versions" / ETCD
    with placed(target) as partial:
        partial.write_bytes(b"program")
        assert not target.exists()
    assert target.read_bytes() == b"program"
    assert os.access(target, os.X_OK)
    assert [path.name for path in target.parent.iterdir()] == [ETCD]


def test_an_interruption_leaves_the_old_program_and_no_part_of_the_new(tmp_path: Path) -> None:
    target = tmp_path / ETCD
    target.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), placed(target) as partial:
        partial.write_bytes(b"half")
        raise KeyboardInterrupt
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == [ETCD]


@pytest.mark.parametrize(("seconds", "words"), [(0.4, "0 s"), (59.9, "59 s"), (60, "1 min 0 s"), (231, "3 min 51 s")])
def test_durations_are_written_for_people(seconds: float, words: str) -> None:
    assert elapsed_words(seconds) == words
