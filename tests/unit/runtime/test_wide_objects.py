"""An object whose number of values would block the event loop for too long is reported, and its neighbours do not wait."""

from __future__ import annotations

from typing import Annotated, Any

from widgets import By

import konverge as kv
from konverge.crds import PreserveUnknown
from konverge_testing import Lab


class WideSpec(kv.Model):
    values: Annotated[dict[str, Any], PreserveUnknown()]


@kv.resource("wide.example.com/v1", conditions=("Ready", "Blocked"))
class Wide(kv.CustomResource[WideSpec, kv.Status]):
    """It holds anything."""


async def test_object_with_too_many_values_is_reported_and_can_be_fixed(lab: Lab) -> None:
    async def reconcile(wide: Wide, ctx: kv.Context[Wide]) -> kv.Outcome:
        ctx.status.set_condition("Ready", True, "Fine", f"{len(wide.spec.values)} values")
        return kv.Done()

    sentence = kv.Controller.of(Wide).invalid_as("Blocked", "ValidationFailed")
    await lab.start(lambda manager: manager.add(sentence.reconciled_by(By(reconcile))))
    values = ",".join(f'"k{number:x}":0' for number in range(120_000))
    body = f'{{"apiVersion":"wide.example.com/v1","kind":"Wide","metadata":{{"name":"wide"}},"spec":{{"values":{{{values}}}}}}}'
    await lab.client.raw("POST", f"/apis/wide.example.com/v1/namespaces/{lab.namespace}/wides", body=body.encode())
    await lab.create(Wide.new("neighbour", spec=WideSpec(values={})))
    await lab.until(Wide, "neighbour", kv.is_true("Ready"))
    await lab.until(Wide, "wide", kv.is_false("Ready"))
    wide = await lab.until(Wide, "wide", kv.is_true("Blocked"))
    assert wide.condition("Blocked").reason == "ValidationFailed"
    assert "more than 100,000; make it flatter and smaller" in wide.condition("Blocked").message
    change = [{"op": "replace", "path": "/spec/values", "value": {"a": 1}}]
    await lab.client.patch(Wide, "wide", lab.namespace, patch=change, style="json")
    await lab.until(Wide, "wide", kv.is_true("Ready"))
    await lab.delete(Wide, "wide")
    await lab.until_gone(Wide, "wide")
