import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from konverge_testing import gobuild
from konverge_testing.binaries import (
    APISERVER,
    CONTROLLER_MANAGER,
    ENVTEST_VERSION,
    ETCD,
    ETCD_VERSION,
    KUBECTL,
    KUBERNETES_VERSION,
    PROGRAMS,
    SYSTEM_DIRECTORY,
    Cache,
    find_binaries,
    is_program,
    minor_version,
    places,
)
from konverge_testing.failures import BinariesMissing

HOME = Path("/home/jane")
ASSETS = Path("/assets")
CACHE = Cache(HOME / ".cache" / "konverge")
BUILT = CACHE.version(KUBERNETES_VERSION)
FETCHED = CACHE.version(ENVTEST_VERSION)
ENVTEST = (ETCD, APISERVER, KUBECTL)


def world(content: Mapping[Path, tuple[str, ...]]) -> Callable[[Path], bool]:
    return lambda path: path.name in content.get(path.parent, ())


@pytest.mark.parametrize(
    ("content", "taken", "reason"),
    [
        ({ASSETS: PROGRAMS, SYSTEM_DIRECTORY: PROGRAMS, BUILT: PROGRAMS}, ASSETS, "the variable wins"),
        ({SYSTEM_DIRECTORY: PROGRAMS, BUILT: PROGRAMS}, SYSTEM_DIRECTORY, "then the system's folder"),
        ({BUILT: PROGRAMS, FETCHED: ENVTEST}, BUILT, "then the cache, what was built first"),
        ({FETCHED: ENVTEST}, FETCHED, "then what was fetched"),
        ({BUILT: (ETCD,), FETCHED: ENVTEST}, FETCHED, "a build that stopped half way does not count"),
        ({ASSETS: (ETCD,), BUILT: PROGRAMS}, BUILT, "a folder without kube-apiserver does not count"),
    ],
)
def test_the_first_place_with_etcd_and_kube_apiserver_is_taken(
    content: dict[Path, tuple[str, ...]], taken: Path, reason: str
) -> None:
    found = find_binaries({"KUBEBUILDER_ASSETS": str(ASSETS)}, home=HOME, exists=world(content))
    assert (found.etcd, found.kube_apiserver) == (taken / ETCD, taken / APISERVER), reason
    assert str(taken) in found.describe(), reason


def test_missing_controller_manager_is_taken_from_the_cache_with_a_notice() -> None:
    exists = world({ASSETS: ENVTEST, BUILT: PROGRAMS})
    found = find_binaries({"KUBEBUILDER_ASSETS": str(ASSETS)}, home=HOME, exists=exists)
    assert found.kube_apiserver == ASSETS / APISERVER
    assert found.kube_controller_manager == BUILT / CONTROLLER_MANAGER
    assert found.kubectl == ASSETS / KUBECTL
    assert f"{CONTROLLER_MANAGER} lent by the cache" in found.describe()


def test_missing_program_is_none_and_the_message_names_the_remedy() -> None:
    found = find_binaries({}, home=HOME, exists=world({FETCHED: (ETCD, APISERVER)}))
    assert (found.kube_controller_manager, found.kubectl) == (None, None)
    assert found.describe().count("konverge control-plane install") == 2


def test_a_named_folder_that_is_passed_over_is_mentioned() -> None:
    exists = world({ASSETS: (KUBECTL,), BUILT: PROGRAMS})
    words = find_binaries({"KUBEBUILDER_ASSETS": str(ASSETS)}, home=HOME, exists=exists).describe()
    assert "passed over KUBEBUILDER_ASSETS=/assets, which has no etcd and no kube-apiserver" in words


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({}, ("KUBEBUILDER_ASSETS (not set)", str(SYSTEM_DIRECTORY), str(CACHE.control_plane))),
        ({"KUBEBUILDER_ASSETS": "/a", "KONVERGE_CACHE": "/c"}, ("KUBEBUILDER_ASSETS (/a)", "/c/control-plane")),
    ],
)
def test_without_any_program_one_line_names_the_places_and_the_remedy(
    environment: dict[str, str], named: tuple[str, ...]
) -> None:
    with pytest.raises(BinariesMissing) as caught:
        find_binaries(environment, home=HOME, exists=world({}))
    words = str(caught.value)
    assert "\n" not in words
    assert words.endswith("konverge control-plane install")
    for place in named:
        assert place in words


def test_the_cache_is_in_the_home_folder_unless_a_variable_says_otherwise() -> None:
    assert Cache.of({}, home=HOME) == CACHE
    assert Cache.of({"KONVERGE_CACHE": "/elsewhere"}, home=HOME).root == Path("/elsewhere")
    assert places({"KONVERGE_CACHE": "/elsewhere"}, home=HOME)[-1].directory.is_relative_to("/elsewhere")


def test_only_an_executable_file_is_a_program(tmp_path: Path) -> None:
    file = tmp_path / ETCD
    file.touch(mode=0o644)
    assert not is_program(file)
    file.chmod(0o755)
    assert is_program(file)
    assert not is_program(tmp_path)
    assert not is_program(tmp_path / "absent")


def test_relative_folders_are_made_absolute_because_programs_start_elsewhere() -> None:
    environment = {"KUBEBUILDER_ASSETS": "assets", "KONVERGE_CACHE": "cache"}
    assert all(place.directory.is_absolute() for place in places(environment, home=HOME))


@pytest.mark.parametrize(
    ("output", "version"),
    [("Kubernetes v1.36.3\n", (1, 36)), ("Kubernetes v0.0.0-master+$Format:%H$", (0, 0)), ("what?", None)],
)
def test_the_minor_version_is_read_from_what_a_program_prints(output: str, version: tuple[int, int] | None) -> None:
    assert minor_version(output) == version


@pytest.mark.parametrize(
    ("program", "requirement"),
    [
        (APISERVER, f"k8s.io/kubernetes v{KUBERNETES_VERSION}"),
        (ETCD, f"go.etcd.io/etcd/server/v3 v{ETCD_VERSION}"),
    ],
)
def test_the_version_that_is_announced_is_the_one_that_go_mod_pins(program: str, requirement: str) -> None:
    text = (gobuild.module_directory(program) / "go.mod").read_text()
    assert re.search(rf"^(require |\t){re.escape(requirement)}( // indirect)?$", text, re.MULTILINE)


def test_every_staging_module_is_replaced_by_the_version_of_the_same_release() -> None:
    text = (gobuild.module_directory(APISERVER) / "go.mod").read_text()
    replaced = dict(re.findall(r"^\t(k8s\.io/\S+) => \1 v(\S+)$", text, re.MULTILINE))
    assert len(replaced) == 33
    assert set(replaced.values()) == {"0" + KUBERNETES_VERSION.removeprefix("1")}
    required = set(re.findall(r"^\t(k8s\.io/\S+) v0\.0\.0(?:-0*)?(?: // indirect)?$", text, re.MULTILINE))
    assert required <= set(replaced), "a staging module without a replace cannot be fetched"


def test_the_etcd_that_is_pinned_can_stream_lists() -> None:
    assert tuple(map(int, ETCD_VERSION.split("."))) > (3, 5, 13), "older ones answer WatchList with an error event"
    assert KUBERNETES_VERSION.rpartition(".")[0] == ENVTEST_VERSION.rpartition(".")[0], (
        "one minor version for both ways"
    )
