"""An operator as a process: choice of controllers, signals, probes."""

import asyncio
import resource
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from click.testing import CliRunner
from hosted import daemon_settings

from konverge import program
from konverge.daemon.engine import (
    Probes,
    Signals,
    _settled,
    informer_checks,
    manager_settings,
    process_metrics,
    raise_file_limit,
)
from konverge.daemon.families import left_out
from konverge.daemon.main import program as command_line
from konverge.daemon.programs import fill, load_build
from konverge.daemon.settings import Overrides, Settings
from konverge.errors import UsageError
from konverge.kinds import kind
from konverge.objects import Object
from konverge.outcome import Done, Outcome
from konverge.runtime import Context, Controller, Manager
from konverge.runtime.http.health import Check

CONFIG_MAP = kind("v1", "ConfigMap")


class Idle:
    async def reconcile(self, object_: Object, ctx: Context[Object], /) -> Outcome:
        return Done()


def two(manager: Manager) -> None:
    for name in ("first", "second"):
        manager.add(Controller.of(CONFIG_MAP).named(name).writes_status_as(name).with_(timeout=7).reconciled_by(Idle()))


async def controllers(settings: Settings, build: Any = two) -> dict[str, Controller[Any]]:
    manager = Manager("test")
    await fill(manager, build, settings)
    return {spec.name: spec for spec in manager.controllers}


# --- which controllers --------------------------------------------------------------------------------------------------------


async def test_without_a_choice_all_controllers_run_as_they_are() -> None:
    found = await controllers(Settings())
    assert [(name, spec.numbers.timeout, spec.numbers.concurrency) for name, spec in found.items()] == [
        ("first", 7, 1),
        ("second", 7, 1),
    ]


async def test_chosen_controllers_run_alone() -> None:
    assert list(await controllers(Settings(controllers=("second",)))) == ["second"]


async def test_a_family_is_chosen_by_its_name_or_by_its_controllers() -> None:
    both = ["applicationinstance", "operation"]
    clouds = ["nextcloudpool", "nextcloud", "nextcloud-orphans", "nextcloudinstance"]
    for names, there in {("apps",): both, ("applicationinstance",): both[:1], ("pools",): clouds}.items():
        assert list(await controllers(daemon_settings(controllers=names), None)) == there


async def test_family_that_needs_the_whole_cluster_is_skipped_in_single_namespaces() -> None:
    everywhere = list(await controllers(daemon_settings(), None))
    assert {"applicationinstance", "resourcepool", "resourcepoolclaim"} <= set(everywhere)
    here = daemon_settings(namespace="web")
    assert left_out(here) == ("clusters", "machines", "pools", "quota", "workspaces")
    assert not {"resourcepool", "resourcepoolclaim"} & set(await controllers(here, None))
    with pytest.raises(UsageError, match="run it without --namespace"):
        await controllers(daemon_settings(namespace="web", controllers=("quota",)), None)


async def test_controller_settings_override_general_settings_that_override_the_declaration() -> None:
    settings = Settings(
        reconcile=Overrides(timeout=60, concurrency=2), controller={"second": Overrides(timeout=90, debounce=1)}
    )
    found = await controllers(settings)
    numbers = {
        name: (spec.numbers.timeout, spec.numbers.concurrency, spec.numbers.debounce) for name, spec in found.items()
    }
    assert numbers == {"first": (60, 2, 0), "second": (90, 2, 1)}


@pytest.mark.parametrize(
    "settings",
    [Settings(controllers=("nobody",)), Settings(controller={"nobody": Overrides()})],
    ids=["choice", "numbers"],
)
async def test_unknown_controller_is_an_error_that_lists_the_known_controllers(settings: Settings) -> None:
    with pytest.raises(UsageError, match="no controller 'nobody' here; controllers: first, second"):
        await controllers(settings)


def test_a_process_may_open_as_many_files_as_the_kernel_allows() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, hard - 1) if hard > 0 else soft, hard))
        raise_file_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(("soft", "expected"), [(256, 10_240), (20_000, 20_000)])
