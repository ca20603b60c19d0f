"""deploy/Containerfile: every distribution is locked with its hash, and its steps, run without a container, end in a daemon that works.

The steps are run in a folder in place of the image's root, with a Python of the image's version and the wheels that the cache holds: no
container runtime and no network are needed. If the tests run as root and the kernel allows a new mount namespace, the last stage is
run too: as the image's user, with a root of its own that is read-only and holds nothing but what the stage copies, a Python and its shared
libraries. Not shown: the base image itself, which adds the programs of a small Debian.
"""

import json
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from image_lock import BUILD, RUNTIME, lock, python_version
from operators import Operator

from konverge.client import Client, ClientConfig
from konverge.crds import all_manifests
from konverge_testing import ApiServer, install_crds
from konverge_testing.apiserver.requests import ADMIN
from konverge_testing.kubeconfigs import write_kubeconfig

ROOT = Path(__file__).parents[2]
LOCKED = re.compile(r"^(?P<name>[a-z0-9-]+)==(?P<version>\S+) \\$", re.MULTILINE)
PIP = re.compile(r"\bpip\b.* (?:install|wheel) ")


def stages() -> list[list[tuple[str, str]]]:
    """Return the instructions of each stage of the Containerfile, its FROM first."""
    text = (ROOT / "deploy/Containerfile").read_text().replace("\\\n", " ")
    lines = [line.strip().partition(" ") for line in text.splitlines() if line.strip() and not line.startswith("#")]
    found: list[list[tuple[str, str]]] = []
    for word, _, rest in lines:
        if word == "FROM":
            found.append([])
        if found:
            found[-1].append((word, rest))
    return found


def test_whatever_pip_installs_is_locked_with_a_hash_or_built_here() -> None:
    runs = [rest for stage in stages() for word, rest in stage if word == "RUN" and PIP.search(rest)]
    assert runs
    for run in runs:
        assert "--no-index" in run or {"--require-hashes", "--only-binary :all:"} <= {
            found for found in ("--require-hashes", "--only-binary :all:") if found in run
        }, run


def test_the_last_stage_runs_nothing_and_copies_the_environment_alone() -> None:
    last = stages()[-1]
    assert [rest for word, rest in last if word == "COPY"] == ["--from=build /opt/konverge /opt/konverge"]
    assert [word for word, _ in last] == [
        "FROM",
        "COPY",
        "ARG",
        "ARG",
        "ENV",
        "ENV",
        "USER",
        "EXPOSE",
        "ENTRYPOINT",
        "CMD",
    ]
    assert ("USER", "65532:65532") in last


@pytest.mark.parametrize("name", [RUNTIME, BUILD])
def test_the_lock_has_the_versions_that_the_tests_ran_with(name: str) -> None:
    text = (ROOT / name).read_text()
    pinned = dict(line.lower().replace("_", "-").split("==") for line in constraints())
    locked = {match["name"]: match["version"] for match in LOCKED.finditer(text)}
    assert locked
    assert {name: pinned.get(name.replace("_", "-")) for name in locked} == locked, "make lock"
    assert len(re.findall(r"^\S+==", text, re.MULTILINE)) == len(locked)


def constraints() -> list[str]:
    return [line for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line]


def test_the_lock_has_every_dependency_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for name, wanted in ((RUNTIME, project["project"]["dependencies"]), (BUILD, project["build-system"]["requires"])):
        locked = {match["name"] for match in LOCKED.finditer((ROOT / name).read_text())}
        assert {re.split(r"[<>=]", one)[0] for one in wanted} <= locked, "make lock"


def test_a_lock_has_the_hashes_of_each_architecture_once() -> None:
    def report(digest: str) -> dict[str, object]:
        download = {"archive_info": {"hashes": {"sha256": digest}}}
        return {"install": [{"metadata": {"name": "A_b.C", "version": "1"}, "download_info": download}]}

    [comment, *lines] = lock([report("2"), report("1"), report("1")]).splitlines()
    assert comment.startswith("#")
    assert lines == ["a-b-c==1 \\", "    --hash=sha256:1 \\", "    --hash=sha256:2"]


# --- the steps ------------------------------------------------------------------------------------------------------------------


