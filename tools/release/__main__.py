"""Release up to the push: `python -m release VERSION`; `make release VERSION=x.y.z` runs it.

Guarantees: commits are created in a checkout beside the work tree. The branch, the tag and the folder of files appear at the end, after
everything was built; a failure leaves none of them. Nothing is sent anywhere.
"""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from konverge.clock import wall_clock
from release import files
from release.copies import PROJECT, ROOT, facts_of, stamp, with_version
from release.files import Refused, git
from release.refusals import Situation, dated, handwritten, refusals
from release.versions import following, tag_of

PREVIOUS = "tests/e2e/upgrade/previous.txt"
UPGRADES = "docs/guide/upgrade.md"


def situation_of(root: Path, version: str) -> Situation:
    """Read the state of the repository."""
    return Situation(
        facts=facts_of(root),
        branch=git(root, "branch", "--show-current"),
        changed=tuple(line[3:] for line in git(root, "status", "--porcelain").splitlines()),
        tags=frozenset(git(root, "tag").splitlines()),
        merged=frozenset(git(root, "tag", "--merged", "HEAD").splitlines()),
        fragments=sum(path.name not in ("README.md", "template.md") for path in (root / "changes.d").iterdir()),
        changelog=(root / "CHANGELOG.md").read_text(),
        folder_exists=files.folder_of(root, version).exists(),
    )


def set_version(tree: Path, version: str) -> None:
    """Write a version into pyproject.toml and into its copies."""
    project = tree / PROJECT
    project.write_text(with_version(project.read_text(), version))
    stamp(tree)


def commit(tree: Path, message: str) -> str:
    """Commit all changes, and return the commit."""
    git(tree, "add", "--update")
    git(tree, "commit", "--quiet", "--message", message)
    return git(tree, "rev-parse", "HEAD")


def write_changelog(tree: Path, version: str, date: str) -> None:
    """Give the section of the version its date, or write it from the fragments; name the version in the notes for upgrades."""
    changelog = tree / "CHANGELOG.md"
    text = changelog.read_text()
    if handwritten(version) in text:
        changelog.write_text(dated(text, version, date))
    else:
        files.run(tree, ".venv/bin/towncrier", "build", "--yes", "--version", version, "--date", date)
    notes = tree / UPGRADES
    notes.write_text(notes.read_text().replace("\n### Next release\n", f"\n### {version}\n", 1))


def release(root: Path, version: str) -> None:
    """Commit, build and tag the release; raises Refused."""
    reasons = list(refusals(version, situation_of(root, version)))
    if reasons:
        raise Refused("\n".join(f"- {reason}" for reason in reasons))
    tag = tag_of(version)
    with files.checkout(root, "HEAD") as tree:
        set_version(tree, version)
        write_changelog(tree, version, wall_clock().strftime("%Y-%m-%d"))
        released = commit(tree, f"Release {version}")
        moment = int(git(tree, "show", "--no-patch", "--format=%ct", released))
        files.build(tree, tree.parent / "files", commit=released, moment=moment, builder="")
        git(tree, "reset", "--quiet", "--hard", released)
        set_version(tree, following(version))
        remark = (tree / PREVIOUS).read_text().partition("#")[2]
        (tree / PREVIOUS).write_text(f"{released}  #{remark}")
        begun = commit(tree, f"Begin {following(version)}")
        former, folder = git(root, "rev-parse", "HEAD"), files.folder_of(root, version)
        try:
            files.publish(tree.parent / "files", folder)
            git(root, "merge", "--quiet", "--ff-only", begun)
            git(root, "tag", "--annotate", "--message", f"konverge {version}", tag, released)
        except Refused:
            shutil.rmtree(folder, ignore_errors=True)
            git(root, "reset", "--quiet", "--keep", former)
            raise


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Release a version; return the exit code."""
    version = arguments[0] if len(arguments) == 1 else ""
    try:
        release(root, version)
    except (Refused, LookupError, ValueError) as error:
        print(f"no release:\n{error}", file=sys.stderr)
        return 1
    branch = git(root, "branch", "--show-current")
    print(f"--> {tag_of(version)} is committed, tagged and built into {files.folder_of(root, version)}.")
    print("    Publish it (docs/maintaining.md):")
    print(f"    git push --atomic origin {branch} {tag_of(version)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
