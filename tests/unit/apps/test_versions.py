"""SemVer as charts use it."""

import random

import pytest

from konverge.reconcilers.shared.helm_release.versions import VersionRange, parse, same


@pytest.mark.parametrize("text", ["1.2.3", "v1.2.3", "0.0.0", "1.2.3-rc.1", "1.2.3+build.5", "1.2.3-alpha-1.0+a-b"])
def test_exact_versions_are_parsed(text: str) -> None:
    assert parse(text) == parse(text.removeprefix("v"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "1.2",
        "1.2.x",
        "^1.2.3",
        ">=1.2.3",
        "1.2.3 ",
        "01.2.3",
        "1.2.3-",
        "1.2.3-01",
        "latest",
        "1.2.3+",
        "1." + "9" * 300,
    ],
)
def test_anything_but_an_exact_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no exact version"):
        parse(text)


def test_versions_are_ordered_as_semver_says() -> None:
    order = [
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-beta",
        "1.0.0-beta.2",
        "1.0.0-beta.11",
        "1.0.0-rc.1",
        "1.0.0",
        "1.0.1",
        "1.10.0",
        "2.0.0",
    ]
    versions = [parse(text) for text in order]
    shuffled = random.Random(7).sample(versions, len(versions))
    assert sorted(shuffled) == versions


@pytest.mark.parametrize(
    ("reported", "desired", "oci", "equal"),
    [
        ("1.0.0", "1.0.0", False, True),
        ("v1.0.0", "1.0.0", False, True),
        ("1.0.0+ca03b1e9e415", "1.0.0", True, True),
        ("1.0.0+ca03b1e9e415", "1.0.0+build", True, True),
        ("1.0.0+ca03b1e9e415", "1.0.0", False, False),
        ("1.0.0+build", "1.0.0+build", False, True),
        ("1.0.1", "1.0.0", True, False),
        ("1.0.0-rc.1", "1.0.0", True, False),
        ("", "1.0.0", True, False),
        ("not a version", "1.0.0", False, False),
    ],
)
def test_the_reported_version_is_the_wanted_one(reported: str, desired: str, oci: bool, equal: bool) -> None:
    assert same(reported, desired, ignore_build=oci) is equal


@pytest.mark.parametrize(
    ("text", "version", "holds"),
    [
        ("1.2.0", "1.2.0", True),
        ("=1.2.0", "1.2.1", False),
        (">=1.0.0 <1.2.0", "1.1.9", True),
        (">=1.0.0 <1.2.0", "1.2.0", False),
        ("<=2.0.0", "2.0.0", True),
        (">2.0.0", "2.0.0", False),
    ],
)
def test_a_version_is_in_a_range_if_all_comparators_match(text: str, version: str, holds: bool) -> None:
    assert VersionRange.parse(text).holds(parse(version)) is holds


@pytest.mark.parametrize("text", ["", "  ", "~1.2", "1.2.x"])
def test_a_range_that_cannot_be_read_is_an_error(text: str) -> None:
    with pytest.raises(ValueError):
        VersionRange.parse(text)
