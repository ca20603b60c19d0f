"""The sources of settings, their errors, and the messages about them."""

from __future__ import annotations

import inspect
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hosted import daemon_settings

from konverge.daemon.config import Loaded, Origin, attribute_docs, leaves, load, parse_assignment
from konverge.daemon.families import DaemonSettings, installed_settings
from konverge.daemon.settings import Overrides, Settings
from konverge.errors import ConfigError, UsageError
from konverge.reconcilers.apps.family import FAMILY as APPS
from konverge.runtime import Numbers


def loaded(
    environ: dict[str, str] | None = None, flags: dict[str, Any] | None = None, *, file: Path | None = None
) -> Loaded[DaemonSettings]:
    return load(installed_settings(), flags=flags or {}, environ=environ or {}, file=file)


def a_file(folder: Path, text: str, name: str = "settings.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_without_sources_every_setting_has_its_default() -> None:
    found = loaded()
    assert found.settings == daemon_settings()
    assert found.origins == {}
    assert found.origin("metrics") == Origin("default")


def test_a_flag_wins_over_a_variable_over_the_file_over_the_default(tmp_path: Path) -> None:
    file = a_file(tmp_path, "metrics: ':1'\nhealth: ':1'\nnamespace: file\n")
    environ = {"KONVERGE_METRICS": ":2", "KONVERGE_HEALTH": ":2"}
    found = loaded(environ, {"metrics": ":3"}, file=file)
    assert {
        path: (found.value(path), str(found.origin(path))) for path in ("metrics", "health", "namespace", "drain")
    } == {
        "metrics": (":3", "flag --metrics"),
        "health": (":2", "variable KONVERGE_HEALTH"),
        "namespace": ("file", f"file {file}"),
        "drain": (25.0, "default"),
    }


def test_sources_mix_inside_a_group(tmp_path: Path) -> None:
    file = a_file(tmp_path, "informers:\n  page_size: 10\n  watch_idle: 20\n")
    found = loaded(
        {"KONVERGE_INFORMERS__WATCH_IDLE": "30", "KONVERGE_RECONCILE__TIMEOUT": "60"},
        {"reconcile.concurrency": "4"},
        file=file,
    )
    assert (found.settings.informers.page_size, found.settings.informers.watch_idle) == (10, 30.0)
    assert found.settings.reconcile.numbers() == {"timeout": 60.0, "concurrency": 4}
    assert str(found.origin("reconcile.concurrency")) == "flag --set reconcile.concurrency"


def test_a_variable_names_the_file_if_no_flag_does(tmp_path: Path) -> None:
    file = a_file(tmp_path, "namespace: here\n")
    assert loaded({"KONVERGE_CONFIG": str(file)}).settings.namespace == "here"
    other = a_file(tmp_path, "namespace: there\n", "other.yaml")
    assert loaded({"KONVERGE_CONFIG": str(file)}, file=other).settings.namespace == "there"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "apps:\n  interval: 10m\n  url_allow_list: [https://a/]\n"),
        ("a.yml", "apps: {interval: 10m, url_allow_list: ['https://a/']}\n"),
        ("a.json", '{"apps": {"interval": "10m", "url_allow_list": ["https://a/"]}}'),
        ("a.toml", '[apps]\ninterval = "10m"\nurl_allow_list = ["https://a/"]\n'),
    ],
)
def test_a_file_may_be_yaml_json_or_toml(tmp_path: Path, name: str, text: str) -> None:
    found = loaded(file=a_file(tmp_path, text, name)).settings.of(APPS)
    assert (found.interval, found.url_allow_list) == (timedelta(minutes=10), ("https://a/",))


def test_an_empty_file_sets_nothing(tmp_path: Path) -> None:
    assert loaded(file=a_file(tmp_path, "# nothing\n")).settings == daemon_settings()


@pytest.mark.parametrize(
    ("environ", "flags"),
    [
        ({"KONVERGE_CONTROLLERS": "a, b"}, {}),
        ({"KONVERGE_CONTROLLERS": '["a", "b"]'}, {}),
        ({}, {"controllers": "a,b"}),
        ({}, {"controllers": '["a","b"]'}),
    ],
)
def test_lists_may_be_written_with_commas(environ: dict[str, str], flags: dict[str, str]) -> None:
    assert loaded(environ, flags).settings.controllers == ("a", "b")


@pytest.mark.parametrize("written", ["[100, 200]", "100,200"])
def test_lists_of_a_dataclass_group_are_read_from_variables_too(written: str) -> None:
    found = loaded({"KONVERGE_INFORMERS__WATCH_TIMEOUT": written}).value("informers.watch_timeout")
    assert tuple(map(int, found)) == (100, 200)


def test_lists_inside_a_group_may_be_written_with_commas_too() -> None:
    found = loaded({"KONVERGE_APPS__URL_ALLOW_LIST": "https://a/,https://b/"}, {"apps.insecure_registries": "x:5000"})
    assert found.settings.of(APPS).url_allow_list == ("https://a/", "https://b/")
    assert found.settings.of(APPS).insecure_registries == {"x:5000"}


def test_single_controllers_have_numbers_of_their_own(tmp_path: Path) -> None:
    file = a_file(tmp_path, "controller:\n  applicationinstance:\n    concurrency: 3\n")
    assert loaded(file=file).settings.controller == {"applicationinstance": Overrides(concurrency=3)}