def test_a_kernel_that_refuses_its_hard_limit_gets_the_limit_of_macos(
    soft: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = [soft, resource.RLIM_INFINITY]

    def refuse_infinity(_which: int, wanted: tuple[int, int]) -> None:
        if wanted[0] == resource.RLIM_INFINITY:
            raise ValueError("current limit exceeds maximum limit")
        limits[:] = wanted

    monkeypatch.setattr(resource, "getrlimit", lambda _which: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", refuse_infinity)
    raise_file_limit()
    assert limits == [expected, resource.RLIM_INFINITY]


def test_settings_reach_the_manager() -> None:
    found = manager_settings(Settings(namespace="web", drain=3, strict=True, stall=0.5))
    assert (found.namespace, found.drain, found.strict, found.stall_seconds) == ("web", 3, True, 0.5)
    assert manager_settings(Settings()).namespace is None


class Coming:
    """A manager that becomes ready, or ends before."""

    def __init__(self, *, ready: bool) -> None:
        self.event = asyncio.Event()
        self.is_ready = ready

    async def ready(self, timeout: float | None) -> bool:
        assert timeout is None
        await self.event.wait()
        return self.is_ready


@pytest.mark.parametrize("ready", [True, False])
async def test_process_settles_once_all_is_ready_unless_the_manager_ends_first(ready: bool) -> None:
    manager, settled = Coming(ready=ready), list[str]()
    waiting = asyncio.ensure_future(_settled(manager, lambda: settled.append("settled")))  # type: ignore[arg-type]  # only its readiness is used
    await asyncio.sleep(0)
    assert settled == []
    manager.event.set()
    await waiting
    assert settled == (["settled"] if ready else [])


# --- a user's module ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [])

    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize("target", ["my_operator:build", "my_operator", "my_operator.py", "my_operator.py:build"])
def test_an_operator_in_this_folder_is_found_by_module_or_file(folder: Path, target: str) -> None:
    (folder / "my_operator.py").write_text("def build(manager):\n    return 'built'\n")
    name, build = load_build(target)
    assert name == "my-operator"
    assert build(Manager("x")) == "built"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("class CronJob:\n    pass\n", "CronJob is a class; expected a function build"),
        ("def CronJob():\n    pass\n", "CronJob is not to be called with one argument; expected a function build"),
    ],
    ids=["class", "no argument"],
)
def test_target_that_is_not_a_build_function_is_refused_with_expected_form(folder: Path, text: str, said: str) -> None:
    (folder / "cronjob.py").write_text(text)
    result = CliRunner().invoke(command_line, ["rbac", "cronjob:CronJob"])
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())


def test_a_module_with_a_failing_import_keeps_its_own_error(folder: Path) -> None:
    (folder / "half_operator.py").write_text("import no_such_thing_at_all\n")
    with pytest.raises(ModuleNotFoundError, match="no_such_thing_at_all"):
        load_build("half_operator:build")


# --- signals ------------------------------------------------------------------------------------------------------------------


async def test_the_first_signal_stops_and_the_second_leaves_at_once() -> None:
    left: list[int] = []
    stop = asyncio.Event()
    signals = Signals(stop, leave=left.append)
    with structlog.testing.capture_logs() as logs:
        signals.received(signal.SIGTERM)
        assert (stop.is_set(), left) == (True, [])
        signals.received(signal.SIGINT)
    assert left == [128 + signal.SIGINT]
    assert [entry["signal"] for entry in logs] == ["SIGTERM", "SIGINT"]


def test_signal_handlers_are_removed_at_the_end() -> None:
    async def handled() -> None:
        stop = asyncio.Event()
        with Signals(stop).handled():
            signal.raise_signal(signal.SIGTERM)
            async with asyncio.timeout(10):
                await stop.wait()

    before = signal.getsignal(signal.SIGTERM)
    with structlog.testing.capture_logs():
        asyncio.run(handled())
    assert signal.getsignal(signal.SIGTERM) == before


# --- probes -------------------------------------------------------------------------------------------------------------------


async def test_a_manager_that_does_not_run_is_alive_and_not_ready() -> None:
    stop = asyncio.Event()
    probes = Probes(Manager("x"), stop)
    assert list(probes.live()) == []
    assert list(probes.ready()) == [Check("manager", "starting")]
    probes.phase = "running"
    assert list(probes.ready()) == [Check("manager")]
    stop.set()
    assert list(probes.ready()) == [Check("manager", "stopping")]


@pytest.mark.parametrize(
    ("informer", "expected"),
    [
        ({"synced": True, "problem": None}, Check("informer/Secret")),
        ({"synced": False, "problem": None}, Check("informer/Secret", "the first list is not complete yet")),
        (
            {"synced": False, "problem": {"cause": "Forbidden", "message": "add a rule"}},
            Check("informer/Secret", "add a rule"),
        ),
        (
            {"synced": False, "problem": {"cause": "NotServed", "message": "x"}},
            Check("informer/Secret", "", "not served"),
        ),
        (
            {"synced": True, "problem": {"cause": "Unreachable", "message": "x"}},
            Check("informer/Secret", "", "Unreachable; what it has is from before"),
        ),
    ],
    ids=["synced", "listing", "forbidden", "not served", "out of date"],
)
def test_each_informer_is_one_readiness_check(informer: dict[str, Any], expected: Check) -> None:
    assert list(informer_checks([{"selection": "Secret", **informer}])) == [expected]


def test_the_process_is_measured_beside_the_manager() -> None:
    names = {family.name for family in process_metrics().registry.collect()}
    assert {"process_cpu_seconds", "python_gc_objects_collected", "controller_runtime_reconcile"} <= names


# --- kv.run -------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def _no_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBECONFIG", "KONVERGE_CONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.usefixtures("_no_cluster")
def test_program_without_a_cluster_ends_with_one_line_and_exit_code_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("konverge.daemon.engine.set_up", lambda _settings: None)
    with pytest.raises(SystemExit) as ended:
        program.run(two, name="test")
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith("error: no configuration for an API server was found")


@pytest.mark.usefixtures("_no_cluster")
def test_a_program_with_bad_settings_ends_with_exit_code_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KONVERGE_DRAIN", "long")
    with pytest.raises(SystemExit) as ended:
        program.run(two, name="test")
    assert ended.value.code == 2
    assert "drain (variable KONVERGE_DRAIN)" in capsys.readouterr().err
