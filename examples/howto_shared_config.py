"""Apps that read ConfigMaps which they do not own (docs/how-to/shared-config.md)."""

from collections.abc import Iterable

import konverge as kv

CONFIG_MAP = kv.kind("v1", "ConfigMap")


class AppSpec(kv.Model):
    config: str
    """The name of a ConfigMap in the namespace of the App."""


@kv.resource("howto.example.com/v1", conditions=("Ready",))
class App(kv.CustomResource[AppSpec, kv.Status]):
    """An application with a shared configuration."""


class AppReconciler:
    async def reconcile(self, app: App, ctx: kv.Context[App]) -> kv.Outcome:
        config = ctx.cache(CONFIG_MAP).find(app.namespace, app.spec.config)
        if config is None:
            ctx.status.set_condition("Ready", False, "ConfigMissing", f"create the ConfigMap {app.spec.config}")
        else:
            ctx.status.set_condition("Ready", True, "Configured", f"the color is {config.get('data', 'color')}")
        return kv.Done()


def config_of(app: App) -> Iterable[str]:
    return (f"{app.namespace}/{app.spec.config}",)


def apps_using(config: kv.Object, caches: kv.Caches) -> Iterable[kv.Key]:
    names = {app.name for app in caches(App).by_index("config", config.metadata.path)}
    return [key for key in caches(App).keys(config.namespace) if key.name in names]


def build(manager: kv.Manager) -> None:
    controller = kv.Controller.of(App).indexes(App, "config", by=config_of).watches(CONFIG_MAP, to=apps_using)
    manager.add(controller.reconciled_by(AppReconciler()))
