"""No family of a rendered chart may read a Secret of another family or of the webhooks.

The families of one release share a ServiceAccount, so only the names and namespaces in their rules separate them.
"""

from itertools import combinations
from typing import Any

import pytest
import yaml
from helm_template import CHART, NAMESPACE, Rendered, Template, merged
from hosted import NAMES

pytestmark = pytest.mark.timeout(60, func_only=True)

EVERY = "*"
KCP = "kcp"

SECRETS: dict[str, set[tuple[str, str]]] = {
    "apps": set(),
    "clusters": {
        (NAMESPACE, name) for name in ("registration", "vworkspace-agent-credentials", "vworkspace-agent-journal")
    },
    "machines": {
        *((NAMESPACE, f"nstance-operator-{name}") for name in ("cert", "key", "nonce")),
        (NAMESPACE, "nstance--default-kubeconfig"),
    },
    "pools": {("nextcloud-instances", EVERY)},
    "quota": set(),
    "workspaces": {(KCP, EVERY)},
}
"""The Secrets of each family by namespace and name. Values of applications are in namespaces that a setting names."""

WEBHOOKS = {(NAMESPACE, "konverge-webhooks")}
SERVED: dict[str, Any] = {"webhooks": {"enabled": True}, "metrics": {"secure": {"enabled": True}}}
MOUNTED: dict[str, Any] = {"webhooks": {"enabled": True, "certificates": "certManager"}}

COMBINATIONS = [*combinations(NAMES, 1), *combinations(NAMES, 2), NAMES]
"""The rules of more families are the union of those of each, so pairs show what two do to each other."""


def values(chosen: tuple[str, ...], *others: dict[str, Any]) -> dict[str, Any]:
    on = {"families": {name: {"enabled": name in chosen} for name in NAMES}}
    return merged(on, {"families": {"workspaces": {"namespace": KCP}}, "crds": {"install": False}}, *others)


def reachable(rendered: Rendered) -> set[tuple[str, str]]:
    """Return namespace and name of the Secrets that the daemon may read, change or delete; `*` for every name."""
    return {
        (namespace, name)
        for namespace, group, resource, names, verb in rendered.rights
        if group in ("", EVERY) and resource in ("secrets", EVERY) and verb != "create"
        for name in names or (EVERY,)
    }


def test_no_two_owners_share_a_secret_or_a_namespace_of_all_secrets() -> None:
    owners = [*SECRETS.values(), WEBHOOKS]
    for one, other in combinations(owners, 2):
        assert not one & other
        whole = {namespace for namespace, name in one | other if name == EVERY}
        assert not whole & {namespace for namespace, _ in one} & {namespace for namespace, _ in other}


@pytest.mark.parametrize("chosen", COMBINATIONS, ids="+".join)
def test_a_release_reaches_the_secrets_of_its_families_and_its_webhooks_only(
    template: Template, chosen: tuple[str, ...]
) -> None:
    own = {secret for family in chosen for secret in SECRETS[family]}
    assert reachable(template(values(chosen, SERVED))) <= own | WEBHOOKS


@pytest.mark.parametrize("family", NAMES)
def test_with_certificates_of_cert_manager_no_family_reaches_their_keys(template: Template, family: str) -> None:
    assert reachable(template(values((family,), MOUNTED))) == SECRETS[family]


CASES = {path.stem: yaml.safe_load(path.read_text()) for path in (CHART / "values").iterdir()}
"""The values files of the chart, by name."""


def test_there_is_a_values_file_for_a_release_of_each_family() -> None:
    assert {name for name in CASES if name.startswith("only-")} == {f"only-{name}" for name in NAMES}


@pytest.mark.parametrize("family", NAMES)
def test_the_values_files_run_one_family_with_its_own_rights(template: Template, family: str) -> None:
    rendered = template(merged(CASES["production"], CASES[f"only-{family}"]))
    assert rendered.environment["KONVERGE_CONTROLLERS"] == family
    expected = {
        "apps": {("web", EVERY)},
        "workspaces": {("workspace-kubeconfigs", EVERY)},
    }.get(family, SECRETS[family])
    assert reachable(rendered) == expected | (WEBHOOKS if rendered.all("Secret") else set())


OPEN: dict[str, dict[str, Any]] = {
    "workspaces beside webhooks": {
        "families": {"workspaces": {"enabled": True, "namespace": ""}},
        "webhooks": {"enabled": True},
    },
    "workspaces beside agents": {
        "families": {"workspaces": {"enabled": True, "namespace": NAMESPACE}, "clusters": {"enabled": True}}
    },
    "workspaces beside keys of servers": {"families": {"workspaces": {"enabled": True}, "machines": {"enabled": True}}},
    "instances beside webhooks": {
        "families": {"pools": {"enabled": True, "namespaces": [NAMESPACE]}},
        "webhooks": {"enabled": True},
    },
    "new instances beside agents": {
        "families": {"pools": {"enabled": True}, "clusters": {"enabled": True}},
        "settings": {"pools": {"instance_namespace": NAMESPACE}},
    },
    "values beside webhooks": {
        "settings": {"apps": {"secret_namespaces": ["web", NAMESPACE]}},
        "webhooks": {"enabled": True},
    },
    "one namespace beside webhooks": {
        "families": {"quota": {"enabled": False}},
        "watchNamespace": NAMESPACE,
        "webhooks": {"enabled": True},
    },
}


@pytest.mark.parametrize("given", OPEN.values(), ids=OPEN)
def test_values_that_would_show_the_secrets_of_others_are_refused(template: Template, given: dict[str, Any]) -> None:
    complaint = template.refused(given)
    assert f"in {NAMESPACE} would show the Secrets of" in complaint or f"leave out {NAMESPACE}" in complaint


WHOLE: dict[str, tuple[dict[str, Any], set[str]]] = {
    "defaults": ({}, set()),
    "apps: none": ({"settings": {"apps": {"watch_secrets": False}}}, set()),
    "apps: two": ({"settings": {"apps": {"secret_namespaces": ["web", "shop"]}}}, {"web", "shop"}),
    "apps: all": ({"settings": {"apps": {"watch_secrets": True}}}, {""}),
    "apps: watched": ({"families": {"quota": {"enabled": False}}, "watchNamespace": "web"}, {"web"}),
    "pools: two": ({"families": {"pools": {"enabled": True, "namespaces": ["web"]}}}, {"web", "nextcloud-instances"}),
    "pools: all": ({"families": {"pools": {"enabled": True, "namespaces": ["*"]}}}, {""}),
    "workspaces": ({"families": {"workspaces": {"enabled": True}}}, {NAMESPACE}),
}
"""Values, and the namespaces all of whose Secrets the daemon may read; "" is the whole cluster."""


@pytest.mark.parametrize(("given", "namespaces"), WHOLE.values(), ids=WHOLE)
def test_secrets_of_whole_namespaces_are_read_only_if_a_value_says_so(
    template: Template, given: dict[str, Any], namespaces: set[str]
) -> None:
    assert {namespace for namespace, name in reachable(template(given)) if name == EVERY} == namespaces