def find_python(version: str) -> Path | None:
    """Return an interpreter of this version that can create environments."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = shutil.which(f"python{version}")
    for candidate in (*([Path(found)] if found else []), *sorted(versions.glob(f"{version}.*/bin/python3"))):
        tried = subprocess.run([candidate, "-c", "import ensurepip, venv"], capture_output=True, check=False)
        if tried.returncode == 0:
            return candidate
    return None


class Steps:
    """Runs the instructions of a stage in a folder in place of the image's root."""

    def __init__(self, root: Path, python: Path, wheels: Path) -> None:
        self._root = root
        self._here = root
        (root / "bin").mkdir()
        (root / "bin" / "python").symlink_to(python)
        self._environment = {
            "PATH": f"{root}/bin:/usr/bin:/bin",
            "HOME": str(root),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(wheels),
            "PIP_NO_COMPILE": "1",  # the image compiles; here compilation would take most of the time
        }

    def run(self, stage: list[tuple[str, str]]) -> None:
        """Run a stage, without the instructions of the builder itself (FROM)."""
        for word, rest in stage:
            if word != "FROM":
                getattr(self, f"_{word.lower()}")(rest)

    def _workdir(self, rest: str) -> None:
        self._here = self._root / rest.lstrip("/")
        self._here.mkdir()

    def _env(self, rest: str) -> None:
        self._environment |= dict(one.split("=") for one in rest.split())

    def _copy(self, rest: str) -> None:
        *sources, target = rest.split()
        for source in map(ROOT.joinpath, sources):
            into = self._here / target
            if source.is_dir():
                shutil.copytree(source, into, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                into.mkdir(exist_ok=True)
                shutil.copy2(source, into)

    def _run(self, rest: str) -> None:
        command = re.sub(r"(?<!\S)/opt/", f"{self._root}/opt/", rest)
        done = subprocess.run(
            ["sh", "-c", command], cwd=self._here, env=self._environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


def download(python: Path, wheels: Path, *options: str) -> bool:
    """Complete the cache with what both stages install: the image's Python may differ from the Python of every environment here."""
    wheels.mkdir(parents=True, exist_ok=True)
    locks = [word for name in (RUNTIME, BUILD) for word in ("--requirement", str(ROOT / name))]
    command: list[str | Path] = [
        python,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        *locks,
    ]
    command += ["--only-binary", ":all:", "--find-links", wheels, "--dest", wheels, *options]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The image's /opt/konverge, built by the first stage's steps."""
    version = python_version()
    wheels = Path(
        os.environ.get("KONVERGE_CACHE", Path.home() / ".cache/konverge"),
        "wheels",
        f"cpython-{version.replace('.', '')}",
    )
    python = find_python(version)
    if python is None:
        pytest.skip(f"no Python {version}, the image's, on this machine")
    if not (download(python, wheels, "--no-index") or download(python, wheels)):
        pytest.skip(f"the image's wheels for Python {version} are not in the cache and could not be downloaded")
    root = tmp_path_factory.mktemp("image")
    Steps(root, python, wheels).run(stages()[0])
    yield root / "opt/konverge"
    shutil.rmtree(root)


def state(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (found.st_mtime_ns, found.st_size) for path in folder.rglob("*") for found in [path.lstat()]}


@pytest.mark.linux
@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_documented_steps_end_in_a_ready_daemon_that_writes_no_file(image: Path, tmp_path: Path) -> None:
    environment = dict(one.split("=") for word, rest in stages()[-1] if word == "ENV" for one in rest.split())
    environment |= {"HOME": "/nonexistent", "TMPDIR": "/nonexistent", "KONVERGE_METRICS": "127.0.0.1:0"}
    environment |= {"KONVERGE_HEALTH": "127.0.0.1:0", "KONVERGE_DEBUG": "127.0.0.1:0", "KONVERGE_LOG_FORMAT": "json"}
    program = str(image / "bin/konverge")
    listed = subprocess.run(
        [image / "bin/python", "-c", "import importlib.metadata as m; print(*(d.name for d in m.distributions()))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.lower()
    assert not {"pip", "setuptools", "pytest", "mypy"} & set(listed.split())
    before = state(image)
    async with ApiServer() as server, server.http(tls=True) as shell:
        environment["KONVERGE_KUBECONFIG"] = str(write_kubeconfig(tmp_path / "kubeconfig", shell))
        config = await ClientConfig.from_kubeconfig(environment["KONVERGE_KUBECONFIG"])
        async with Client(config, name="test") as client:
            await install_crds(client, all_manifests())
        daemon = Operator(("--controllers", "quota"), tmp_path / "log", environment=environment, program=program)
        await daemon.start()
        await daemon.ready()
        assert await daemon.stop() == 0
    assert state(image) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kubeconfig", "log"]


# --- the last stage -------------------------------------------------------------------------------------------------------------

SANDBOX = """\
set -eu
mount -t tmpfs -o mode=755 root "$ROOT"
for path in $BOUND; do
    mkdir -p "$ROOT$(dirname "$path")"
    if [ -d "$path" ]; then mkdir -p "$ROOT$path"; else touch "$ROOT$path"; fi
    mount --bind "$path" "$ROOT$path"
    mount -o remount,bind,ro "$ROOT$path"
done
mkdir -p "$ROOT/proc" "$ROOT/tmp"
mount -t proc -o ro proc "$ROOT/proc" 2>/dev/null || mount --bind /proc "$ROOT/proc"
mount -o remount,ro "$ROOT"
"""
"""Makes a root directory of the given paths alone, all read-only; needs the right to mount."""

PROBE = """\
import json, os, shutil, sys
written = []
for folder, below, _ in os.walk("/"):
    if folder == "/":
        below.remove("proc")
    if folder in ("/lib", "/usr/lib"):  # one mount each, and many folders
        below.clear()
    try:
        os.close(os.open(os.path.join(folder, "new"), os.O_CREAT | os.O_WRONLY))
        written.append(folder)
    except OSError:
        pass
status = dict(line.rstrip().split(":", 1) for line in open("/proc/self/status"))
programs = [name for name in sys.argv[1:] if shutil.which(name, path="/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")]
print(json.dumps({"written": written, "programs": programs, "user": os.getresuid() + os.getresgid(),
                  "groups": os.getgroups(), "capabilities": status["CapEff"].strip()}))
"""
PROGRAMS = (
    "cc",
    "gcc",
    "c++",
    "clang",
    "cc1",
    "as",
    "ld",
    "make",
    "cargo",
    "rustc",
    "go",
    "pip",
    "git",
    "apt-get",
    "sh",
)


class LastStage:
    """Runs programs of the last stage in a root of their own, as the image's user. `offered` are additional visible paths."""

    def __init__(self, image: Path, folder: Path, *offered: Path) -> None:
        self._user = next(rest for word, rest in stages()[-1] if word == "USER")
        python = image / "bin/python"
        prefix = subprocess.run(
            [python, "-c", "import sys; print(sys.base_prefix)"], capture_output=True, text=True, check=True
        )
        bound = [image, image.parents[1] / "bin", Path(prefix.stdout.strip()), *offered]
        bound += [
            Path(path) for path in ("/lib", "/lib64", "/usr/lib", "/dev/null", "/dev/urandom") if Path(path).exists()
        ]
        root, setup, self.program = folder / "root", folder / "setup", folder / "konverge"
        root.mkdir()
        setup.write_text(
            f"ROOT={root}\nBOUND='{' '.join(str(path.absolute()) for path in bound)}'\n{SANDBOX}"
            f'exec {shutil.which("chroot", path="/usr/sbin:/usr/bin:/sbin:/bin")} --userspec={self._user} --groups= "$ROOT" "$@"\n'
        )
        self.run = ("unshare", "--mount", "--propagation", "private", "sh", str(setup))
        self.program.write_text(f'#!/bin/sh\nexec {" ".join(self.run)} {image}/bin/konverge "$@"\n')
        self.program.chmod(0o755)

    def ask(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*self.run, *command], capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def last_stage(image: Path, tmp_path: Path) -> LastStage:
    tmp_path.chmod(0o755)
    stage = LastStage(image, tmp_path, tmp_path)
    tried = stage.ask(str(image / "bin/python"), "-c", "")
    if tried.returncode:
        pytest.skip(
            f"no root of its own for the last stage: this takes root, and a kernel that lets it mount: {tried.stderr.strip()}"
        )
    return stage


@pytest.mark.linux
@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_last_stage_runs_as_its_user_on_a_read_only_root(
    image: Path, last_stage: LastStage, tmp_path: Path
) -> None:
    found = last_stage.ask(str(image / "bin/python"), "-c", PROBE, *PROGRAMS)
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout) == {
        "written": [],
        "programs": [],
        "user": [65532] * 6,
        "groups": [],
        "capabilities": "0000000000000000",
    }
    environment = dict(one.split("=") for word, rest in stages()[-1] if word == "ENV" for one in rest.split())
    free_ports = dict.fromkeys(("KONVERGE_METRICS", "KONVERGE_HEALTH", "KONVERGE_DEBUG"), "127.0.0.1:0")
    environment |= {**free_ports, "KONVERGE_LOG_FORMAT": "json"}
    mount = tmp_path / "serviceaccount"
    async with ApiServer(tokens={"the-token": ADMIN}) as server, server.http(tls=True) as shell:
        assert shell.authority is not None
        mount.mkdir()
        for name, content in (
            ("token", b"the-token"),
            ("ca.crt", shell.authority.certificate),
            ("namespace", b"default"),
        ):
            (mount / name).write_bytes(content)
        url = urlsplit(shell.url)
        environment |= {"KUBERNETES_SERVICE_HOST": str(url.hostname), "KUBERNETES_SERVICE_PORT": str(url.port)}
        environment["KONVERGE_SERVICE_ACCOUNT"] = str(mount)
        async with Client(server.config(), name="test") as client:
            await install_crds(client, all_manifests())
        program = str(last_stage.program)
        daemon = Operator(("--controllers", "quota"), tmp_path / "log", environment=environment, program=program)
        async with daemon.running_for():
            await daemon.ready()
            assert daemon.process is not None
            status = Path(f"/proc/{daemon.process.pid}/status").read_text()
            assert re.search(r"^Uid:(\s+65532){4}$", status, re.MULTILINE)
            assert await daemon.stop() == 0
