"""Reasons to refuse a release, each with the remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from release.copies import Facts
from release.versions import numbers, tag_of

_REPOSITORY = re.compile(r"https://[^\s/]+(?:/[^\s/]+)+")
_REGISTRY = re.compile(r"[a-z0-9.-]+\.[a-z0-9-]+(?::\d+)?(?:/[a-z0-9._-]+)*")
"""A host and a path in lower case, as names of images are; the host has a dot, or a name would be a path on Docker Hub."""


@dataclass(frozen=True)
class Situation:
    """The state of the repository before a release."""

    facts: Facts
    branch: str
    changed: tuple[str, ...]
    """Files that git status names."""
    tags: frozenset[str]
    merged: frozenset[str]
    """Tags in the history of HEAD."""
    fragments: int
    changelog: str
    folder_exists: bool


def handwritten(version: str) -> str:
    """Return the heading of a section that people wrote before the release, as that of 0.1.0."""
    return f"## [{version}] - not released\n"


def dated(changelog: str, version: str, date: str) -> str:
    """Return a changelog whose section of the version, written by hand, has its date."""
    return changelog.replace(handwritten(version), f"## [{version}] - {date}\n", 1)


def refusals(version: str, situation: Situation) -> Iterator[str]:
    """Yield each reason."""
    wanted = numbers(version)
    if wanted is None:
        yield f"VERSION={version} is no version x.y.z: make release VERSION=0.2.0"
        return
    if situation.branch not in ("main", f"support/{wanted[0]}.{wanted[1]}"):
        branch = situation.branch or "no branch"
        yield f"HEAD is on {branch}: git switch main, or support/{wanted[0]}.{wanted[1]} for a patch release"
    if situation.changed:
        yield f"the tree has changes: commit or remove them ({', '.join(situation.changed[:5])})"
    yield from _of_versions(version, wanted, situation)
    yield from _of_the_changelog(version, situation)
    yield from _of_addresses(situation.facts)
    if situation.folder_exists:
        yield f"build/release/{version} exists: remove it"


def _of_addresses(facts: Facts) -> Iterator[str]:
    rows = (
        ("repository", facts.repository, _REPOSITORY, "https://forge.example.com/team/konverge"),
        ("registry", facts.registry, _REGISTRY, "registry.example.com/team"),
    )
    for name, address, form, example in rows:
        if not form.fullmatch(address):
            yield (
                f'{name} = "{address}" in [tool.release] of pyproject.toml is no address: write for instance {name} = "{example}" '
                "(no slash at its end), run make generate, and commit (docs/maintaining.md)"
            )


def _of_versions(version: str, wanted: tuple[int, int, int], situation: Situation) -> Iterator[str]:
    tag = tag_of(version)
    if tag in situation.tags:
        yield f"the tag {tag} exists: choose the next version (a published version is never replaced: docs/maintaining.md)"
        return
    former = [result for name in situation.merged if (result := numbers(name.removeprefix("v")))]
    if former and wanted <= max(former):
        last = ".".join(map(str, max(former)))
        yield f"{version} is not above {last}, the last release of this branch: choose a higher version"


def _of_the_changelog(version: str, situation: Situation) -> Iterator[str]:
    others = re.findall(r"^## \[(.+)\] - not released$", situation.changelog, re.MULTILINE)
    if handwritten(version) in situation.changelog:
        if situation.fragments:
            yield (
                f"CHANGELOG.md has a section of {version} that was written by hand, and changes.d/ has {situation.fragments} fragments: "
                "add to the section what users need to know, and delete the fragments (changes.d/README.md)"
            )
    elif others:
        yield f"CHANGELOG.md has a section of {others[0]} that is not released: release {others[0]} first"
    elif not situation.fragments:
        yield "changes.d/ has no fragment: a release without a change for users needs no version; add the missing fragments"
