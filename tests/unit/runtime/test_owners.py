import pytest

from konverge.errors import NotOurs, OwnershipError
from konverge.keys import Key
from konverge.kinds import kind
from konverge.objects import Metadata, Object, OwnerReference
from konverge.runtime.apply.owners import (
    back_reference,
    by_back_reference,
    check_scope,
    controller_reference,
    owner_of,
    refuse_foreign,
)

BACKUP = kind("example.com/v1", "Backup")
JOB = kind("batch/v1", "Job")
OWNER = Metadata(name="nightly", namespace="web", uid="owner-uid")


def reference(uid: str, *, controller: bool = True) -> OwnerReference:
    return OwnerReference("example.com/v1", "Backup", "nightly", uid, controller)


def test_an_owner_in_the_same_namespace_is_accepted() -> None:
    check_scope(BACKUP, OWNER, Key("", JOB, "web", "a"), child_namespaced=True)
    check_scope(BACKUP, Metadata(name="cluster-wide"), Key("", JOB, "web", "a"), child_namespaced=True)


@pytest.mark.parametrize(("namespace", "namespaced"), [("shop", True), ("", False)])
def test_owner_that_the_collector_would_ignore_is_refused_with_the_helper(namespace: str, namespaced: bool) -> None:
    with pytest.raises(OwnershipError, match="back_reference"):
        check_scope(BACKUP, OWNER, Key("", JOB, namespace, "a"), child_namespaced=namespaced)


def test_a_child_under_our_reference_is_ours() -> None:
    refuse_foreign(
        OWNER,
        BACKUP,
        Key("", JOB, "web", "a"),
        Metadata(name="a", owner_references=(reference("owner-uid"),)),
        adopt=False,
    )


def test_a_namesake_of_the_owner_is_not_the_owner() -> None:
    existing = Metadata(name="a", owner_references=(reference("another-uid"),))
    with pytest.raises(NotOurs, match="controlled by Backup nightly"):
        refuse_foreign(OWNER, BACKUP, Key("", JOB, "web", "a"), existing, adopt=True)


def test_an_object_without_controller_is_refused_unless_adopted() -> None:
    existing = Metadata(name="a", owner_references=(reference("owner-uid", controller=False),))
    with pytest.raises(
        NotOurs, match=r"give it an owner reference to Backup nightly \(uid owner-uid\) with controller: true"
    ) as refusal:
        refuse_foreign(OWNER, BACKUP, Key("", JOB, "web", "a"), existing, adopt=False)
    assert "adopt=" not in str(refusal.value)  # statuses quote it, and their readers call no verb of the library
    refuse_foreign(OWNER, BACKUP, Key("", JOB, "web", "a"), existing, adopt=True)


def test_a_controller_reference_blocks_the_deletion_of_the_owner() -> None:
    written = controller_reference(BACKUP, OWNER)
    assert (written["controller"], written["blockOwnerDeletion"], written["uid"]) == (True, True, "owner-uid")


def test_a_back_reference_leads_back_across_namespaces() -> None:
    owner = Object(
        {
            "apiVersion": "example.com/v1",
            "kind": "Backup",
            "metadata": {"name": "nightly", "namespace": "web", "uid": "u"},
        }
    )
    labels, annotations = back_reference(owner)
    child = Metadata(name="c", namespace="velero", labels=labels, annotations=annotations)
    assert owner_of(BACKUP, child) == Key("", BACKUP, "web", "nightly")
    assert owner_of(JOB, child) is None
    assert list(by_back_reference(BACKUP)(child, None)) == [Key("", BACKUP, "web", "nightly")]  # type: ignore[arg-type]  # caches are not read


def test_a_cluster_scoped_owner_is_found_by_its_back_reference() -> None:
    owner = Object({"apiVersion": "example.com/v1", "kind": "Backup", "metadata": {"name": "all", "uid": "u"}})
    labels, annotations = back_reference(owner)
    assert owner_of(BACKUP, Metadata(labels=labels, annotations=annotations)) == Key("", BACKUP, "", "all")
