from pathlib import Path

import pytest

from konverge_testing.binaries import APISERVER, ETCD, KUBECTL, KUBERNETES_VERSION, PROGRAMS, Cache
from konverge_testing.gobuild import build_command, build_environment, module_directory

OUTPUT = Path("/cache/.etcd.part")


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_has_a_module_with_pinned_checksums(program: str) -> None:
    directory = module_directory(program)
    package = build_command(program, OUTPUT)[-1]
    module = (directory / "go.mod").read_text()
    assert package in module, "the tool directive is what keeps go.sum complete for this package"
    assert (directory / "go.sum").stat().st_size > 1000


@pytest.mark.parametrize("program", [APISERVER, KUBECTL])
def test_the_version_of_kubernetes_is_stamped(program: str) -> None:
    command = build_command(program, OUTPUT)
    flags = command[command.index("-ldflags") + 1]
    assert f"-X k8s.io/component-base/version.gitVersion=v{KUBERNETES_VERSION}" in flags
    assert "-X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36" in flags


def test_a_build_never_changes_the_modules_and_writes_to_its_target() -> None:
    command = build_command(ETCD, OUTPUT)
    assert command[:2] == ["go", "build"]
    assert "-mod=readonly" in command
    assert command[command.index("-o") + 1] == str(OUTPUT)


def test_a_build_is_for_this_machine_with_a_cache_of_its_own() -> None:
    theirs = {
        "PATH": "/bin",
        "GOOS": "plan9",
        "GOARCH": "mips",
        "GOCACHE": "/theirs",
        "GOWORK": "/w",
        "CGO_ENABLED": "1",
    }
    assert build_environment(theirs, Cache(Path("/c"))) == {
        "PATH": "/bin",
        "GOCACHE": "/c/go-build",
        "GOWORK": "off",
        "CGO_ENABLED": "0",
    }
