"""A kind in three versions: v1 is the hub, v1beta1 counts litres and holds neither colour nor speeds, v1alpha1 has a name only."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

import konverge as kv
from konverge.crds import ListMap

GROUP = "tanks.example.com"
V1, BETA, ALPHA = f"{GROUP}/v1", f"{GROUP}/v1beta1", f"{GROUP}/v1alpha1"


class Pump(kv.Model):
    name: str
    speed: int = 1


class Volume(kv.Model):
    millilitres: Annotated[int, Field(ge=0, le=10**12)]


class TankSpec(kv.Model):
    volume: Volume
    colour: str | None = None
    lid: str = "open"
    pumps: Annotated[tuple[Pump, ...], ListMap("name")] = ()


class TankStatus(kv.Status):
    level: int | None = None


class BetaPump(kv.Model):
    name: str


class BetaSpec(kv.Model):
    litres: Annotated[int, Field(ge=0, le=10**9)]
    lid: str = "open"
    pumps: Annotated[tuple[BetaPump, ...], ListMap("name")] = ()


class AlphaSpec(kv.Model):
    litres: Annotated[int, Field(ge=0, le=10**9)] = 1


@kv.resource(V1, conditions=("Ready",))
class Tank(kv.CustomResource[TankSpec, TankStatus]):
    """A tank."""


@kv.resource(BETA, kind="Tank", storage=False, deprecated="use tanks.example.com/v1")
class BetaTank(kv.CustomResource[BetaSpec, TankStatus]):
    """A tank in whole litres."""


@kv.resource(ALPHA, kind="Tank", storage=False, served=True)
class AlphaTank(kv.CustomResource[AlphaSpec, TankStatus]):
    """The first tank."""


def from_beta(old: BetaTank) -> Tank:
    spec = TankSpec(
        volume=Volume(millilitres=old.spec.litres * 1000),
        lid=old.spec.lid,
        pumps=tuple(Pump(name=pump.name) for pump in old.spec.pumps),
    )
    return Tank(spec=spec, status=old.status)


def to_beta(new: Tank) -> BetaTank:
    spec = BetaSpec(
        litres=new.spec.volume.millilitres // 1000,
        lid=new.spec.lid,
        pumps=tuple(BetaPump(name=pump.name) for pump in new.spec.pumps),
    )
    return BetaTank(spec=spec, status=new.status)


def from_alpha(old: AlphaTank) -> Tank:
    return Tank(spec=TankSpec(volume=Volume(millilitres=old.spec.litres * 1000)), status=old.status)


def to_alpha(new: Tank) -> AlphaTank:
    return AlphaTank(spec=AlphaSpec(litres=new.spec.volume.millilitres // 1000), status=new.status)


TANKS = (
    kv.Conversion.of(Tank)
    .version(BetaTank, up=from_beta, down=to_beta)
    .version(AlphaTank, up=from_alpha, down=to_alpha)
)
KEEPING = TANKS.keeping_lost_fields()


def tank(api_version: str, spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a tank as the API server sends it."""
    metadata = {"name": "a", "namespace": "web", "uid": "1", **more.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": "Tank", "metadata": metadata, "spec": spec, **more}
