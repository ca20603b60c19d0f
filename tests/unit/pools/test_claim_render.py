"""The intent of a Nextcloud for its instance: which annotations of another writer it passes over."""

from __future__ import annotations

import pytest

from konverge.crds.pools_v1alpha1 import Nextcloud
from konverge.reconcilers.pools.claims.render import tenant_intent

UNREADABLE = ("{", "[1]", "null", "\x00", '{"a": ' + "9" * 400 + "x", "[" * 50_000, '{"a":' * 50_000)


@pytest.mark.parametrize("text", UNREADABLE, ids=range(len(UNREADABLE)))
@pytest.mark.parametrize("annotation", ["defaults", "before", "replaced"])
def test_an_annotation_that_another_writer_made_unreadable_adds_no_field(annotation: str, text: str) -> None:
    claim = Nextcloud.decode({"metadata": {"name": "n", "namespace": "web", "uid": "u"}, "spec": {"replicas": 2}})
    plain = tenant_intent(claim, "i", "clouds").to_dict()
    assert tenant_intent(claim, "i", "clouds", **{annotation: text}).to_dict()["spec"] == plain["spec"]  # type: ignore[arg-type]  # by name
