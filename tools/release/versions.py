"""Versions: x.y.z of a release, x.y.z.dev0 of a tree between releases."""

import re

_RELEASE = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")


def numbers(version: str) -> tuple[int, int, int] | None:
    """Return the numbers of a release; None for any other text.

    >>> numbers("1.20.3"), numbers("1.2"), numbers("v1.2.3"), numbers("1.2.0.dev0"), numbers("1.02.3")
    ((1, 20, 3), None, None, None, None)
    """
    match = _RELEASE.fullmatch(version)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def following(version: str) -> str:
    """Return the version of the tree after a release: the next minor version, on a support branch the next patch.

    >>> following("0.1.0"), following("0.1.4")
    ('0.2.0.dev0', '0.1.5.dev0')
    """
    result = numbers(version)
    assert result is not None, version
    major, minor, patch = result
    return f"{major}.{minor}.{patch + 1}.dev0" if patch else f"{major}.{minor + 1}.0.dev0"


def chart_version(version: str) -> str:
    """Return a version as Helm requires it (SemVer).

    >>> chart_version("0.2.0"), chart_version("0.2.0.dev0")
    ('0.2.0', '0.2.0-dev.0')
    """
    return re.sub(r"\.dev(\d+)$", r"-dev.\1", version)


def tag_of(version: str) -> str:
    """Return the git tag of a release."""
    return f"v{version}"
