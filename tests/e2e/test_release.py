"""A whole release in a clone of the repository: commits, tag, packages, chart, SBOM and checksums, without a network.

A clone has what is committed only: commit before a run.
"""

import hashlib
import http.server
import json
import os
import re
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path

import pytest
from go_programs import HELM, go_program

from konverge_testing.failures import BinariesMissing

ROOT = Path(__file__).parents[2]
IDENTITY = {f"GIT_{who}_{what}": f"release@{what}" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
PAGE = "https://forge.example.com/team/konverge"

pytestmark = pytest.mark.timeout(900)


def run(folder: Path, *command: str, code: int = 0) -> str:
    environment = {**os.environ, **IDENTITY, "PYTHONPATH": str(folder / "tools")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def git(folder: Path, *arguments: str) -> str:
    return run(folder, "git", *arguments).strip()


def release(folder: Path, version: str, code: int = 0) -> str:
    return run(folder, sys.executable, "-m", "release", version, code=code)


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text, path
    path.write_text(text.replace(old, new, 1))


def state(folder: Path) -> tuple[str, ...]:
    """Everything that a failed release must not change."""
    files = sorted(str(path) for path in folder.glob("build/release/*"))
    return (git(folder, "show-ref"), git(folder, "status", "--porcelain"), git(folder, "worktree", "list"), *files)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone after the release of 0.1.0, of a project that has public addresses."""
    folder = tmp_path_factory.mktemp("release") / "clone"
    run(ROOT, "git", "clone", "--quiet", "--shared", str(ROOT), str(folder))
    git(folder, "checkout", "--quiet", "-B", "main")
    for name in git(folder, "tag").splitlines():
        git(folder, "tag", "--delete", name)
    git(folder, "tag", "v0.1.0")
    change(folder / "pyproject.toml", 'repository = ""', f'repository = "{PAGE}"')
    change(folder / "pyproject.toml", 'registry = ""', 'registry = "registry.example.com/team"')
    changelog = folder / "CHANGELOG.md"
    changelog.write_text(changelog.read_text().replace(" - not released", " - 2030-01-01"))
    (folder / "changes.d/099.feature.md").write_text("Releases appear in the changelog.\n")
    run(folder, sys.executable, "-m", "release.copies")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Publish the project")
    return folder


def test_a_refused_release_names_each_reason_and_changes_nothing(clone: Path, tmp_path: Path) -> None:
    """The project without addresses, and with changes that are not committed."""
    folder = tmp_path / "refused"
    run(clone, "git", "clone", "--quiet", "--shared", str(clone), str(folder))
    change(folder / "pyproject.toml", f'repository = "{PAGE}"', 'repository = ""')
    change(folder / "pyproject.toml", 'registry = "registry.example.com/team"', 'registry = ""')
    change(folder / "README.md", "# konverge", "# Konverge")
    before = state(folder)
    printed = release(folder, "0.2.0", code=1)
    for reason in (
        "README.md, pyproject.toml)",
        'repository = "" in [tool.release]',
        'registry = "" in [tool.release]',
    ):
        assert reason in printed
    assert state(folder) == before


def test_a_failed_build_leaves_nothing(clone: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    run(clone, "git", "clone", "--quiet", "--shared", str(clone), str(broken))
    (broken / ".ci/dist").write_text("#!/usr/bin/env bash\necho no wheels here\nexit 1\n")
    git(broken, "commit", "--quiet", "--all", "--message", "Break the build")
    before = state(broken)
    assert "no wheels here" in release(broken, "0.2.0", code=1)
    assert state(broken) == before


@pytest.fixture(scope="module")
def released(clone: Path) -> Path:
    """The folder of the files of the release 0.2.0."""
    assert "git push --atomic origin main v0.2.0" in release(clone, "0.2.0")
    return clone / "build/release/0.2.0"


def test_a_release_is_a_tagged_commit_before_the_next_version(clone: Path, released: Path) -> None:
    assert git(clone, "cat-file", "-t", "v0.2.0") == "tag"
    assert git(clone, "log", "--format=%s", "-3").splitlines() == [
        "Begin 0.3.0.dev0",
        "Release 0.2.0",
        "Publish the project",
    ]
    commit = git(clone, "rev-parse", "v0.2.0^{commit}")
    assert git(clone, "rev-parse", "HEAD~1") == commit
    assert git(clone, "status", "--porcelain") == ""
    assert len(git(clone, "worktree", "list").splitlines()) == 1
    assert 'version = "0.2.0"' in git(clone, "show", "v0.2.0:pyproject.toml")
    assert 'version = "0.3.0.dev0"' in (clone / "pyproject.toml").read_text()
    changelog = git(clone, "show", "v0.2.0:CHANGELOG.md")
    assert re.search(
        r"## \[0\.2\.0\] - \d{4}-\d\d-\d\d\n(?:(?!## \[).*\n)*- Releases appear in the changelog\.", changelog
    )
    assert "\n### Next release\n" not in git(clone, "show", "v0.2.0:docs/guide/upgrade.md")
    assert {path.name for path in (clone / "changes.d").iterdir()} == {"README.md", "template.md"}
    assert (clone / "tests/e2e/upgrade/previous.txt").read_text().split()[0] == commit
    assert "Releases appear in the changelog" in (released / "notes.txt").read_text()


def test_a_second_release_of_the_version_is_refused(clone: Path, released: Path) -> None:
    before = state(clone)
    assert "the tag v0.2.0 exists" in release(clone, "0.2.0", code=1)
    assert state(clone) == before


def test_the_tag_gives_the_same_bytes_again(clone: Path, released: Path, tmp_path: Path) -> None:
    """As the forge builds: from a clone of the tag."""
    forge = tmp_path / "forge"
    run(clone, "git", "clone", "--quiet", "--branch", "v0.2.0", str(clone), str(forge))
    run(forge, sys.executable, "-m", "release.files")
    again = forge / "build/release/0.2.0"
    assert (again / "SHA256SUMS").read_text() == (released / "SHA256SUMS").read_text()
    assert (again / "provenance.json").read_text() == (released / "provenance.json").read_text()


def test_packages_record_their_commit_and_link_outside_of_themselves(clone: Path, released: Path) -> None:
    names = {path.name for path in (released / "packages").iterdir()}
    assert names == {
        f"{name}-0.2.0{kind}" for name in ("konverge", "konverge_testing") for kind in (".tar.gz", "-py3-none-any.whl")
    }
    commit = git(clone, "rev-parse", "v0.2.0^{commit}")
    with zipfile.ZipFile(released / "packages/konverge-0.2.0-py3-none-any.whl") as wheel:
        assert f'COMMIT: Final[str] = "{commit}"' in wheel.read("konverge/daemon/built.py").decode()
    for name in ("konverge", "konverge_testing"):
        with zipfile.ZipFile(released / f"packages/{name}-0.2.0-py3-none-any.whl") as wheel:
            metadata = message_from_bytes(wheel.read(f"{name}-0.2.0.dist-info/METADATA"))
        assert f"Source, {PAGE}" in metadata.get_all("Project-URL", [])
        readme = str(metadata.get_payload())
        targets = re.findall(r"\]\(([^)]+)\)", readme)
        assert targets
        assert [target for target in targets if not target.startswith("https://")] == []
        pages = [target.removeprefix(f"{PAGE}/blob/v0.2.0/").partition("#")[0] for target in targets if PAGE in target]
        assert pages
        assert all((clone / page).exists() for page in pages), pages
        with tarfile.open(released / f"packages/{name}-0.2.0.tar.gz") as sdist:
            assert len({(member.mtime, member.uid, member.uname) for member in sdist}) == 1


def test_checksums_provenance_and_sbom_are_of_the_files(clone: Path, released: Path) -> None:
    run(released, "sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
    named = {line.partition("  ")[2] for line in (released / "SHA256SUMS").read_text().splitlines()}
    files = {path.relative_to(released).as_posix() for path in released.rglob("*") if path.is_file()}
    assert named == files - {"SHA256SUMS", "provenance.json"}
    statement = json.loads((released / "provenance.json").read_text())
    assert {subject["name"] for subject in statement["subject"]} == named
    [source, *_] = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert source["digest"] == {"gitCommit": git(clone, "rev-parse", "v0.2.0^{commit}")}
    assert json.loads((released / "konverge.cdx.json").read_text())["metadata"]["component"]["version"] == "0.2.0"


@pytest.fixture
def helm() -> str:
    try:
        return str(go_program(HELM, os.environ, tell=None))
    except BinariesMissing:
        pytest.skip("no helm in the cache: python tools/go_programs.py")


def test_helm_renders_the_manifests_that_the_release_stamped(clone: Path, helm: str) -> None:
    """The version was written into deploy/ without helm."""
    run(clone, sys.executable, "tools/chart_files.py", "--check")
    run(clone, sys.executable, "tools/render_deploy.py")
    assert git(clone, "status", "--porcelain") == ""


@pytest.fixture
def registry(released: Path) -> Iterator[str]:
    """A registry that serves the layout of the chart, as `skopeo copy` would have pushed it."""
    index = json.loads((released / "chart/index.json").read_text())
    [manifest] = index["manifests"]
    tag = manifest["annotations"]["org.opencontainers.image.ref.name"]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            reference = self.path.rpartition("/")[2]
            digest = manifest["digest"] if reference == tag else reference
            path = released / "chart/blobs" / digest.replace(":", "/")
            if path.is_file():
                content = path.read_bytes()
                self.send_response(200)
                if digest == manifest["digest"]:
                    self.send_header("Content-Type", manifest["mediaType"])
                self.send_header("Docker-Content-Digest", digest)
            else:
                content = b"{}"
                self.send_response(200 if self.path == "/v2/" else 404)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        do_HEAD = do_GET  # noqa: N815  # the name is of http.server

        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_helm_pulls_the_chart_as_an_artifact(registry: str, released: Path, helm: str, tmp_path: Path) -> None:
    run(tmp_path, helm, "pull", f"oci://{registry}/charts/konverge", "--version", "0.2.0", "--plain-http")
    pulled = (tmp_path / "konverge-0.2.0.tgz").read_bytes()
    assert hashlib.sha256(pulled).digest() == hashlib.sha256((released / "konverge-0.2.0.tgz").read_bytes()).digest()
    run(tmp_path, helm, "lint", "--strict", "konverge-0.2.0.tgz")
    shown = run(tmp_path, helm, "template", "konverge", "konverge-0.2.0.tgz")
    assert 'image: "registry.example.com/team/konverge:0.2.0"' in shown
    assert f"home: {PAGE}" in run(tmp_path, helm, "show", "chart", "konverge-0.2.0.tgz")
