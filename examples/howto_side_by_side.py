"""Two operators of one kind, each with its own objects (docs/how-to/side-by-side.md)."""

from collections.abc import Callable

import konverge as kv

CONFIG_MAP = kv.kind("v1", "ConfigMap")
TRACK = "howto.example.com/track"


@kv.resource("howto.example.com/v1", conditions=("Ready",))
class Banner(kv.CustomResource[kv.Model, kv.Status]):
    """A banner on a page."""


class BannerReconciler:
    def __init__(self, track: str) -> None:
        self._track = track

    async def reconcile(self, banner: Banner, ctx: kv.Context[Banner]) -> kv.Outcome:
        await ctx.own(CONFIG_MAP.new(banner.name, banner.namespace, data={"track": self._track}))
        ctx.status.set_condition("Ready", True, "Shown")
        return kv.Done()


def build_for(track: str) -> Callable[[kv.Manager], None]:
    def build(manager: kv.Manager) -> None:
        controller = kv.Controller.of(Banner).selecting(f"{TRACK}={track}").owns(CONFIG_MAP)
        manager.add(controller.reconciled_by(BannerReconciler(track)))

    return build


build_stable, build_canary = build_for("stable"), build_for("canary")
