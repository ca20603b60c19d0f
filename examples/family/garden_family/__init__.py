"""Gardens: a family of a distribution of its own, which the daemon hosts beside konverge's families (docs/guide/families.md)."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

import konverge as kv
from konverge.families import Family, FamilyChart

PLAN = kv.kind("v1", "ConfigMap")


class GardenSpec(kv.Model):
    beds: Annotated[int, Field(ge=1)] = 1


@kv.resource("gardens.example.com/v1", conditions=("Ready",), written_by="tenants")
class Garden(kv.CustomResource[GardenSpec, kv.Status]):
    """A garden, and the plan of its beds."""


class GardenSettings(BaseModel):
    """How gardens are planned."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    most_beds: Annotated[int, Field(ge=1)] = 8
    """Beds of a garden at most."""


class GardenReconciler:
    def __init__(self, settings: GardenSettings) -> None:
        self._settings = settings

    async def reconcile(self, garden: Garden, ctx: kv.Context[Garden]) -> kv.Outcome:
        beds = min(garden.spec.beds, self._settings.most_beds)
        await ctx.own(PLAN.new(f"{garden.name}-plan", garden.namespace, data={"beds": str(beds)}))
        ctx.status.set_condition("Ready", True, "Planned", f"{beds} of {garden.spec.beds} beds are planned")
        return kv.Done()


def install(manager: kv.Manager, settings: GardenSettings) -> None:
    manager.add(kv.Controller.of(Garden).owns(PLAN).reconciled_by(GardenReconciler(settings)))


FAMILY = Family(
    name="gardens",
    summary="Gardens and their plans",
    settings=GardenSettings,
    install=install,
    kinds=(Garden,),
    documentation="https://example.com/gardens",
    chart=FamilyChart(folder=Path(__file__).parent / "chart"),
    samples=Path(__file__).parent / "samples.yaml",
)
