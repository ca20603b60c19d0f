"""Mailboxes in a service that allows five calls a second (docs/how-to/rate-limit.md)."""

import asyncio

import konverge as kv


@kv.resource("howto.example.com/v1", conditions=("Ready",))
class Mailbox(kv.CustomResource[kv.Model, kv.Status]):
    """A mailbox in a service outside of the cluster."""


class MailboxReconciler:
    def __init__(self) -> None:
        self._calls = kv.Bucket[kv.Key](rate=5, burst=10)

    async def reconcile(self, mailbox: Mailbox, ctx: kv.Context[Mailbox]) -> kv.Outcome:
        await asyncio.sleep(self._calls.when(ctx.key, asyncio.get_running_loop().time()))
        await self.call(mailbox.name)
        ctx.status.set_condition("Ready", True, "Created")
        return kv.Done()

    async def call(self, name: str) -> None:
        """Send the request to the service."""


def build(manager: kv.Manager) -> None:
    manager.add(kv.Controller.of(Mailbox).with_(concurrency=20).reconciled_by(MailboxReconciler()))
