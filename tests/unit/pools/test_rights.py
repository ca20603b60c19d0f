"""The rights on Secrets, volume claims, namespaces and other parts of an instance are granted by namespace."""

import pytest

from konverge.reconcilers.pools import PoolSettings, install
from konverge.runtime import Manager, Rule

PARTS = {
    *("secrets", "persistentvolumeclaims", "namespaces", "helmreleases", "helmrepositories", "ocirepositories"),
    *("cronjobs", "clusters", "scheduledbackups"),
}
CLAIMS = {"configmaps", "objectbucketclaims"}
WATCHED = {"helmreleases", "helmrepositories", "ocirepositories", "cronjobs", "clusters", "namespaces"}


def rules(settings: PoolSettings) -> tuple[Rule, ...]:
    manager = Manager("m")
    install(manager, settings)
    return manager.rules()


def verbs(given: tuple[Rule, ...], resource: str) -> dict[str, set[str]]:
    """Return the verbs on a resource by namespace; "" is the whole cluster."""
    found: dict[str, set[str]] = {}
    for rule in given:
        if resource in rule.resources:
            found.setdefault(rule.namespace, set()).update(rule.verbs)
    return found


@pytest.mark.parametrize(
    ("settings", "namespaces"),
    [
        (PoolSettings(), {"nextcloud-instances"}),
        (PoolSettings(instance_namespace="clouds"), {"clouds"}),
        (PoolSettings(instance_namespace="clouds", namespaces=("web", "shop", "clouds")), {"clouds", "web", "shop"}),
        (PoolSettings(namespaces=("web", "*")), {""}),
    ],
    ids=["default", "another namespace", "several", "all"],
)
@pytest.mark.parametrize("provider", ["s3", "objectbucketclaim"])
def test_parts_of_instances_are_written_in_the_listed_namespaces_only(
    settings: PoolSettings, namespaces: set[str], provider: str
) -> None:
    chosen = settings.instances.model_copy(update={"bucket_provider": provider})
    given = rules(settings.model_copy(update={"instances": chosen}))
    for resource in PARTS | (CLAIMS if provider == "objectbucketclaim" else set()):
        found = verbs(given, resource)
        watched = {"list", "watch"} if resource in WATCHED else set()
        assert {place for place, allowed in found.items() if allowed - watched} == namespaces, resource


def test_cluster_role_reads_no_secret_and_writes_only_our_own_kinds() -> None:
    everywhere = [rule for rule in rules(PoolSettings()) if not rule.namespace]
    written = {rule.group for rule in everywhere if not {"list", "watch"}.issuperset(rule.verbs)}
    assert written == {"k8s.bnerd.com", "events.k8s.io"}
    assert not [rule for rule in everywhere if "secrets" in rule.resources]


@pytest.mark.parametrize("name", ["Web", "a b", "", "-web", "**"])
def test_a_namespace_of_the_setting_is_a_name_or_a_star(name: str) -> None:
    with pytest.raises(ValueError, match="pattern"):
        PoolSettings(namespaces=(name,))
