"""The command line: its output and its exit codes."""

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from konverge.daemon import main
from konverge.daemon.main import COMMANDS, GROUP, KIT_COMMANDS, program
from konverge.daemon.version import version_text

EXAMPLE = str(Path(__file__).parents[3] / "examples" / "backup_operator.py")


@pytest.fixture(autouse=True)
def _untouched_imports() -> Iterator[None]:
    """Undo the changes to this process by a user's module. Installed packages stay: half of them would be loaded twice."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        file = getattr(sys.modules[name], "__file__", None)
        installed = file is None or any(Path(file).is_relative_to(root) for root in (sys.prefix, sys.base_prefix))
        if not installed and not name.startswith("konverge"):
            del sys.modules[name]


def konverge(*words: str, **environ: str) -> Result:
    clean = {f"KONVERGE_{name}": None for name in ("CONFIG", "CACHE", "URL", "NAMESPACE")}
    return CliRunner().invoke(program, list(words), env={**clean, **environ}, prog_name="konverge")


def test_the_help_of_the_group_teaches_and_lists_every_command() -> None:
    result = konverge("--help")
    assert result.exit_code == 0
    assert "konverge run backup_operator:build" in result.output
    assert all(f"  {name} " in result.output for name in (*COMMANDS, *KIT_COMMANDS))


@pytest.mark.parametrize("name", [*COMMANDS, *KIT_COMMANDS])
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_every_command_has_help(name: str, flag: str) -> None:
    result = konverge(name, flag)
    assert result.exit_code == 0, result.output
    assert result.output.startswith("Usage: konverge ")


ALONE = """
from importlib.metadata import entry_points
from click.testing import CliRunner
from konverge.daemon.main import GROUP, program
for entry in entry_points(group=GROUP):
    for command, words in ((entry.load(), ["--help"]), (program, [entry.name, "-h"])):
        result = CliRunner().invoke(command, words)
        assert result.exit_code == 0, result.output