# --- mistakes -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "flags", "words"),
    [
        (
            {},
            {"informers.page_sice": "1"},
            "flag: there is no setting informers.page_sice; did you mean informers.page_size?",
        ),
        ({}, {"zzz": "1"}, "there is no setting zzz; see konverge config"),
        (
            {"KONVERGE_APPS__INTERVALL": "1m"},
            {},
            "variable: there is no setting apps.intervall; did you mean apps.interval?",
        ),
        ({"KONVERGE_DRAIN": "long"}, {}, "drain (variable KONVERGE_DRAIN): "),
        ({}, {"drain": "-1"}, "drain (flag --drain): "),
        ({}, {"metrics": "8080"}, "metrics (flag --metrics): address '8080': write host:port"),
        ({}, {"log_level": "loud"}, "log_level (flag --log-level): "),
        ({"KONVERGE_APPS__INTERVAL": "0s"}, {}, "apps.interval (variable KONVERGE_APPS__INTERVAL): "),
        ({}, {"reconcile.concurrency": "0"}, "reconcile.concurrency (flag --set reconcile.concurrency): "),
        ({"KONVERGE_CONTROLLERS": "[a"}, {}, "variables KONVERGE_*"),
        ({}, {"informers.backoff_start": "-1"}, "InformerSettings"),
        ({}, {"reconcile.base_delay": "9", "reconcile.max_delay": "1"}, "base_delay is greater than max_delay"),
    ],
)
def test_a_mistake_names_the_setting_its_source_and_what_is_wrong(
    environ: dict[str, str], flags: dict[str, str], words: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(environ, flags)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.yaml", "a: [", "is not YAML"),
        ("a.toml", "a = ", "is not TOML"),
        ("a.ini", "", "must end in"),
        ("a.yaml", "- a\n", "must be a mapping"),
        ("a.yaml", "metrix: 1\n", "there is no setting metrix; did you mean metrics?"),
        ("a.yaml", "drain: long\n", "drain (file "),
        ("a.yaml", "informers: 3\n", "there is no setting informers"),
        ("a.yaml", "controller: {x: {concurrencyy: 1}}\n", "controller.x.concurrencyy (file "),
    ],
)
def test_a_mistake_in_a_file_names_the_file(tmp_path: Path, name: str, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(file=a_file(tmp_path, text, name))
    assert words in str(caught.value)
    assert name in str(caught.value)


def test_a_list_in_malformed_json_is_an_error_that_shows_the_syntax() -> None:
    with pytest.raises(ConfigError, match=r"apps\.url_allow_list=\[a,b\] is not JSON .*without brackets, a,b"):
        loaded({}, {"apps.url_allow_list": "[a,b]"})
    assert loaded({}, {"apps.url_allow_list": '["a", "b"]'}).settings.of(APPS).url_allow_list == ("a", "b")


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        loaded(file=tmp_path / "none.yaml")


def test_an_unknown_variable_with_our_prefix_is_a_warning() -> None:
    found = loaded({"KONVERGE_METRIX": ":1", "KONVERGE_CACHE": "/x", "OTHER": "1"})
    assert found.warnings == (
        "KONVERGE_METRIX is set and is not a setting of konverge; did you mean KONVERGE_METRICS?",
    )


def test_kubelet_variables_for_a_service_named_konverge_cause_no_warning() -> None:
    links = (
        "SERVICE_HOST",
        "SERVICE_PORT",
        "SERVICE_PORT_HTTP",
        "PORT",
        "PORT_8080_TCP",
        "PORT_8080_TCP_ADDR",
        "X_SERVICE_HOST",
    )
    assert loaded({f"KONVERGE_{link}": "tcp://10.0.0.1:8080" for link in links}).warnings == ()


@pytest.mark.parametrize("text", ["", "a", "=1", " =1"])
def test_an_assignment_has_a_path_and_a_value(text: str) -> None:
    with pytest.raises(UsageError, match="path=value"):
        parse_assignment(text)


# --- settings -----------------------------------------------------------------------------------------------------------------


def test_every_setting_is_documented() -> None:
    silent = [
        leaf.path for leaf in leaves(installed_settings()) if not leaf.doc and not leaf.path.startswith("informers.")
    ]
    assert silent == []


def test_every_number_of_a_controller_can_be_set() -> None:
    assert list(Overrides.model_fields) == list(Numbers.__struct_fields__)


def test_the_flag_and_the_variable_of_a_setting_set_it() -> None:
    below_others = {"election.retry_seconds": 2.5, "sharding.retry_seconds": 2.5}
    for leaf in leaves(Settings):
        if leaf.annotation is float:
            value = below_others.get(leaf.path, 12.5)
            assert load(Settings, flags={}, environ={leaf.variable: str(value)}).value(leaf.path) == value
            assert load(Settings, flags={leaf.path: str(value)}, environ={}).value(leaf.path) == value


def test_strings_below_attributes_are_their_documentation() -> None:
    class Documented:
        a: int = 1
        """Meaning of
        a."""
        b: int = 2

    assert attribute_docs(Documented) == {"a": "Meaning of a."}


def test_settings_are_loaded_without_parsing_source_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_object: object) -> str:
        raise AssertionError("a start does not print the meanings of settings")

    monkeypatch.setattr(inspect, "getsource", refuse)
    assert load(installed_settings(), flags={"drain": "3"}, environ={}).settings.drain == 3


@pytest.mark.parametrize(("text", "mode"), [("off", "off"), ("leader", "leader"), ("hash", "hash")])
def test_sharding_mode_is_read_from_a_file_with_off_as_false(tmp_path: Path, text: str, mode: str) -> None:
    found = loaded(file=a_file(tmp_path, f"sharding:\n  mode: {text}\n  join_seconds: 2\n"))
    assert (found.settings.sharding.mode, found.settings.sharding.join_seconds) == (mode, 2.0)
    assert loaded({"KONVERGE_SHARDING__MODE": mode}).settings.sharding.mode == mode
