"""The examples of docs/guide/pools.md in the order of the page, and the claims of docs/guide/pools-migration.md."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pools.lab import Clouds
from pools.materials import NAME, Materials

from konverge.crds.pools_v1alpha1 import Nextcloud, NextcloudInstance, NextcloudPool
from konverge.kinds import kind_of
from konverge.objects import Object
from konverge.reconcilers.pools.kinds import INSTANCE
from konverge.reconcilers.pools.words import PoolsLabel
from konverge.reconcilers.shared.helm_release.kinds import HELM_RELEASE
from konverge_testing import Lab

GUIDE = Path(__file__).parents[3] / "docs" / "guide"
if not GUIDE.exists():
    pytest.skip("docs/ is not part of the wheel", allow_module_level=True)
EXAMPLES: list[dict[str, Any]] = [
    document
    for block in re.findall(r"^```yaml\n(.*?)^```$", (GUIDE / "pools.md").read_text(), re.MULTILINE | re.DOTALL)
    for document in yaml.safe_load_all(block)
]


async def apply(here: Clouds, document: dict[str, Any]) -> None:
    found = Object(document)
    namespace = "" if found.kind_name in ("NextcloudPool", "NextcloudProfile") else here.lab.namespace
    if namespace:
        document = {**document, "metadata": {**document["metadata"], "namespace": namespace}}
    await here.lab.client.create(kind_of(found).decode(document))


async def test_each_of_the_four_modes_works_as_the_guide_describes(clouds: Clouds) -> None:
    here = await clouds.start()
    for document in EXAMPLES:
        if document["metadata"]["name"] == "by-reference":
            await apply(here, document)
            await here.says("by-reference", "False", "InstanceNotFound")
            await here.instance("nc-made-by-hand")
            continue
        await apply(here, document)
        if document["kind"] == "NextcloudPool":
            await here.filled("small")
    reasons = {"from-a-pool": "Assigned", "by-reference": "Bound", "from-a-profile": "Created", "bare": "Created"}
    specs: dict[str, Any] = {}
    for name, reason in reasons.items():
        served = await here.says(name, "True", reason)
        assert served.status.instance_ref is not None
        specs[name] = (await here.lab.get(NextcloudInstance, served.status.instance_ref.name)).spec
    assert (specs["from-a-pool"].version, specs["from-a-pool"].ingress.host) == ("33.0.1", "cloud.example.com")
    assert (specs["from-a-profile"].version, specs["from-a-profile"].replicas) == ("33.0.1", 2)
    assert (specs["bare"].version, specs["bare"].profile) == (None, None)
    assert await here.events("BareFreshCreation")
    await here.filled("small")


def migration_patch(kind: str, words: dict[str, str]) -> dict[str, Any]:
    """Return the page's patch for a kind and the name of its object, with the placeholders in capitals replaced."""
    page = (GUIDE / "pools-migration.md").read_text()
    [found] = re.findall(rf"patch {kind} --type merge -p '(\{{\n.*?)'\n", page, re.DOTALL)
    patch: dict[str, Any] = json.loads(re.sub("|".join(words), lambda word: words[word[0]], found))
    return patch


async def test_original_instance_keeps_its_tenant_after_the_documented_move(clouds: Clouds) -> None:
    here = await clouds.start()
    await here.lab.stop()
    taken = {PoolsLabel.ASSIGNED: PoolsLabel.TRUE, "tier": "small"}
    taken[PoolsLabel.POOL] = "small"
    await here.instance("nc-old-one-a1b2c3", taken, replicas=3)
    await here.instance("nc-free-one-a1b2c3", {**taken, PoolsLabel.ASSIGNED: PoolsLabel.FALSE})
    await here.pool(replicas=1, allowedNamespaces=None)
    claim = await here.claim(replicas=3)
    status = {"status": {"instanceRef": {"name": "nc-old-one-a1b2c3", "namespace": here.lab.namespace}}}
    await here.lab.patch(Nextcloud, "main", status, subresource="status")
    words = {"UID": claim.uid, "TENANT": here.lab.namespace, "NEXTCLOUD": "main"}
    await here.patch(NextcloudPool, "small", migration_patch("nextcloudpool POOL", words), "")
    await here.run()
    await here.says("main", "False", "InstanceNotFound")
    await here.claim("next", tier="small")
    await here.says("next", "True", "Assigned")
    await here.patch(INSTANCE, "nc-old-one-a1b2c3", migration_patch("nextcloudinstance INSTANCE", words))
    served = await here.assigned()
    assert served.status.instance_ref is not None
    assert served.status.instance_ref.name == "nc-old-one-a1b2c3"
    free = await here.lab.get(NextcloudInstance, "nc-free-one-a1b2c3")
    assert free.spec.claim_ref is not None
    assert free.spec.claim_ref.name == "next"


async def test_helm_release_of_the_original_is_handed_over_as_documented(lab: Lab) -> None:
    here = await Materials(lab).start()
    await here.secret("their-admin", {"username": "admin", "password": "hunter2"})
    await here.secret("their-db", {"host": "percona", "database": "n", "user": "n", "password": "hunter2"})
    values = {"nextcloud": {"existingSecret": {"enabled": True, "secretName": "their-admin"}}, "theirs": True}
    chart = {"chart": "nextcloud", "version": "6.6.9", "sourceRef": {"kind": "HelmRepository", "name": "theirs"}}
    spec = {"interval": "5m", "releaseName": NAME, "chart": {"spec": chart}, "values": values}
    theirs = HELM_RELEASE.new(NAME, lab.namespace, spec=spec)
    await lab.create(theirs)
    before = await lab.get(HELM_RELEASE, NAME)
    admin = {"credentialsSecret": "their-admin"}
    database = {"type": "postgresql", "managed": False, "credentialsSecret": "their-db"}
    await here.create(claimed=True, policy="Retain", database=database, redis=None, s3=None, admin=admin)
    instance = await here.reason("Ready", "ReleaseTaken")
    assert (await lab.get(HELM_RELEASE, NAME)).spec == before.spec, "nothing of it was changed"
    words = {"INSTANCE": NAME, "UID": instance.uid}
    await lab.patch(HELM_RELEASE, NAME, migration_patch("helmrelease INSTANCE", words))
    await lab.until(HELM_RELEASE, NAME, lambda one: bool(one.get("spec", "values")))
    assert "suspended" in (await here.reason("Ready", "Reconciling")).condition("Ready").message
    await lab.patch(HELM_RELEASE, NAME, {"spec": {"suspend": None}})
    await here.phase("Ready")
    after = await lab.get(HELM_RELEASE, NAME)
    assert after.metadata.uid == before.metadata.uid, "Flux upgrades it"
    assert after.get("spec", "values", "nextcloud", "existingSecret", "secretName") == "their-admin"
    assert after.get("spec", "values", "externalDatabase", "existingSecret", "secretName") == "their-db"
    assert f"Cluster/{NAME}-db" not in await here.left()
    assert "theirs" not in after.get("spec", "values")
    assert [one.name for one in after.metadata.owner_references] == [NAME]
    assert await here.left() >= {"Secret/their-admin", f"HelmRelease/{NAME}"}
    assert f"Secret/{NAME}-admin" not in await here.left()