"""


def test_a_command_that_ran_alone_before_keeps_its_short_help() -> None:
    """In a process of its own: click builds the help option of a command once, by the first program that runs the command."""
    run = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((), "    konverge crds backup_operator:build --apply"),
        (("explain",), "    konverge explain appinst/shop -n web"),
        (("completion",), "fish:  konverge completion fish > ~/.config/fish/completions/konverge.fish"),
        (("quota", "migrate"), "    kubectl apply -f solar.yaml"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, tuple) else "",
)
def test_commands_in_the_help_are_not_rewrapped(words: tuple[str, ...], line: str) -> None:
    assert f"  {line}" in konverge(*words, "--help").output.splitlines()


@pytest.mark.parametrize("name", ["", *COMMANDS, *KIT_COMMANDS])
def test_the_help_does_not_show_clicks_formatting_marks(name: str) -> None:
    assert "\\b" not in konverge(*filter(None, [name]), "--help").output


@pytest.mark.parametrize("words", [("--version",), ("run", "--version"), ("run", "no_module:build", "--version")])
def test_the_version_is_that_of_the_package(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KONVERGE_COMMIT", "5fcec85b")
    result = konverge(*words)
    assert result.exit_code == 0
    assert result.output == f"konverge {metadata.version('konverge')} (commit 5fcec85b)\n"


FROM_GIT = '{"url": "https://git.example.com/konverge", "vcs_info": {"vcs": "git", "commit_id": "ab12"}}'
EDITABLE = '{"url": "file:///src", "dir_info": {"editable": true}}'


IMAGE = {"KONVERGE_COMMIT": "cd34", "KONVERGE_BUILD": "7"}
PACKAGE = ("ef56", "2030-01-01")


@pytest.mark.parametrize(
    ("environ", "direct_url", "built", "text"),
    [
        ({}, None, ("", ""), "konverge 1.0"),
        ({}, EDITABLE, ("", ""), "konverge 1.0 (source tree)"),
        ({}, FROM_GIT, ("", ""), "konverge 1.0 (commit ab12)"),
        ({}, None, PACKAGE, "konverge 1.0 (commit ef56, build 2030-01-01)"),
        ({}, EDITABLE, PACKAGE, "konverge 1.0 (commit ef56, build 2030-01-01)"),
        ({"KONVERGE_COMMIT": "", "KONVERGE_BUILD": ""}, None, ("", ""), "konverge 1.0"),
        ({"KONVERGE_COMMIT": "", "KONVERGE_BUILD": "7"}, None, PACKAGE, "konverge 1.0 (commit ef56, build 7)"),
        ({"KONVERGE_COMMIT": "cd34"}, None, PACKAGE, "konverge 1.0 (commit cd34)"),
        (IMAGE, FROM_GIT, ("", ""), "konverge 1.0 (commit cd34, build 7)"),
        (IMAGE, EDITABLE, PACKAGE, "konverge 1.0 (commit cd34, build 7)"),
    ],
)
def test_commit_and_build_are_of_one_source(
    environ: dict[str, str], direct_url: str | None, built: tuple[str, str], text: str
) -> None:
    assert version_text("1.0", environ, direct_url, built) == text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("rund",), "no such command: rund. Did you mean run?"),
        (("zzz",), "no such command: zzz."),
        (("run", "--nope"), "No such option"),
        (("run", "--drain", "long"), "drain (flag --drain): "),
        (
            ("run", "--sharding", "vote"),
            "sharding.mode (flag --set sharding.mode): write 'off', 'leader', 'hash', 'ordinal' or 'coordinator'",
        ),
        (("run", "--set", "sharding.ring=NO"), "no ring can be named 'NO'"),
        (("run", "--set", "nope=1"), "there is no setting nope"),
        (("run", "--set", "nope"), "write path=value"),
        (("run", "--config", "/nowhere.yaml"), "/nowhere.yaml cannot be read"),
        (("run", "no_such_module_here:build"), "no module 'no_such_module_here'"),
        (("run", "/no/such/file.py"), "no file /no/such/file.py"),
        (("run", ":build"), "write module:function"),
        (("crds", f"{EXAMPLE}:bild"), f"did you mean {EXAMPLE}:build?"),
        (("crds", "--dry-run"), "--dry-run goes with --apply"),
        (("rbac", "--service-account", "alone"), "write namespace/name"),
        (("explain", "shop"), "write kind/name"),
        (("explain", "a/b", "--url", "ftp://x"), "begins with http"),
        (("completion", "tcsh"), "Invalid value"),
        (("quota", "migrate"), "Missing option '--tenant'"),
        (("quota", "migrate", "--tenant", "solar", "--dry-run"), "--dry-run goes with --apply"),
        (("quota", "migrate", "--tenant", "solar", "--headroom", "-1"), "Invalid value for '--headroom'"),
    ],
)
def test_wrong_usage_is_exit_code_2_with_a_hint(words: tuple[str, ...], said: str) -> None:
    result = konverge(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "--kubeconfig", "/nowhere/config"), "Error: kubeconfig /nowhere/config"),
        (("crds", "--apply", "--kubeconfig", "/nowhere/config"), "Error: kubeconfig /nowhere/config"),
        (
            ("quota", "migrate", "--tenant", "solar", "--kubeconfig", "/nowhere/config"),
            "Error: kubeconfig /nowhere/config",
        ),
        (
            ("rbac", "--controllers", "nobody"),
            (
                "there is no controller 'nobody' here; controllers: applicationinstance, operation, cluster, nextcloudpool, nextcloud, "
                "nextcloud-orphans, nextcloudinstance, resourcepool, "
                "resourcepoolclaim, workspaceclaim; families: apps, clusters, pools, quota, workspaces"
            ),
        ),
        (("run", "--controllers", "nobody", "--kubeconfig", "/nowhere/config"), "there is no controller 'nobody' here"),
        (("explain", "a/b", "--url", "http://127.0.0.1:9"), "no daemon responds at http://127.0.0.1:9"),
    ],
)
def test_a_failure_is_exit_code_1_and_one_line(words: tuple[str, ...], said: str) -> None:
    result = konverge(*words)
    assert (result.exit_code, result.stdout) == (1, "")
    assert said in result.stderr
    assert "Traceback" not in result.stderr


# --- commands of other distributions ------------------------------------------------------------------------------------------


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> dict[str, EntryPoint]:
    """The entry points of other distributions, by the name of the command."""
    entries: dict[str, EntryPoint] = {}
    monkeypatch.setattr(main, "_added", lambda: entries)
    return entries


@pytest.mark.parametrize("name", KIT_COMMANDS)
def test_kit_command_without_the_kit_names_the_extra(name: str, added: dict[str, EntryPoint]) -> None:
    assert added == {}
    result = konverge(name)
    assert result.exit_code == 1
    assert f"konverge {name} comes with the test kit" in result.stderr
    assert "pip install 'konverge[testing]'" in result.stderr


def test_command_of_another_distribution_is_listed_and_runs(added: dict[str, EntryPoint]) -> None:
    added["hello"] = EntryPoint("hello", "konverge.daemon.completion:completion", GROUP)
    assert "hello          A command of another distribution." in konverge("--help").output
    assert "_KONVERGE_COMPLETE" in konverge("hello", "bash").output
    assert "Did you mean hello?" in konverge("helo").stderr


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("no_such_module:command", "cannot be imported: No module named 'no_such_module'"),
        (
            "konverge.daemon.completion:nothing",
            "'konverge.daemon.completion:nothing' of another distribution does not exist",
        ),
        ("konverge.daemon.completion:_HELP", "is no click.Command"),
    ],
)
def test_broken_command_of_another_distribution_is_one_line(
    value: str, text: str, added: dict[str, EntryPoint]
) -> None:
    added["hello"] = EntryPoint("hello", value, GROUP)
    result = konverge("hello")
    assert (result.exit_code, result.stdout) == (1, "")
    assert text in result.stderr
    assert "Traceback" not in result.stderr


# --- config -------------------------------------------------------------------------------------------------------------------


def test_config_shows_value_origin_and_meaning() -> None:
    result = konverge("config", "--drain", "5", KONVERGE_NAMESPACE="web")
    assert result.exit_code == 0
    assert "drain = 5.0   [flag --drain]\n    Seconds that running reconciles have after SIGTERM" in result.output
    assert "namespace = web   [variable KONVERGE_NAMESPACE]\n" in result.output
    assert "reconcile.timeout = 120.0   [default, if a controller has no other]\n" in result.output
    assert "apps.interval = 300s   [default]\n" in result.output


def test_config_as_json_has_path_value_origin_and_meaning() -> None:
    entries = {entry["path"]: entry for entry in json.loads(konverge("config", "-o", "json", "-n", "web").stdout)}
    assert entries["namespace"] == {
        "path": "namespace",
        "value": "web",
        "origin": "flag --namespace",
        "default": "",
        "variable": "KONVERGE_NAMESPACE",
        "flag": "--namespace",
        "doc": "Watch only this namespace; empty: the whole cluster.",
    }
    assert entries["reconcile.timeout"]["value"] is None


def test_config_as_yaml_is_a_file_that_gives_the_same_settings(tmp_path: Path) -> None:
    flags = (
        "-n",
        "web",
        "--set",
        "reconcile.timeout=60",
        "--set",
        "apps.url_allow_list=https://a/",
        "--controllers",
        "apps",
    )
    file = tmp_path / "settings.yaml"
    file.write_text(konverge("config", "-o", "yaml", *flags).stdout)
    first = json.loads(konverge("config", "-o", "json", *flags).stdout)
    again = json.loads(konverge("config", "-o", "json", "--config", str(file)).stdout)
    assert [(entry["path"], entry["value"]) for entry in again] == [(entry["path"], entry["value"]) for entry in first]


def test_config_of_a_users_operator_has_no_families() -> None:
    result = konverge("config", f"{EXAMPLE}:build")
    assert "drain = " in result.output
    assert "apps." not in result.output


def test_config_reference_is_a_table_of_every_setting() -> None:
    lines = konverge("config", "--reference").stdout.splitlines()
    assert lines[0] == "| Setting | Default | Variable | Meaning |"
    assert all(line.count(" | ") == 3 for line in lines if "\\|" not in line and not line.startswith("|---"))


def test_a_stray_variable_is_a_warning_on_standard_error() -> None:
    result = konverge("config", "-o", "json", KONVERGE_METRIX=":1")
    assert "KONVERGE_METRIX is set and is not a setting of konverge" in result.stderr
    assert json.loads(result.stdout)


# --- crds and rbac ------------------------------------------------------------------------------------------------------------


def test_crds_prints_our_own_definitions() -> None:
    documents = list(yaml.safe_load_all(konverge("crds").stdout))
    assert [document["metadata"]["name"] for document in documents] == [
        "applicationinstances.apps.vworkspace.io",
        "clusters.ops.vworkspace.io",
        "nextcloudinstances.k8s.bnerd.com",
        "nextcloudpools.k8s.bnerd.com",
        "nextcloudprofiles.k8s.bnerd.com",
        "nextclouds.k8s.bnerd.com",
        "nextcloudversionmaps.k8s.bnerd.com",
        "nstanceclusters.infrastructure.cluster.x-k8s.io",
        "nstancecontrolplanes.infrastructure.cluster.x-k8s.io",
        "nstancemachinepools.infrastructure.cluster.x-k8s.io",
        "nstancemachines.infrastructure.cluster.x-k8s.io",
        "nstancemachinetemplates.infrastructure.cluster.x-k8s.io",
        "nstanceshardgroups.infrastructure.cluster.x-k8s.io",
        "operations.ops.vworkspace.io",
        "resourcepoolclaims.capsule.clastix.io",
        "resourcepools.capsule.clastix.io",
        "workspaceclaims.cloudapi.team-orca.dev",
    ]


def test_crds_prints_those_of_a_users_operator_also_as_json() -> None:
    assert (
        json.loads(konverge("crds", f"{EXAMPLE}:build", "-o", "json").stdout)["metadata"]["name"]
        == "backups.example.com"
    )


def test_crds_of_an_operator_that_declares_no_kind_fails(tmp_path: Path) -> None:
    (tmp_path / "empty_operator.py").write_text("def build(manager):\n    pass\n")
    result = konverge("crds", f"{tmp_path}/empty_operator.py")
    assert result.exit_code == 1
    assert "declared with @kv.resource" in result.stderr


def test_rbac_prints_what_a_users_operator_needs() -> None:
    role = yaml.safe_load(konverge("rbac", f"{EXAMPLE}:build").stdout)
    assert (role["kind"], role["metadata"]) == ("ClusterRole", {"name": "backup-operator"})
    rules = {(tuple(rule["apiGroups"]), tuple(rule["resources"])): set(rule["verbs"]) for rule in role["rules"]}
    assert rules[("batch",), ("cronjobs",)] >= {"create", "patch", "delete", "list", "watch"}
    assert rules[("",), ("secrets",)] == {"get", "list", "watch"}
    assert rules[("events.k8s.io",), ("events",)] == {"create", "patch"}


def test_rbac_for_a_namespace_is_a_role_and_can_bring_its_binding() -> None:
    answer = konverge("rbac", "-n", "web", "--service-account", "ops/konverge", "-o", "json").stdout
    role, binding, home, _ = json.loads(answer)["items"]
    assert (role["kind"], role["metadata"]) == ("Role", {"name": "konverge", "namespace": "web"})
    assert (home["kind"], home["metadata"]) == ("Role", {"name": "konverge", "namespace": "ops"})
    assert [rule["resources"] for rule in home["rules"]] == [["leases"]], "the turns of Operations"
    assert "'leases'" not in str(role)
    assert binding["kind"] == "RoleBinding"
    assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "konverge"}
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "konverge", "namespace": "ops"}]


def test_rbac_for_a_namespace_includes_a_lease_in_another_namespace() -> None:
    settings = ("--set", "election.enabled=true", "--set", "apps.operations.enabled=false")
    words = ("rbac", "-n", "web", "--service-account", "ops/konverge", *settings, "-o", "json")
    roles = {
        one["metadata"]["namespace"]: one for one in json.loads(konverge(*words).stdout)["items"] if "rules" in one
    }
    assert {namespace: "'leases'" in str(role) for namespace, role in roles.items()} == {"web": False, "ops": True}


@pytest.mark.parametrize("watched", ["", "web"])
def test_rbac_with_sharding_includes_member_leases_in_the_account_namespace(watched: str) -> None:
    words = ("rbac", "-n", watched, "--service-account", "ops/konverge", "--controllers", "applicationinstance")
    plain, shared = (
        {
            one["metadata"].get("namespace", ""): one
            for one in yaml.safe_load_all(konverge(*words, *more).stdout)
            if "rules" in one
        }
        for more in ((), ("--sharding", "hash"))
    )
    assert "'leases'" not in str(plain)
    assert set(shared) - set(plain) == {"ops"}
    assert {tuple(rule["resources"]): rule["verbs"] for rule in shared["ops"]["rules"]} == {
        ("leases",): ["create", "delete", "get", "list", "patch", "watch"],
        ("events",): ["create", "patch"],
    }


def test_rbac_with_sharding_by_ordinals_includes_the_stateful_set_namespace() -> None:
    words = (
        "-n",
        "web",
        "--service-account",
        "ops/konverge",
        "--controllers",
        "applicationinstance",
        "--sharding",
        "ordinal",
    )
    roles = [one for one in yaml.safe_load_all(konverge("rbac", *words).stdout) if "rules" in one]
    [role] = [one for one in roles if one["metadata"]["namespace"] == "ops"]
    assert [(rule["resources"], rule["verbs"]) for rule in role["rules"]] == [(["statefulsets"], ["list", "watch"])]


def test_rbac_with_sharding_and_unshared_controllers_includes_the_leader_lease() -> None:
    words = ("rbac", "--service-account", "ops/konverge", "--controllers", "quota", "--sharding", "hash")
    [role] = [one for one in yaml.safe_load_all(konverge(*words).stdout) if one and one["kind"] == "Role"]
    assert [rule.get("resourceNames") for rule in role["rules"]].count(["konverge"]) == 1


@pytest.mark.parametrize("watched", ["", "web"])
def test_rbac_for_secure_metrics_includes_cluster_wide_reviews(watched: str) -> None:
    plain, secure = (
        list(yaml.safe_load_all(konverge("rbac", "-n", watched, *more).stdout))
        for more in ((), ("--set", "metrics_secure=true"))
    )
    assert "reviews" not in str(plain)
    [role] = [one for one in secure if "reviews" in str(one)]
    assert role["kind"] == "ClusterRole"
    assert [(rule["resources"], rule["verbs"]) for rule in role["rules"] if "reviews" in str(rule)] == [
        (["tokenreviews"], ["create"]),
        (["subjectaccessreviews"], ["create"]),
    ]


def test_rbac_follows_settings_that_change_what_is_watched() -> None:
    def verbs(*arguments: str) -> list[list[str]]:
        printed = konverge("rbac", "--controllers", "apps", *arguments).stdout
        rules = next(
            found["rules"] for found in yaml.safe_load_all(printed) if found and found["kind"] == "ClusterRole"
        )
        return [rule["verbs"] for rule in rules if "namespaces" in rule["resources"]]

    assert verbs() == [["get"]], "an Operation's namespace says what may run in it"
    assert verbs("--set", "apps.require_namespace_label=true") == [["get", "list", "watch"]]


@pytest.mark.parametrize(("shell", "word"), [("zsh", "#compdef konverge"), ("fish", "complete")])
def test_completion_prints_a_script(shell: str, word: str) -> None:
    result = konverge("completion", shell)
    assert result.exit_code == 0
    assert word in result.output


@pytest.mark.parametrize("words", [("rbac",), ("webhooks", "--service", "konverge/hooks"), ("crds",)], ids=str)
def test_printed_manifests_come_without_notes_on_extras(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    module = importlib.import_module("konverge.reconcilers.pools.installation")
    monkeypatch.setattr(module, "s3_client_installed", lambda: False)
    result = konverge(*words)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "pip install" not in result.stdout
