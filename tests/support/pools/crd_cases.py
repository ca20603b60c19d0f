"""Objects of the kinds of pools that the API server itself must accept or reject: one table for the in-memory server and for the real one."""

from typing import Any

from crd_cases import Case, Table

from konverge.crds import CustomResource
from konverge.crds.pools_v1alpha1 import (
    GROUP,
    Nextcloud,
    NextcloudInstance,
    NextcloudPool,
    NextcloudProfile,
    NextcloudVersionMap,
)

KINDS: tuple[type[CustomResource[Any, Any]], ...] = (
    NextcloudPool,
    Nextcloud,
    NextcloudInstance,
    NextcloudProfile,
    NextcloudVersionMap,
)
CLAIM = {"namespace": "acme", "name": "main", "uid": "u-1"}
KEEPS = "an assigned Nextcloud keeps its instance"
LABELS = "the API server refuses instances with such labels"
POSTGRESQL = "only PostgreSQL can be managed"
ONCE = "a used instance never goes to another tenant"


def _case(
    kind: str,
    spec: dict[str, Any],
    words: str = "",
    after: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    name: str = "x",
) -> Case:
    """Return a case: a spec that is created, then replaced."""
    obj = {"apiVersion": f"{GROUP}/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    return Case(obj, words, None if after is None else {"spec": after}, status or {})


def _claimed(**claim: Any) -> dict[str, Any]:
    return {"claimRef": {**CLAIM, **claim}}


def _labelled(labels: dict[str, str]) -> dict[str, Any]:
    return {"template": {"metadata": {"labels": labels}}}


def _settings(kind: str, **settings: Any) -> dict[str, Any]:
    """Return the spec of a kind with settings of its instances."""
    nested = {"NextcloudProfile": {"defaults": settings}, "NextcloudPool": {"template": {"spec": settings}}}
    return nested.get(kind, settings)


CASES: dict[str, Case] = {
    "an empty pool": _case("NextcloudPool", {}),
    "a pool of fewer than none": _case("NextcloudPool", {"replicas": -1}, "greater than or equal to 0"),
    "a pool whose name is no label": _case("NextcloudPool", {}, "at most 63 characters", name="p" * 64),
    "a pool with an age in days": _case("NextcloudPool", {"lifecycle": {"maxUnassignedAge": "7d"}}, "should match"),
    "a pool whose instances never get old": _case("NextcloudPool", {"lifecycle": {"maxUnassignedAge": "0s"}}),
    "a pool whose instances live for ten minutes": _case("NextcloudPool", {"lifecycle": {"maxUnassignedAge": "10m"}}),
    "a pool whose instances are too old before they are made": _case(
        "NextcloudPool", {"lifecycle": {"maxUnassignedAge": "1ms"}}, "write at least 10m, or 0s for never"
    ),
    "a pool with an unknown policy": _case("NextcloudPool", {"lifecycle": {"reclaimPolicy": "Recycle"}}, "Unsupported"),
    "a pool with labels": _case("NextcloudPool", _labelled({"tier": "small", "example.com/a_b.c": "", "x": "v1.2_3"})),
    "a pool with a label whose value is no label's": _case("NextcloudPool", _labelled({"tier": "small size"}), LABELS),
    "a pool with a label whose key has a space": _case("NextcloudPool", _labelled({"the tier": "small"}), LABELS),
    "a pool with a label whose key has two domains": _case("NextcloudPool", _labelled({"a/b/c": "small"}), LABELS),
    "a pool with a label whose name is too long": _case("NextcloudPool", _labelled({f"a/{'k' * 64}": "small"}), LABELS),
    **{
        f"{what} for {words}": _case(what, {"allowedNamespaces": allowed}, refusal)
        for what in ("NextcloudPool", "NextcloudInstance")
        for words, allowed, refusal in (
            ("all namespaces", {"from": "All"}, ""),
            ("two namespaces", {"from": "Names", "names": ["a", "b"]}, ""),
            ("namespaces with a label", {"from": "Selector", "selector": {"matchLabels": {"team": "a"}}}, ""),
            ("nobody knows whom", {}, "Required value"),
            ("names without names", {"from": "Names"}, "names are needed with from: Names"),
            ("all namespaces and a name", {"from": "All", "names": ["a"]}, "names are needed with from: Names"),
            ("a selector without a selector", {"from": "Selector"}, "a selector is needed with from: Selector"),
            ("an empty selector", {"from": "Selector", "selector": {}}, "an empty selector would select every"),
        )
    },
    "a Nextcloud with a selector that no label meets": _case(
        "Nextcloud", {"poolSelector": {"matchLabels": {"tier": "-small"}}}, LABELS
    ),
    **{
        f"a {kind} whose managed database is {type_}": _case(
            kind, _settings(kind, database={"managed": True, "type": type_}), POSTGRESQL
        )
        for kind in ("NextcloudProfile", "NextcloudPool", "Nextcloud", "NextcloudInstance")
        for type_ in ("mysql", "mariadb", "sqlite")
    },
    **{
        f"a managed database of the type {type_}": _case(
            "NextcloudInstance", {"database": {"managed": True, "type": type_}}
        )
        for type_ in ("postgresql", "postgres", "pgsql")
    },
    "a managed database without a type": _case("NextcloudInstance", {"database": {"managed": True}}),
    "a MySQL elsewhere": _case("NextcloudInstance", {"database": {"managed": False, "type": "mysql"}}),
    "a managed database becomes a MySQL": _case(
        "NextcloudInstance",
        {"database": {"managed": True}},
        POSTGRESQL,
        {"database": {"managed": True, "type": "mysql"}},
    ),
    "an empty Nextcloud": _case("Nextcloud", {}),
    "a Nextcloud with chart values": _case("Nextcloud", {"helm": {"values": {"a": {"b": [1, "two"]}}}}),
    **{
        f"a {kind} whose host is {words}": _case(
            kind, _settings(kind, ingress={"host": host}), "a host is a DNS name in lower case"
        )
        for kind in ("NextcloudProfile", "NextcloudPool", "Nextcloud", "NextcloudInstance")
        for words, host in (
            ("two lines", "a.example.com\n---\nkind: ClusterRoleBinding"),
            ("a template", "{{ .Release.Name }}"),
            ("upper case", "A.example.com"),
            ("a URL", "https://a.example.com"),
        )
    },
    "a Nextcloud with a host": _case("Nextcloud", {"ingress": {"host": "cloud-1.example.com"}}),
    "a Nextcloud with a region that refers to a variable": _case(
        "Nextcloud", {"s3": {"region": "$(AWS_SECRET_ACCESS_KEY)"}}, "a region has letters, digits"
    ),
    "a Nextcloud with a region": _case("Nextcloud", {"s3": {"region": "eu-central-1"}}),
    "a Nextcloud with an app that is an option": _case("Nextcloud", {"apps": ["--all"]}, "should match"),
    "a Nextcloud with an app twice": _case("Nextcloud", {"apps": ["mail", "mail"]}, "Duplicate"),
    "another selector after the assignment": _case(
        "Nextcloud", {}, "", {"poolSelector": {"matchLabels": {"a": "b"}}}, {"instanceRef": {"name": "one"}}
    ),
    "the same instance after the assignment": _case(
        "Nextcloud", {}, "", {"instanceRef": {"name": "one"}}, {"instanceRef": {"name": "one"}}
    ),
    "another instance after the assignment": _case(
        "Nextcloud", {}, KEEPS, {"instanceRef": {"name": "two"}}, {"instanceRef": {"name": "one"}}
    ),
    "another instance before the assignment": _case(
        "Nextcloud", {"instanceRef": {"name": "one"}}, "", {"instanceRef": {"name": "two"}}
    ),
    "a bound instance that is no longer named": _case(
        "Nextcloud", {"instanceRef": {"name": "one"}}, KEEPS, {}, {"instanceRef": {"name": "one"}}
    ),
    "an instance": _case("NextcloudInstance", {}),
    "an instance whose name is too long for its database": _case(
        "NextcloudInstance", {}, "at most 47 lower-case letters", name="n" * 48
    ),
    "an instance with a dot in its name": _case("NextcloudInstance", {}, "at most 47 lower-case letters", name="a.b"),
    "an instance whose name no Service can have": _case("NextcloudInstance", {}, "begins with a letter", name="0a"),
    "an instance is taken": _case("NextcloudInstance", {}, "", _claimed()),
    "a taken instance is edited": _case("NextcloudInstance", _claimed(), "", {**_claimed(), "replicas": 2}),
    "a taken instance is released": _case(
        "NextcloudInstance", _claimed(), "claimRef cannot be removed once it is set", {}
    ),
    "a taken instance is given to another": _case("NextcloudInstance", _claimed(), ONCE, _claimed(uid="u-2")),
}


_IN_FORCE = ("a pool whose name is no label", "an instance with a dot in its name", "a Nextcloud with an app twice")
TABLE = Table(KINDS, CASES, [CASES[name] for name in _IN_FORCE])
