from pathlib import Path

import pytest
from click.testing import CliRunner

from konverge_testing.binaries import APISERVER, ETCD, KUBERNETES_VERSION, PROGRAMS, Cache
from konverge_testing.commands import ConsoleProgress, control_plane


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    """An empty cache on a machine without Go and without a usable network."""
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setattr("konverge_testing.binaries.SYSTEM_DIRECTORY", tmp_path / "system")
    monkeypatch.setenv("KONVERGE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("KONVERGE_ENVTEST_MIRROR", "nowhere://")
    monkeypatch.setenv("PATH", "")
    return Cache(tmp_path / "cache")


def put(cache: Cache, *names: str) -> None:
    directory = cache.version(KUBERNETES_VERSION)
    directory.mkdir(parents=True)
    for name in names:
        (directory / name).touch(mode=0o755)


def test_an_install_with_nothing_to_do_says_what_there_is(cache: Cache) -> None:
    put(cache, *PROGRAMS)
    result = CliRunner().invoke(control_plane, ["install"])
    assert result.exit_code == 0
    assert result.output.startswith(f"control plane: the cache, Kubernetes {KUBERNETES_VERSION} built from source")


def test_an_install_that_lacks_only_the_controller_manager_works_and_says_so(cache: Cache) -> None:
    put(cache, ETCD, APISERVER, "kubectl")
    result = CliRunner().invoke(control_plane, ["install"])
    assert result.exit_code == 0
    assert "not installed: kube-controller-manager can only be built from source" in result.output


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["install", "--from", "go"], 1, "no `go` in PATH"),
        (["install", "--from", "envtest"], 1, "is no http address"),
        (
            ["install"],
            1,
            "is no http address; etcd, kube-apiserver, kube-controller-manager, kubectl can only be built",
        ),
        (["install", "--from", "heaven"], 2, "'heaven' is not one of"),
        (["run", "--nonsense"], 2, "No such option"),
        (["run"], 1, "konverge control-plane install"),
        (["--help"], 0, "plain processes on loopback"),
    ],
)
def test_a_failed_step_says_why_and_how_it_failed(cache: Cache, arguments: list[str], code: int, words: str) -> None:
    result = CliRunner().invoke(control_plane, arguments, terminal_width=200)
    assert result.exit_code == code
    assert words in result.output
    assert "Traceback" not in result.output


def test_progress_on_a_terminal_rewrites_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    progress = ConsoleProgress(live=True)
    progress.begin(1, 2, "build etcd")
    progress.tick("3 s")
    progress.end("done")
    shown = capsys.readouterr().err
    assert shown.split("\r\x1b[K")[1:3] == ["[1/2] build etcd ...", "[1/2] build etcd ... 3 s"]
    assert shown.endswith("[1/2] build etcd done (0 s)\n")
    assert shown.count("\n") == 1


def test_progress_in_a_log_is_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("konverge.clock.monotonic", lambda: now)
    progress = ConsoleProgress(live=False)
    progress.begin(1, 2, "build etcd")
    for now in (10.0, 29.0, 31.0, 45.0, 62.0):
        progress.tick(f"{now:g} s")
    progress.end("done")
    assert capsys.readouterr().err.splitlines() == [
        "[1/2] build etcd ...",
        "[1/2] build etcd ... 31 s",
        "[1/2] build etcd ... 62 s",
        "[1/2] build etcd done (1 min 2 s)",
    ]


def test_progress_that_ends_without_a_step_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    ConsoleProgress(live=False).end("interrupted")
    assert capsys.readouterr().err == ""
