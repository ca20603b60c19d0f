"""Logins whose passwords are read and not cached (docs/how-to/live-secret.md)."""

from collections.abc import Iterable

import konverge as kv

SECRET = kv.kind("v1", "Secret")


@kv.resource("howto.example.com/v1", conditions=("Ready",))
class Login(kv.CustomResource[kv.Model, kv.Status]):
    """A login; its password is in the Secret of the same name."""


class LoginReconciler:
    async def reconcile(self, login: Login, ctx: kv.Context[Login]) -> kv.Outcome:
        secret = await ctx.live(SECRET).find(login.namespace, login.name)
        if secret is None or not secret.get("data", "password"):
            ctx.status.set_condition(
                "Ready", False, "PasswordMissing", f"write a password into the Secret {login.name}"
            )
        else:
            ctx.status.set_condition("Ready", True, "PasswordRead")
        return kv.Done()


def same_name(secret: kv.Metadata, caches: kv.Caches) -> Iterable[kv.Key]:
    return [key for key in caches(Login).keys(secret.namespace) if key.name == secret.name]


def build(manager: kv.Manager) -> None:
    controller = kv.Controller.of(Login).watches(SECRET, to=same_name, metadata_only=True).reads_live(SECRET)
    manager.add(controller.reconciled_by(LoginReconciler()))
