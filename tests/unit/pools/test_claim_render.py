"""The intent of a Nextcloud for its instance: which annotations of another writer it ignores, and which values it can restore."""

from typing import Any

import pytest

from konverge.crds.pools_v1alpha1 import Nextcloud
from konverge.reconcilers.pools.claims.render import spec_before, tenant_intent
from konverge.reconcilers.pools.kinds import INSTANCE, POOL, PROFILE
from konverge.reconcilers.pools.profiles import merge, profile_digest
from konverge.reconcilers.pools.words import PoolsAnnotation

UNREADABLE = ("{", "[1]", "null", "\x00", '{"a": ' + "9" * 400 + "x", "[" * 50_000, '{"a":' * 50_000)


@pytest.mark.parametrize("text", UNREADABLE, ids=range(len(UNREADABLE)))
@pytest.mark.parametrize("annotation", ["defaults", "before", "replaced"])
def test_an_annotation_that_another_writer_made_unreadable_adds_no_field(annotation: str, text: str) -> None:
    claim = Nextcloud.decode({"metadata": {"name": "n", "namespace": "web", "uid": "u"}, "spec": {"replicas": 2}})
    plain = tenant_intent(claim, "i", "clouds").to_dict()
    assert tenant_intent(claim, "i", "clouds", **{annotation: text}).to_dict()["spec"] == plain["spec"]  # type: ignore[arg-type]  # by name


POOL_SPEC: dict[str, Any] = {"replicas": 1, "s3": {"enabled": False, "region": "here"}}
DEFAULTS: dict[str, Any] = {"version": "32", "replicas": 9}


@pytest.mark.parametrize(
    ("pool", "stamp", "expected"),
    [
        (True, profile_digest("base", DEFAULTS), {"replicas": 1, "version": "32", "s3": {"region": "here"}}),
        (True, "of another profile", {"replicas": 1, "s3": {"region": "here"}}),
        (False, profile_digest("base", DEFAULTS), {"version": "32", "replicas": 9}),
        (False, "", {}),
    ],
    ids=["all is known", "the profile was edited", "the pool is gone", "neither is known"],
)
def test_instance_taken_without_a_record_gets_pool_values_for_tenant_fields(
    pool: bool, stamp: str, expected: dict[str, Any]
) -> None:
    tenant = {"replicas": 3, "version": "33", "s3": {"region": "there"}, "mail": {"enabled": True}}
    claim = Nextcloud.decode({"metadata": {"name": "n", "namespace": "web", "uid": "u"}, "spec": tenant})
    own = {"apps": ["calendar"], "s3": {"enabled": True}}
    spec = {**tenant, "apps": ["calendar"], "s3": {"enabled": True, "region": "there"}, "claimRef": {"uid": "u"}}
    annotations = {PoolsAnnotation.PROFILE_DIGEST: stamp} if stamp else {}
    found = spec_before(
        claim,
        INSTANCE.new("i", "clouds", annotations=annotations, spec=spec),
        POOL.new("small", spec={"template": {"spec": POOL_SPEC}}) if pool else None,
        PROFILE.new("base", spec={"defaults": DEFAULTS}),
    )
    assert found == merge(expected, own)
