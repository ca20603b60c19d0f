"""The files of a release, from a tagged tree: `python -m release.files` for the tag at HEAD; `make release-files` runs it.

Guarantees: the same tag gives the same bytes on each machine with the same Python and the versions of constraints.txt. The tree is
checked out beside the work tree, which stays as it is. The folder `build/release/VERSION` appears whole or not at all. No network is needed
beyond what `make venv` has cached.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import yaml
from pages import links

from release.archives import packed, repacked
from release.copies import CHART, ROOT, Facts, facts_of
from release.oci import chart_annotations, layout
from release.statement import base_image, checksums, provenance
from release.versions import tag_of

CONTAINERFILE = "deploy/Containerfile"
COPIED = (
    CONTAINERFILE,
    "deploy/crds.yaml",
    "deploy/cluster-api/infrastructure-components.yaml",
    "deploy/cluster-api/metadata.yaml",
)
"""Files that a release has as they are: the build of the image, and what kubectl and clusterctl read."""
LOCKS = ("constraints.txt", "deploy/requirements.txt", "deploy/requirements-build.txt")
READMES = ("README.md", "testkit/README.md")
SUMS = "SHA256SUMS"


class Refused(Exception):
    """A release that is refused, with the reason and the remedy."""


def run(folder: Path, *command: str, **environment: str) -> str:
    """Run a command in a folder and return its output; raises Refused with output and errors if it fails."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        umask=0o022,
    )
    if done.returncode:
        raise Refused(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr).strip()}")
    return done.stdout.rstrip()  # git status begins a line with a space


def git(folder: Path, *arguments: str) -> str:
    """Run git, and return its output."""
    return run(folder, "git", *arguments)


def folder_of(root: Path, version: str) -> Path:
    """Return the folder of the files of a release."""
    return root / "build" / "release" / version


@contextmanager
def checkout(root: Path, revision: str) -> Iterator[Path]:
    """Check out a revision in a temporary folder beside the work tree, with the environment of this program."""
    with tempfile.TemporaryDirectory(prefix="konverge-release-") as scratch:
        tree = Path(scratch) / "tree"
        git(root, "worktree", "add", "--quiet", "--detach", str(tree), revision)
        try:
            (tree / ".venv").symlink_to(sys.prefix)
            yield tree
        finally:
            git(root, "worktree", "remove", "--force", str(tree))


def build(tree: Path, out: Path, *, commit: str, moment: int, builder: str) -> None:
    """Write all files of a release into a folder; the tree changes: it is a checkout of `commit` that is thrown away."""
    facts = facts_of(tree)
    created = datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    base, digest = base_image((tree / CONTAINERFILE).read_text())
    out.mkdir(parents=True)
    for name in COPIED:
        (out / Path(name).name).write_bytes((tree / name).read_bytes())
    _chart(tree, out, commit, created, moment)
    (out / "image.txt").write_text(f"{facts.image}:{facts.version}\n")
    (out / "notes.txt").write_text(section((tree / "CHANGELOG.md").read_text(), facts.version))
    print(run(tree, sys.executable, "tools/sbom.py", str(out)))
    _packages(tree, out / "packages", facts, commit, created, moment)

    digests = {path.relative_to(out).as_posix(): _sha256(path) for path in sorted(out.rglob("*")) if path.is_file()}
    (out / SUMS).write_text(checksums(digests))
    materials = {f"{facts.repository}/blob/{tag_of(facts.version)}/{name}": _sha256(tree / name) for name in LOCKS}
    statement = provenance(
        digests,
        repository=facts.repository,
        tag=tag_of(facts.version),
        commit=commit,
        builder=builder,
        materials={**materials, base: digest},
    )
    (out / "provenance.json").write_text(json.dumps(statement, indent=2) + "\n")


def _packages(tree: Path, out: Path, facts: Facts, commit: str, created: str, moment: int) -> None:
    """Build sdists and wheels, whose READMEs have links that work elsewhere, and which record the commit."""
    page = f"{facts.repository}/blob/{tag_of(facts.version)}"
    for name in READMES:
        (tree / name).write_text(links.relinked(name, (tree / name).read_text(), lambda path: f"{page}/{path}"))
    built = tree / "cmd/konverged/built.py"
    text = built.read_text()
    for constant, value in (("COMMIT", commit), ("BUILD", created)):
        text = text.replace(f'{constant}: Final[str] = ""', f'{constant}: Final[str] = "{value}"')
    built.write_text(text)
    print("--> building the packages", flush=True)
    run(tree, ".ci/dist", str(out), SOURCE_DATE_EPOCH=str(moment))
    for name, folder in (("konverge", "."), ("konverge_testing", "testkit")):
        [wheel], [sdist] = out.glob(f"{name}-*.whl"), out.glob(f"{name}-*.tar.gz")
        print(run(tree, sys.executable, "tools/check_wheel.py", str(wheel), str(sdist), folder))
        sdist.write_bytes(repacked(sdist.read_bytes(), moment))


def _chart(tree: Path, out: Path, commit: str, created: str, moment: int) -> None:
    """Write the chart as `helm package` would, and as an OCI image layout."""
    chart = yaml.safe_load((tree / CHART).read_text())
    folder = (tree / CHART).parent
    names = git(folder, "ls-files").splitlines()
    archive = packed({f"{chart['name']}/{name}": ((folder / name).read_bytes(), False) for name in names}, moment)
    (out / f"{chart['name']}-{chart['version']}.tgz").write_bytes(archive)
    for name, content in layout(chart, archive, chart_annotations(chart, created, commit)).items():
        path = out / "chart" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def section(changelog: str, version: str) -> str:
    """Return the entries of a version; raises Refused if the changelog has no section of it."""
    match = re.search(rf"^## \[{re.escape(version)}\].*\n(?P<text>(?:(?!## \[).*\n?)*)", changelog, re.MULTILINE)
    if match is None:
        raise Refused(f"CHANGELOG.md has no section of {version}: make release writes it")
    return match["text"].strip() + "\n"


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main(root: Path = ROOT) -> int:
    """Build the files of the tag at HEAD; return the exit code."""
    version = facts_of(root).version
    out = folder_of(root, version)
    try:
        commit = git(root, "rev-parse", "HEAD")
        if tag_of(version) not in git(root, "tag", "--points-at", "HEAD").splitlines():
            raise Refused(
                f"HEAD has no tag {tag_of(version)}: git checkout the tag of a release, or make release VERSION="
            )
        if out.exists():
            raise Refused(f"{out} exists: remove it")
        with checkout(root, commit) as tree:
            ready = tree.parent / "files"
            moment = int(git(root, "show", "--no-patch", "--format=%ct", "HEAD"))
            build(tree, ready, commit=commit, moment=moment, builder=os.environ.get("RELEASE_BUILDER", ""))
            publish(ready, out)
    except (Refused, LookupError, ValueError) as error:
        print(f"no files: {error}", file=sys.stderr)
        return 1
    print(f"--> {out} has the files of {tag_of(version)}")
    return 0


def publish(ready: Path, out: Path) -> None:
    """Move a folder into place at once, from another file system too."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent) as near:
        run(out.parent, "cp", "-R", str(ready), f"{near}/files")
        Path(near, "files").rename(out)


if __name__ == "__main__":
    sys.exit(main())
