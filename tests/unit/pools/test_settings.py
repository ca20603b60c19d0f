"""The settings of the family as `konverge` reads them: each mistake is an error that names the setting and its value."""

import pytest

from konverge.daemon.config import load
from konverge.daemon.families import installed_settings
from konverge.errors import ConfigError
from konverge.reconcilers.pools import PoolSettings
from konverge.reconcilers.pools.family import FAMILY


def read(**assignments: str) -> PoolSettings:
    environ = {f"KONVERGE_POOLS__{name.upper()}": value for name, value in assignments.items()}
    return load(installed_settings(), flags={}, environ=environ).settings.of(FAMILY)


def test_words_numbers_and_maps_are_read_from_variables() -> None:
    found = read(
        adjectives="red,tiny", creates_per_window="3", instances__versions='{"33.0.1": "6.6.10"}', instances__retry="5"
    )
    assert (found.adjectives, found.creates_per_window) == (("red", "tiny"), 3)
    assert (found.instances.versions, found.instances.retry) == ({"33.0.1": "6.6.10"}, 5.0)
    assert found.nouns == PoolSettings().nouns


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("adjectives", "Red", "write a text of the form"),
        ("adjectives", "extraordinary", "at most 11 characters"),
        ("nouns", "", "give at least one word"),
        ("creates_per_window", "0", "write 1 or more"),
        ("window", "-1", "write a value above 0"),
        ("instance_namespace", "No_Namespace", "write a text of the form"),
        ("drift_limit", "many", "write a whole number"),
        ("instances__bucket_provider", "disk", "'s3' or 'objectbucketclaim'"),
        ("instances__at_once", "0", "write 1 or more"),
    ],
)
def test_a_wrong_value_is_refused_with_the_name_of_the_setting(name: str, value: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        read(**{name: value})
    assert f"pools.{name.replace('__', '.')}" in str(caught.value)
