"""Volumes whose region may not exist (docs/how-to/terminal-error.md)."""

import konverge as kv

REGIONS = ("east", "west")


class VolumeSpec(kv.Model):
    region: str


@kv.resource("howto.example.com/v1", conditions=("Ready",))
class Volume(kv.CustomResource[VolumeSpec, kv.Status]):
    """A volume in a region."""


class VolumeReconciler:
    async def reconcile(self, volume: Volume, ctx: kv.Context[Volume]) -> kv.Outcome:
        if volume.spec.region not in REGIONS:
            ctx.status.set_condition("Ready", False, "UnknownRegion", f"set spec.region to one of {', '.join(REGIONS)}")
            raise kv.Terminal("the region does not exist")
        ctx.status.set_condition("Ready", True, "Created")
        return kv.Done()


def build(manager: kv.Manager) -> None:
    manager.add(kv.Controller.of(Volume).reconciled_by(VolumeReconciler()))
