"""Programs in other languages, for tests that are skipped with one line if they cannot be built on this machine."""

import os
from pathlib import Path

import other_languages
import pytest

from konverge_testing import plugin
from konverge_testing.failures import BinariesMissing


def built_or_skipped(name: str, config: pytest.Config) -> Path:
    """Return the folder of a build; builds it first if it is missing, and prints that."""

    def tell(line: str) -> None:
        with config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            print(f"\n==> {line}", flush=True)

    found = other_languages.cached(name, os.environ)
    if found is not None:
        return found
    if os.environ.get(plugin.DECLINE_VARIABLE, "") not in ("", "0"):
        pytest.skip(f"{other_languages.ALL[name].what(name)} is not built, and {plugin.DECLINE_VARIABLE} is set")
    try:
        return other_languages.built(name, os.environ, tell=tell)
    except BinariesMissing as error:
        pytest.skip(" ".join(str(error).split()))
